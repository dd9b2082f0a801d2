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

/// Returns memory of the host for a part that another member sends: its own if it is there.
at::Tensor place_for(const Value& part) {
  const at::Tensor& tensor = to_tensor(part);
  if (tensor.is_cpu() && tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
}

/// Returns host tensors as values in the memory of the host or device, like others.
Values as(Device& device, std::vector<at::Tensor> tensors, const Values& like) {
  Values values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value value = to_value(std::move(tensors[i]));
    values.push_back(to_tensor(like[i]).is_cpu() ? value : device.upload(value));
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
    const std::vector<at::Tensor> terms = on_host(hardware(), values);
    std::vector<at::Tensor> sums;
    for (const at::Tensor& term : terms) sums.push_back(at::empty_like(term));
    RANNC_TRY(OrderedSum::all_reduce(members, device(), terms, sums, exchanges(key, nullptr)).run());
    return as(hardware(), std::move(sums), values);
  });
}

/// A sum in the queue, in the memory of its terms.
class ExchangeTransport::Pending final : public PendingSum {
 public:
  /// `values`: this device's own, which the tensors `sums` replace.
  Pending(ExchangeTransport& transport, Values values, std::vector<at::Tensor> sums, SumQueue::Start start)
      : transport_(transport),
        values_(std::move(values)),
        sums_(std::move(sums)),
        sum_(transport.sums_.begin(std::move(start))) {}
  Result<Values> wait() override {
    return transport_.guarded([&]() -> Result<Values> {
      const Progress::Waiting waiting(transport_.progress());
      RANNC_TRY(transport_.sums_.await(*sum_));
      for (size_t i = 0; i < sums_.size(); ++i) place(transport_.hardware(), sums_[i], values_[i]);
      return std::move(values_);
    });
  }
  int64_t finished_ns() const override { return sum_->finished_ns; }

 private:
  ExchangeTransport& transport_;
  Values values_;
  std::vector<at::Tensor> sums_;
  std::shared_ptr<SumQueue::Sum> sum_;
};

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_all_reduce(const CollectiveKey& key,
                                                                        std::span<const DeviceId> members,
                                                                        Values values) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    const std::vector<at::Tensor> terms = on_host(hardware(), values);
    return std::unique_ptr<PendingSum>(std::make_unique<Pending>(
        *this, std::move(values), terms, [this, key, terms, all = std::vector(members.begin(), members.end())] {
          return OrderedSum::all_reduce(all, device(), terms, terms, exchanges(key, &sums_.wait()));
        }));
  });
}

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_reduce_scatter(const CollectiveKey& key,
                                                                            std::span<const DeviceId> members,
                                                                            std::vector<Values> terms) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    const size_t self = position_in(members, device());
    const TensorsByMember tensors = on_host(hardware(), terms);
    return std::unique_ptr<PendingSum>(std::make_unique<Pending>(
        *this, std::move(terms[self]), tensors[self],
        [this, key, tensors, all = std::vector(members.begin(), members.end())] {
          return OrderedSum::reduce_scatter(all, device(), tensors, exchanges(key, &sums_.wait()));
        }));
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
