/// Answers the requests of the store's connections.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/internal/store_wire.h"

namespace rannc::runtime {

/// One connection. It is a stranger until it has proved the secret.
struct StorePeer {
  OwnedFile socket = {};
  std::string from = {};  ///< numeric address, for messages
  std::string in = {}, out = {};
  std::optional<uint32_t> rank = {};  ///< set when it has joined
  bool left = false;
  bool ends = false;    ///< to be closed once `out` is sent
  bool closed = false;  ///< lost, or to be closed
  std::chrono::milliseconds since{0}, heard{0};
  StoreHandshake handshake = {};
  BusyWorker busy = {};

  /// Most bytes that `in` may have before it is served.
  size_t frame_limit() const { return 4 + (rank ? kStoreFrameLimit : kStrangerFrameLimit); }
};

/// The table of a run and the state of its workers, without the sockets that requests and answers pass through. Only
/// `await_others` may be called from another thread.
class StoreService {
 public:
  StoreService(uint32_t workers, std::string secret, std::chrono::milliseconds patience)
      : workers_(workers), secret_(std::move(secret)), patience_(patience) {}

  std::list<StorePeer>& peers() { return peers_; }
  void admit(OwnedFile socket, std::string from, std::chrono::milliseconds now);
  /// Answers complete requests in `in`, of which the next one waits until `out` is empty. A malformed frame closes the
  /// connection.
  void serve(StorePeer& peer, std::chrono::milliseconds now);
  /// Fails the run if the connection of a worker was lost before the worker left.
  void depart(StorePeer& peer);
  /// Fails the run for silent workers. All received requests must have been answered before, so that a delay of the
  /// caller does not count as silence. Closes strangers whose time is over, and the oldest if there are too many.
  void judge(std::chrono::milliseconds now);
  /// Closes the oldest stranger, so that its descriptor is free. Returns false if there is none.
  bool close_oldest_stranger();
  /// Reports to workers that wait for others why these cannot connect.
  void note_shortage(const std::string& reason) { refused_ = "worker 0 cannot accept connections: " + reason; }
  /// Waits until all other workers have left or disconnected, at most for `limit`.
  void await_others(uint32_t own_rank, std::chrono::milliseconds limit);

 private:
  StoreWriter answer(StorePeer& peer, StoreReader& request);
  StoreWriter greet(StorePeer& peer, StoreReader& request) const;
  StoreWriter join(StorePeer& peer, StoreReader& request);
  StoreWriter serve_worker(StorePeer& peer, StoreRequest kind, StoreReader& request);
  StoreWriter beat(const StorePeer& requester) const;
  StoreWriter get(const std::string& key) const;
  StoreWriter set(StoreReader& request);
  StoreWriter add(StoreReader& request);
  std::string missing() const;
  void vacate(uint32_t rank);
  void fail(std::string reason);
  void expire(StorePeer& peer);

  const uint32_t workers_;
  const std::string secret_;
  const std::chrono::milliseconds patience_;
  std::list<StorePeer> peers_;  // oldest first
  std::map<std::string, std::string> table_;
  std::map<std::string, uint64_t> sums_;
  std::set<uint32_t> joined_;
  std::string failure_, refused_;
  std::chrono::milliseconds now_{0};
  std::mutex mutex_;  // guards `here_`
  std::condition_variable changed_;
  std::set<uint32_t> here_;  // joined and still connected
};

}  // namespace rannc::runtime
