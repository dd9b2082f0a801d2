/// Endpoints between processes that add the terms of sums in host memory.
#pragma once

#include <memory>

#include "runtime/transport/internal/ordered_sum.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Implements sums by exchanges of messages.
class ExchangeTransport : public Transport {
 public:
  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) final;
  Result<Values> reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                const std::vector<Values>& terms) final;
  Result<void> all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                          const std::vector<Values>& parts) final;
  SentByPeer sent_bytes() const override { return counted_; }
  /// Begins an exchange between the host memories of this device and others. The endpoint must outlive it.
  virtual std::unique_ptr<SumExchange> begin_exchange() = 0;

 protected:
  /// Returns the reason of a failure that this worker sees as `seen`, which may come from another worker.
  virtual Diagnostic explained(const Diagnostic& seen) = 0;
  void count_message(DeviceId to, uint64_t bytes) { counted_[to].messages += bytes; }
  void count_term(DeviceId to, uint64_t bytes) { counted_[to].sums += bytes; }

 private:
  /// Calls `exchange`, whose exceptions become failures of the run.
  template <class Exchange>
  auto guarded(Exchange&& exchange) -> decltype(exchange());
  SentByPeer counted_;
};

}  // namespace rannc::runtime
