/// Attaches the workers of one machine to each other's shared memory.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/transport/internal/message_pump.h"
#include "runtime/transport/internal/shared_memory.h"
#include "runtime/transport/internal/store.h"
#include "runtime/transport/rendezvous.h"

namespace rannc::runtime {

/// This worker's memory, which its peers write to, and the parts of theirs that it writes to.
class ShmLinks {
 public:
  /// Collective: all workers of the run call it. Two workers are attached if one reaches the other's local socket and
  /// both prove by a secret from the store that they map the same memory. Workers on different hosts, or in different
  /// network namespaces of one host, are not. Both workers of a pair agree. `failure` ends the wait for others.
  static Result<ShmLinks> attach(StoreClient& client, const Rendezvous& where,
                                 const std::function<std::optional<Diagnostic>()>& failure);

  Bell& bell() const { return *bell_; }
  /// By rank; without a bell for this worker and for those that are not attached.
  const std::vector<PeerRings>& peers() const { return peers_; }
  /// Drops the peers of other groups, as if they ran on other hosts. All workers of the run call it with the same
  /// groups, by rank.
  void separate(const std::vector<uint32_t>& groups, uint32_t own_rank);
  /// Whether every two workers of the run are attached.
  bool all_attached() const { return all_attached_; }

 private:
  friend class ShmHandshake;

  SharedMemory own_;
  std::vector<SharedMemory> mapped_;
  Bell* bell_ = nullptr;
  std::vector<PeerRings> peers_;
  bool all_attached_ = false;
};

}  // namespace rannc::runtime
