/// Bytes that a connection sends to the store never crash it, and it buffers no more than a frame of them. They have no
/// effect before the secret is proved. The answers to a worker do not depend on how the bytes are divided.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ir/base/diagnostic.h"
#include "runtime/transport/internal/store_service.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/transport/fuzz/frames.h"

namespace {

using namespace rannc::runtime;
constexpr std::chrono::milliseconds kNow{1000};
constexpr size_t kPart = 4096;  // as the server reads

/// A store with a worker and a connection.
struct Store {
  Store() { worker.rank = 0; }
  StorePeer& admit() {
    service.admit({}, "", kNow);
    return service.peers().back();
  }
  std::string ask_worker(StoreWriter request) {
    worker.in = request.frame();
    service.serve(worker, kNow);
    return std::exchange(worker.out, {});
  }
  StoreService service{3, "a secret that the input does not have", std::chrono::minutes(1)};
  StorePeer& worker = admit();
  StorePeer& peer = admit();
};

/// Returns the answers.
std::string send(Store& store, std::string_view bytes, size_t part) {
  StorePeer& peer = store.peer;
  std::string answers;
  for (; !bytes.empty() && !peer.closed && !peer.ends; bytes.remove_prefix(std::min(part, bytes.size()))) {
    peer.in += bytes.substr(0, part);
    do {
      answers += peer.out;
      peer.out.clear();
      store.service.serve(peer, kNow);
      if (peer.out.empty()) continue;
      RANNC_CHECK(peer.out.size() == 4 + size_t{store_frame_size(peer.out)}) << "an answer is one frame";
      RANNC_CHECK(peer.out.size() <= 4 + kStoreFrameLimit) << "a client would not take this answer";
    } while (!peer.out.empty());
    RANNC_CHECK(peer.in.size() < peer.frame_limit()) << "more than a frame waits";
  }
  store.service.depart(peer);
  store.service.judge(kNow);
  return answers;
}

StoreWriter request(StoreRequest ask) { return std::move(StoreWriter().number(static_cast<uint64_t>(ask))); }

void send_as_stranger(std::string_view bytes) {
  Store store;
  const std::string beat = store.ask_worker(request(StoreRequest::kBeat).text("").number(0));
  send(store, bytes, kPart);
  RANNC_CHECK(!store.peer.rank) << "a stranger has joined";
  const std::string later = store.ask_worker(request(StoreRequest::kBeat).text("").number(0));
  // A refused worker is reported.
  RANNC_CHECK(later.size() >= beat.size() && later.substr(4, 24) == beat.substr(4, 24)) << "a stranger had an effect";
}

std::string send_as_worker(std::string_view bytes, size_t part) {
  Store store;
  store.peer.rank = 1;
  return send(store, bytes, part);
}

void read_as_answer(std::string_view bytes) {
  constexpr int kFields = 10;  // of the longest answer
  StoreReader reader(bytes);
  for (int field = 0; field < kFields; ++field) {
    RANNC_CHECK(reader.text().size() <= bytes.size()) << "a text that is longer than its frame";
    RANNC_CHECK(reader.time().count() >= 0) << "a negative time";
  }
  RANNC_CHECK(!reader.complete() || bytes.size() >= kFields * 2 * sizeof(uint64_t)) << "fields are missing";
}

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  const std::string bytes = bytes_of(text);
  send_as_stranger(bytes);
  read_as_answer(bytes);
  const std::string answers = send_as_worker(bytes, kPart);
  if (bytes.size() <= kPart)
    RANNC_CHECK(answers == send_as_worker(bytes, 7)) << "the answers depend on how the bytes are divided";
  return !answers.empty();
}
