/// The wire format of the store's requests and answers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/transport/secret.h"

namespace rannc::runtime {

/// Requests. Each is answered by one frame: a `StoreAnswer`, then the results listed after the arrow. A worker sends
/// the next request after the answer.
enum class StoreRequest : uint8_t {
  kHello,  ///< kStoreMagic, nonce of the worker → nonce of the server
  kBeat,  ///< work or empty, time without progress in ms → failure or empty, number present, missing ranks as text, the
          ///< last refused worker as text or empty, the most silent rank, its silence in ms, the other worker busy for
          ///< longest: rank, ms, work or empty
  kLeave,  ///< this worker may disconnect from now on
  kGet,    ///< key → 0 or 1, value
  kSet,    ///< key, value
  kAdd,    ///< key, number → sum
  kFail,   ///< reason → the first reported reason
  kProve,  ///< after kHello: rank, workers, proof of the worker → proof of the server. All others need it before
};
constexpr uint64_t kStoreRequests = 8;
enum class StoreAnswer : uint8_t { kDone, kRefused };  ///< kRefused: followed by the reason as text

constexpr std::string_view kStoreMagic = "rannc-store-3";
/// Limits of a frame's size in bytes: of a worker, and of a connection that has not proved the secret.
constexpr size_t kStoreFrameLimit = 1U << 20, kStrangerFrameLimit = 512;
constexpr size_t kStoreFrameLeast = 8;
/// Longest reason of a failure in bytes.
constexpr size_t kStoreReasonLimit = 64U << 10;
/// Digits of a nonce.
constexpr size_t kStoreNonceSize = 64;

/// Writes a frame: its length (4 bytes), then numbers (8 bytes) and length-prefixed texts. All are little-endian.
class StoreWriter {
 public:
  StoreWriter() : bytes_(4, '\0') {}
  StoreWriter& number(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  StoreWriter& text(std::string_view value) {
    number(value.size());
    bytes_ += value;
    return *this;
  }
  /// Returns the frame and ends the writer.
  std::string frame() {
    const auto size = static_cast<uint32_t>(bytes_.size() - 4);
    for (int i = 0; i < 4; ++i) bytes_[static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i) & 0xff);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

/// Decodes the size in a frame's first four bytes.
inline uint32_t store_frame_size(std::string_view head) {
  uint32_t size = 0;
  for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<uint8_t>(head[static_cast<size_t>(i)]);
  return size;
}

/// Reads a frame without its length. Missing fields read as 0 or empty, and the frame is then not `complete`.
class StoreReader {
 public:
  explicit StoreReader(std::string_view bytes) : rest_(bytes) {}
  uint64_t number() {
    uint64_t value = 0;
    if (!has(8)) return 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(rest_[static_cast<size_t>(i)]);
    rest_.remove_prefix(8);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (!has(size)) return {};
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  /// Milliseconds, at most 34 years, which can be added.
  std::chrono::milliseconds time() {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    return std::chrono::milliseconds(std::min(number(), kMost));
  }
  /// Whether all fields were there, and no others.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  bool has(uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    return ok_;
  }
  std::string_view rest_;
  bool ok_ = true;
};

/// What worker and server have said before they prove that they have the secret. Both proofs cover all of it, so that
/// none is of use for another connection, worker or side.
struct StoreHandshake {
  std::string worker_nonce, server_nonce;
  uint64_t rank = 0, workers = 0;

  /// `side` is `worker` or `server`.
  std::string proof(std::string_view secret, std::string_view side) const {
    StoreWriter said;
    said.text(kStoreMagic).text(side).text(worker_nonce).text(server_nonce).number(rank).number(workers);
    return proof_of(secret, said.frame());
  }
};

}  // namespace rannc::runtime
