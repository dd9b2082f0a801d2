/// The NCCL communicators of one worker.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/transport/internal/run_member.h"

namespace rannc::runtime {

/// One communicator and its stream.
struct Channel {
  NcclComm comm = nullptr;
  Stream stream = Stream::kCopies;
};

/// One end of a message. `bytes` is device memory, written if this end receives.
struct ChannelMessage {
  enum class End : uint8_t { kSend, kReceive };
  End end = End::kSend;
  void* bytes = nullptr;
  size_t size = 0;
  int peer = 0;  ///< rank within the communicator
};

/// A communicator for each ordered pair of devices, so that messages of one direction never wait for those of the
/// other, and two of all devices for sums: those within passes are messages of the compute stream. None blocks the
/// host. Calls are serialized, as NCCL requires of a call and an abort. Thread-safe.
class Communicators {
 public:
  /// The arguments must outlive this object.
  Communicators(RunMember& run, Device& device, const NcclTable& nccl);
  /// Ends communicators that are not aborted. Waits a limited time for the other workers, which may still read what
  /// this one has sent, and for messages.
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Makes this worker's communicators. All workers call it. The order is ascending on all workers, so that none waits
  /// in a circle. Sends one message over each, because NCCL connects two ranks at their first message, which waits for
  /// both ranks and allocates memory.
  Result<void> connect();

  /// Null if the run has no such pair.
  const Channel* to(DeviceId peer) const { return find(run_.device(), peer); }
  const Channel* from(DeviceId peer) const { return find(peer, run_.device()); }
  const Channel& sums() const { return sums_; }
  const Channel& pass_sums() const { return pass_sums_; }

  /// Enqueues messages, which run together, on the channel's stream. Errors contain `what`, the awaited event.
  Result<void> enqueue(const Channel& channel, std::span<const ChannelMessage> messages, const std::string& what);
  /// Returns an error that NCCL noticed after it had returned.
  Result<void> fault(const Channel& channel, const std::string& what);
  /// Ends all messages. Later calls fail.
  void abort_all();

 private:
  using Pair = std::pair<DeviceId, DeviceId>;
  const Channel* find(DeviceId from, DeviceId to) const;
  Result<void> connect_pair(const Pair& pair);
  /// Makes a communicator of all devices and connects those of `pairs` that have this one.
  Result<Channel> connect_all(const std::string& name, Stream stream, const DevicePairs& pairs);
  Result<Channel> make(const std::string& name, int ranks, int rank, Stream stream);
  Result<NcclId> exchange_id(const std::string& name, bool makes);
  /// Sends a byte to the peers and receives one from them, so that NCCL connects now. Returns when that is enqueued;
  /// the compute stream waits for it.
  Result<void> connect_ranks(const Channel& channel, std::vector<ChannelMessage> messages, const std::string& what);
  NcclResult call_group(const Channel& channel, std::span<const ChannelMessage> messages);
  /// Waits until the communicator accepts calls.
  Result<void> settle(NcclComm comm, const std::string& what, std::chrono::milliseconds limit);
  Diagnostic failed(NcclResult result, NcclComm comm, const std::string& what);
  Diagnostic aborted() const;
  void await_others();
  void close(NcclComm comm);

  RunMember& run_;
  Device& device_;
  const NcclTable& nccl_;
  std::map<Pair, Channel> channels_;
  Channel sums_, pass_sums_;
  mutable std::mutex mutex_;    // held during calls of NCCL
  std::vector<NcclComm> open_;  // in the order of all workers
  bool aborted_ = false;
};

}  // namespace rannc::runtime
