// Copies values of other devices to host memory and back.
#include "runtime/transport/internal/exchange_transport.h"

#include <algorithm>
#include <iterator>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/gloo_group.h"

namespace rannc::runtime {

namespace {

/// In host memory.
std::vector<at::Tensor> on_host(Device& device, const Values& values) {
  std::vector<at::Tensor> tensors;
  for (const Value& value : values) tensors.push_back(to_tensor(device.download(value)).contiguous());
  return tensors;
}

TensorsByMember on_host(Device& device, const std::vector<Values>& values) {
  TensorsByMember tensors;
  for (const Values& each : values) tensors.push_back(on_host(device, each));
  return tensors;
}

/// Whether each value lies in host memory.
std::vector<bool> in_host_memory(const Values& values) {
  std::vector<bool> found;
  for (const Value& value : values) found.push_back(to_tensor(value).is_cpu());
  return found;
}

/// Returns memory of the host for a part that another member sends: its own if it is there.
at::Tensor place_for(const Value& part) {
  const at::Tensor& tensor = to_tensor(part);
  if (tensor.is_cpu() && tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
}

/// Returns host tensors as values in host memory or in the device's.
Values as(Device& device, std::vector<at::Tensor> tensors, const std::vector<bool>& in_host_memory) {
  Values values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value value = to_value(std::move(tensors[i]));
    values.push_back(in_host_memory[i] ? value : device.upload(value));
  }
  return values;
}

/// Copies a host tensor into a value, unless it is that value.
void place(Device& device, const at::Tensor& tensor, const Value& into) {
  if (tensor.is_same(to_tensor(into))) return;
  into->overwrite(*device.upload(to_value(tensor)));
}

}  // namespace

template <class Exchange>
auto ExchangeTransport::guarded(Exchange&& exchange) -> decltype(exchange()) {
  if (auto reason = failure()) return *reason;
  try {
    return exchange();
  } catch (const std::exception& failed) {
    return explained(error("a sum over devices failed: " + plain(failed)));
  }
}

BeginExchange ExchangeTransport::exchanges(const CollectiveKey& key, BackgroundWait* background) {
  return [=, this](SumPhase phase) { return begin_exchange({key, phase, background}); };
}

Result<void> ExchangeTransport::await_earlier(const CollectiveKey& key) {
  if (key.kind == CollectiveKey::Kind::kWithinPass) return {};
  const Progress::Waiting waiting(progress());
  return sums_.settle();
}

Result<Values> ExchangeTransport::all_reduce(const CollectiveKey& key, std::span<const DeviceId> members,
                                             Values values) {
  return guarded([&]() -> Result<Values> {
    if (members.size() < 2) return values;
    RANNC_TRY(await_earlier(key));
    OrderedSum sum = OrderedSum::all_reduce(members, device(), on_host(hardware(), values), exchanges(key, nullptr));
    RANNC_ASSIGN(std::vector<at::Tensor> sums, sum.run());
    return as(hardware(), std::move(sums), in_host_memory(values));
  });
}

/// A sum in the queue. Does not keep the terms alive, except those that it replaces.
class ExchangeTransport::Pending final : public PendingSum {
 public:
  /// `replaced`: values in whose memory the results belong; empty: new ones.
  Pending(ExchangeTransport& transport, std::shared_ptr<SumQueue::Sum> sum, std::vector<bool> in_host_memory,
          Values replaced = {})
      : transport_(transport),
        sum_(std::move(sum)),
        in_host_memory_(std::move(in_host_memory)),
        replaced_(std::move(replaced)) {}
  Result<Values> wait() override {
    return transport_.guarded([&]() -> Result<Values> {
      const Progress::Waiting waiting(transport_.progress());
      RANNC_ASSIGN(std::vector<at::Tensor> sums, transport_.sums_.await(*sum_));
      if (replaced_.empty()) return as(transport_.hardware(), std::move(sums), in_host_memory_);
      for (size_t i = 0; i < sums.size(); ++i) place(transport_.hardware(), sums[i], replaced_[i]);
      return std::move(replaced_);
    });
  }
  int64_t finished_ns() const override { return sum_->finished_ns; }

 private:
  ExchangeTransport& transport_;
  std::shared_ptr<SumQueue::Sum> sum_;
  std::vector<bool> in_host_memory_;
  Values replaced_;
};

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_all_reduce(const CollectiveKey& key,
                                                                        std::span<const DeviceId> members,
                                                                        Values values) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    std::vector<bool> places = in_host_memory(values);
    auto sum = sums_.begin(
        [this, key, all = std::vector<DeviceId>(members.begin(), members.end()), terms = on_host(hardware(), values)] {
          return OrderedSum::all_reduce(all, device(), terms, exchanges(key, &sums_.wait()));
        });
    return std::unique_ptr<PendingSum>(std::make_unique<Pending>(*this, std::move(sum), std::move(places)));
  });
}

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_reduce_scatter(const CollectiveKey& key,
                                                                            std::span<const DeviceId> members,
                                                                            std::vector<Values> terms) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    Values own = terms[position_in(members, device())];
    auto sum = sums_.begin(
        [this, key, all = std::vector<DeviceId>(members.begin(), members.end()), tensors = on_host(hardware(), terms)] {
          return OrderedSum::reduce_scatter(all, device(), tensors, exchanges(key, &sums_.wait()));
        });
    return std::unique_ptr<PendingSum>(
        std::make_unique<Pending>(*this, std::move(sum), std::vector<bool>(), std::move(own)));
  });
}

Result<void> ExchangeTransport::all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                                           const std::vector<Values>& parts) {
  return guarded([&]() -> Result<void> {
    RANNC_TRY(await_earlier(key));
    const size_t self = position_in(members, device());
    TensorsByMember places(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == self) places[i] = on_host(hardware(), parts[i]);
      if (i != self) std::transform(parts[i].begin(), parts[i].end(), std::back_inserter(places[i]), place_for);
    }
    RANNC_TRY(gather_parts(members, device(), places, exchanges(key, nullptr)));
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t k = 0; i != self && k < parts[i].size(); ++k) place(hardware(), places[i][k], parts[i][k]);
    }
    return {};
  });
}

}  // namespace rannc::runtime
