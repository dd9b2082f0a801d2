/// Endpoints that exchange the terms of sums and add them.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/transport/internal/sum_queue.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// The messages of one phase of a sum.
struct ExchangeOf {
  CollectiveKey key;
  SumPhase phase = SumPhase::kTerms;
  BackgroundWait* background = nullptr;  ///< of the thread that waits; null: the device's
  EventRef made;                         ///< when this device's terms are; null: they are already

  /// Sums within passes never wait for others.
  bool within_pass() const { return key.kind == CollectiveKey::Kind::kWithinPass; }
};

/// Implements sums by exchanges of messages. Blocking ones run on the device's thread, others in the background.
class ExchangeTransport : public Transport {
 public:
  /// Exchanges and adds in host memory.
  explicit ExchangeTransport(std::chrono::milliseconds timeout) : ExchangeTransport(timeout, cpu(), Stream::kCompute) {}
  /// Exchanges and adds in the memory of `memory`, in the background on this stream.
  ExchangeTransport(std::chrono::milliseconds timeout, Device& memory, Stream stream)
      : memory_(memory),
        stream_(stream),
        sums_([this] { return failure(); }, [this](const Diagnostic& seen) { return explained(seen); }, timeout, memory,
              stream) {}
  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) final;
  Result<std::unique_ptr<PendingSum>> begin_all_reduce(const CollectiveKey& key, std::span<const DeviceId> members,
                                                       Values values) final;
  Result<std::unique_ptr<PendingSum>> begin_reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                                           std::vector<Values> terms) final;
  Result<void> all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                          const std::vector<Values>& parts) final;
  SentByPeer sent_bytes() const override {
    const std::lock_guard lock(counted_mutex_);
    return counted_;
  }
  /// Begins an exchange between this device and others, of tensors where sums are added. The endpoint must outlive it.
  virtual std::unique_ptr<SumExchange> begin_exchange(const ExchangeOf& which) = 0;

 protected:
  /// Returns the reason of a failure that this worker sees as `seen`, which may come from another worker.
  virtual Diagnostic explained(const Diagnostic& seen) = 0;
  void count_message(DeviceId to, uint64_t bytes) { count(to, {.messages = bytes}); }
  void count_term(DeviceId to, uint64_t bytes) { count(to, {.sums = bytes}); }
  /// Ends sums in the background. Derived classes call it before they destroy what exchanges use.
  void stop_sums();

 private:
  class Pending;
  void count(DeviceId to, const SentBytes& bytes) {
    const std::lock_guard lock(counted_mutex_);
    counted_[to] += bytes;
  }
  BeginExchange exchange_factory(const CollectiveKey& key, BackgroundWait* background, EventRef made);
  std::vector<at::Tensor> in_memory(const Values& values);
  TensorsByMember in_memory(const std::vector<Values>& values);
  at::Tensor receive_buffer(const Value& part);
  Values values_like(std::vector<at::Tensor> tensors, const Values& like);
  void write(const at::Tensor& tensor, const Value& into);
  /// Begins a sum in the background, which replaces the tensors `own` of `values`.
  template <class Make>
  Result<std::unique_ptr<PendingSum>> begin(const CollectiveKey& key, Values values, std::vector<at::Tensor> own,
                                            Make make);
  /// Waits for the sums that precede this collective.
  Result<void> await_earlier(const CollectiveKey& key);
  /// Calls `exchange`, whose exceptions become failures of the run.
  template <class Exchange>
  auto guarded(Exchange&& exchange) -> decltype(exchange());

  mutable std::mutex counted_mutex_;
  SentByPeer counted_;
  Device& memory_;  // cpu(), or that of this device
  const Stream stream_;
  std::vector<std::pair<Values, std::vector<at::Tensor>>> dropped_;  // of sums that still use their memory
  SumQueue sums_;
};

}  // namespace rannc::runtime
