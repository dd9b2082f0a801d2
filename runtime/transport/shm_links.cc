// A worker's memory file holds a page with a secret and the bell, then a slot per worker with the rings from it. The
// worker passes the file to each peer over a local socket. A peer maps the first page and its own slot.
#include "runtime/transport/internal/shm_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/transport/internal/file_messages.h"
#include "runtime/transport/secret.h"

namespace rannc::runtime {

namespace {

constexpr size_t kMessageRing = 1 << 20, kSumRing = 256 << 10, kPassSumRing = 64 << 10;
constexpr size_t kUnusedRing = 4 << 10;  // for messages of pairs that exchange none
constexpr std::chrono::milliseconds kStoreRetry{2};
constexpr size_t kSecretBytes = 16;
constexpr size_t kQuiet = 16;  // connections that have said nothing, beside one per worker

struct FirstPage {
  char secret[2 * kSecretBytes];
  uint32_t rank;
  uint64_t bytes;  ///< of the file
  alignas(64) Bell bell;
};

size_t round_up(size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

/// Where the rings from each worker lie in a worker's file. Equal in all workers.
class FileLayout {
 public:
  FileLayout(const Rendezvous& where, uint32_t owner) : offsets_{round_up(sizeof(FirstPage))} {
    for (uint32_t from = 0; from < where.workers; ++from) {
      const std::pair<DeviceId, DeviceId> pair{DeviceId(from), DeviceId(owner)};
      const auto holds = [&](const auto& pairs) { return std::find(pairs.begin(), pairs.end(), pair) != pairs.end(); };
      const bool used = !where.pairs || holds(*where.pairs);
      capacities_.push_back({used ? kMessageRing : kUnusedRing, kPassSumRing, kSumRing, kSumRing});
      offsets_.push_back(offsets_.back() + (from == owner ? 0 : slot_bytes(from)));
    }
  }
  size_t file_bytes() const { return offsets_.back(); }
  /// The slot of a worker: its rings for each lane.
  size_t slot_offset(uint32_t from) const { return offsets_[from]; }
  size_t slot_bytes(uint32_t from) const {
    size_t bytes = 0;
    for (const size_t capacity : capacities_[from]) bytes += round_up(ByteRing::memory_bytes(capacity));
    return bytes;
  }
  std::array<ByteRing, kLanes> rings_at(std::byte* slot, uint32_t from) const {
    std::array<ByteRing, kLanes> rings;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      rings[lane] = ByteRing(slot, capacities_[from][lane]);
      slot += round_up(ByteRing::memory_bytes(capacities_[from][lane]));
    }
    return rings;
  }

 private:
  std::vector<std::array<size_t, kLanes>> capacities_;  // by worker
  std::vector<size_t> offsets_;                         // by worker, then the end
};

using Ranks = std::set<uint32_t>;

std::string text_of(const Ranks& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

Ranks ranks_of(const std::string& text) {
  std::istringstream words(text);
  Ranks ranks;
  for (uint32_t rank = 0; words >> rank;) ranks.insert(rank);
  return ranks;
}

}  // namespace

/// The steps by which workers attach.
class ShmHandshake {
 public:
  ShmHandshake(StoreClient& client, const Rendezvous& where, const std::function<std::optional<Diagnostic>()>& failure)
      : client_(client), where_(where), failure_(failure), own_layout_(where, where.rank) {}

  Result<ShmLinks> run() {
    RANNC_TRY(make_memory());
    RANNC_ASSIGN(const std::string address, random_hex(kSecretBytes));
    RANNC_ASSIGN(OwnedFile listener, listen_at("rannc-" + address));
    RANNC_TRY(publish("address", address + secret_));
    for (uint32_t rank = 0; rank < where_.workers; ++rank) {
      RANNC_ASSIGN(std::string found, read("address", rank));
      addresses_.push_back(std::move(found));
    }
    RANNC_TRY(connect_to_higher());
    RANNC_TRY(answer_lower(std::move(listener)));
    RANNC_TRY(hear_higher());
    RANNC_TRY(agree());
    return std::move(links_);
  }

 private:
  std::string address_of(uint32_t rank) const { return "rannc-" + addresses_[rank].substr(0, 2 * kSecretBytes); }
  std::string secret_of(uint32_t rank) const { return addresses_[rank].substr(2 * kSecretBytes); }

  Result<void> make_memory() {
    RANNC_ASSIGN(secret_, random_hex(kSecretBytes));
    RANNC_ASSIGN(links_.own_, SharedMemory::create(own_layout_.file_bytes()));
    auto* const page = reinterpret_cast<FirstPage*>(links_.own_.data());
    std::memcpy(page->secret, secret_.data(), sizeof(page->secret));
    page->rank = where_.rank;
    page->bytes = own_layout_.file_bytes();
    links_.bell_ = &page->bell;
    links_.peers_.resize(where_.workers);
    return {};
  }

  Result<void> connect_to_higher() {
    Ranks reached;
    for (uint32_t rank = where_.rank + 1; rank < where_.workers; ++rank) {
      OwnedFile socket = connect_to_address(address_of(rank));
      if (!socket.valid() || !send_with_file(socket, hello(rank), links_.own_.file())) continue;
      higher_.emplace_back(rank, std::move(socket));
      reached.insert(rank);
    }
    return publish("reached", text_of(reached));
  }

  /// Connections of other programs that say nothing keep no worker waiting.
  Result<void> answer_lower(OwnedFile listener) {
    Ranks expected;
    for (uint32_t rank = 0; rank < where_.rank; ++rank) {
      RANNC_ASSIGN(const std::string reached, read("reached", rank));
      if (ranks_of(reached).contains(where_.rank)) expected.insert(rank);
    }
    std::vector<OwnedFile> sockets;  // the listener, then the connections that have said nothing
    sockets.push_back(std::move(listener));
    for (RunningClock clock; !expected.empty();) {
      const std::vector<size_t> ready = await_any(sockets);
      if (clock.now() >= where_.timeout || failure_()) return gave_up(*expected.begin());
      for (auto index = ready.rbegin(); index != ready.rend() && *index > 0; ++index) {
        answer_one(sockets[*index], expected);
        sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(*index));
      }
      if (!ready.empty() && ready.front() == 0) sockets.push_back(accept_from(sockets.front()));
      if (sockets.back().valid() && sockets.size() <= kQuiet + where_.workers) continue;
      if (!sockets.back().valid()) sockets.pop_back();
      if (sockets.size() == 1) return error("cannot accept a connection at a local socket: too many files are open");
      sockets.erase(sockets.begin() + 1);  // the oldest
    }
    return {};
  }

  void answer_one(const OwnedFile& socket, Ranks& expected) {
    const auto [text, file] = receive_with_file(socket, kHelloBytes, [] { return false; });
    const auto rank = std::find_if(expected.begin(), expected.end(), [&, &said = text](uint32_t each) {
      return equal_secrets(said, hello_of(each, secret_));
    });
    if (rank == expected.end() || !file.valid()) return;  // another program
    if (map(*rank, file.get())) send_with_file(socket, hello(*rank), links_.own_.file());
    expected.erase(rank);
  }

  Result<void> hear_higher() {
    for (const auto& [rank, socket] : higher_) {
      RunningClock clock;
      const GoesOn goes_on = [&] { return clock.now() < where_.timeout && !failure_(); };
      const auto [text, file] = receive_with_file(socket, kHelloBytes, goes_on);
      if (!goes_on()) return gave_up(rank);
      if (file.valid() && equal_secrets(text, hello_of(rank, secret_))) map(rank, file.get());
    }
    return {};
  }

  /// Drops the peers to which only one side is attached.
  Result<void> agree() {
    Ranks own;
    for (uint32_t rank = 0; rank < where_.workers; ++rank) {
      if (links_.peers_[rank].bell != nullptr) own.insert(rank);
    }
    RANNC_TRY(publish("attached", text_of(own)));
    links_.all_attached_ = true;
    for (uint32_t rank = 0; rank < where_.workers; ++rank) {
      RANNC_ASSIGN(const std::string text, read("attached", rank));
      const Ranks attached = ranks_of(text);
      if (!attached.contains(where_.rank)) links_.peers_[rank] = {};
      links_.all_attached_ &= attached.size() + 1 == where_.workers;
    }
    return {};
  }

  /// Returns whether the file is the memory of that worker.
  bool map(uint32_t rank, int file) {
    auto first = SharedMemory::map(file, 0, sizeof(FirstPage));
    if (!first.ok()) return false;
    auto* const page = reinterpret_cast<FirstPage*>(first->data());
    const FileLayout layout(where_, rank);
    const bool expected = equal_secrets({page->secret, sizeof(page->secret)}, secret_of(rank)) && page->rank == rank &&
                          page->bytes == layout.file_bytes();
    auto slot = SharedMemory::map(file, layout.slot_offset(where_.rank), layout.slot_bytes(where_.rank));
    if (!expected || !slot.ok()) return false;
    std::byte* const own_slot = links_.own_.data() + own_layout_.slot_offset(rank);
    links_.peers_[rank] = {&page->bell, layout.rings_at(slot->data(), where_.rank),
                           own_layout_.rings_at(own_slot, rank)};
    links_.mapped_.push_back(*std::move(first));
    links_.mapped_.push_back(*std::move(slot));
    return true;
  }

  static constexpr size_t kHelloBytes = 64;
  /// The first message of worker `from` to the worker of that secret.
  static std::string hello_of(uint32_t from, const std::string& secret) { return fmt::format("{} {}", secret, from); }
  std::string hello(uint32_t to) const { return hello_of(where_.rank, secret_of(to)); }

  Diagnostic gave_up(uint32_t rank) const {
    return failure_().value_or(
        error(fmt::format("waited {} ms for worker {} to attach shared memory", where_.timeout.count(), rank)));
  }

  Result<void> publish(const char* what, const std::string& text) {
    return client_.set(fmt::format("shm/{}/{}", what, where_.rank), text);
  }

  Result<std::string> read(const char* what, uint32_t rank) {
    for (RunningClock clock; clock.now() < where_.timeout; std::this_thread::sleep_for(kStoreRetry)) {
      RANNC_ASSIGN(const auto found, client_.get(fmt::format("shm/{}/{}", what, rank)));
      if (found) return *found;
      if (auto failure = failure_()) return *failure;
    }
    return gave_up(rank);
  }

  StoreClient& client_;
  const Rendezvous& where_;
  const std::function<std::optional<Diagnostic>()>& failure_;
  const FileLayout own_layout_;
  std::string secret_;
  std::vector<std::string> addresses_;  // by rank, each followed by the secret
  std::vector<std::pair<uint32_t, OwnedFile>> higher_;
  ShmLinks links_;
};

Result<ShmLinks> ShmLinks::attach(StoreClient& client, const Rendezvous& where,
                                  const std::function<std::optional<Diagnostic>()>& failure) {
  return ShmHandshake(client, where, failure).run();
}

void ShmLinks::separate(const std::vector<uint32_t>& groups, uint32_t own_rank) {
  for (uint32_t rank = 0; rank < groups.size(); ++rank) {
    if (groups[rank] != groups[own_rank]) peers_[rank] = {};
    all_attached_ &= groups[rank] == groups.front();
  }
}

}  // namespace rannc::runtime
