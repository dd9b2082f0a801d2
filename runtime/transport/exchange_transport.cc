#include "runtime/transport/internal/exchange_transport.h"

#include <utility>

#include "runtime/execute/now.h"
#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/before_free.h"
#include "runtime/transport/internal/gloo_group.h"

namespace rannc::runtime {

/// Where sums are added.
std::vector<at::Tensor> ExchangeTransport::in_memory(const Values& values) {
  std::vector<at::Tensor> tensors;
  for (const Value& value : values) {
    const Value here = memory_.is_asynchronous() ? value : hardware().download(value);
    tensors.push_back(to_tensor(here).contiguous());
  }
  return tensors;
}

TensorsByMember ExchangeTransport::in_memory(const std::vector<Values>& values) {
  TensorsByMember tensors;
  for (const Values& each : values) tensors.push_back(in_memory(each));
  return tensors;
}

/// Returns memory for a part that another member sends: its own if sums are added there.
at::Tensor ExchangeTransport::receive_buffer(const Value& part) {
  const at::Tensor& tensor = to_tensor(part);
  const bool is_here = memory_.is_asynchronous() || tensor.is_cpu();
  if (is_here && tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), is_here ? tensor.options() : tensor.options().device(at::kCPU));
}

/// Returns tensors as values in the memory of the host or device, like others.
Values ExchangeTransport::values_like(std::vector<at::Tensor> tensors, const Values& like) {
  Values values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value value = to_value(std::move(tensors[i]));
    values.push_back(to_tensor(like[i]).is_cpu() ? value : hardware().upload(value));
  }
  return values;
}

/// Copies a tensor into a value, unless it is that value.
void ExchangeTransport::write(const at::Tensor& tensor, const Value& into) {
  if (tensor.is_same(to_tensor(into))) return;
  into->overwrite(*(to_tensor(into).is_cpu() ? to_value(tensor) : hardware().upload(to_value(tensor))));
}

template <class Exchange>
auto ExchangeTransport::guarded(Exchange&& exchange) -> decltype(exchange()) {
  if (auto reason = failure()) return *reason;
  try {
    return exchange();
  } catch (const std::exception& failed) {
    return explained(error("a sum over devices failed: " + plain(failed)));
  }
}

BeginExchange ExchangeTransport::exchange_factory(const CollectiveKey& key, BackgroundWait* background, EventRef made) {
  return [=, this](SumPhase phase) { return begin_exchange({key, phase, background, made}); };
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
    const std::vector<at::Tensor> terms = in_memory(values);
    std::vector<at::Tensor> sums;
    for (const at::Tensor& term : terms) sums.push_back(at::empty_like(term));
    RANNC_TRY(OrderedSum::all_reduce(members, device(), terms, sums, exchange_factory(key, nullptr, nullptr)).run());
    return values_like(std::move(sums), values);
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
  ~Pending() override {
    if (!complete_ && transport_.memory_.is_asynchronous())
      transport_.dropped_.emplace_back(std::move(values_), std::move(sums_));
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  Result<Values> wait() override {
    return transport_.guarded([&]() -> Result<Values> {
      {
        const Progress::Waiting waiting(transport_.progress());
        RANNC_TRY(transport_.sums_.await(*sum_));
      }
      transport_.memory_.await(Stream::kCompute, sum_->done);
      complete_ = true;
      for (size_t i = 0; i < sums_.size(); ++i) transport_.write(sums_[i], values_[i]);
      finished_ns_ = transport_.memory_.is_asynchronous() ? now_ns() : sum_->finished_ns;
      return std::move(values_);
    });
  }
  int64_t finished_ns() const override { return finished_ns_; }

 private:
  ExchangeTransport& transport_;
  Values values_;
  std::vector<at::Tensor> sums_;
  std::shared_ptr<SumQueue::Sum> sum_;
  bool complete_ = false;
  int64_t finished_ns_ = 0;
};

template <class Make>
Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin(const CollectiveKey& key, Values values,
                                                             std::vector<at::Tensor> own, Make make) {
  const BeginExchange exchange = exchange_factory(key, &sums_.wait(), memory_.record(Stream::kCompute));
  return std::unique_ptr<PendingSum>(
      std::make_unique<Pending>(*this, std::move(values), std::move(own), [this, exchange, make = std::move(make)] {
        const auto scope = memory_.enter(stream_);
        return make(exchange);
      }));
}

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_all_reduce(const CollectiveKey& key,
                                                                        std::span<const DeviceId> members,
                                                                        Values values) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    const std::vector<at::Tensor> terms = in_memory(values);
    return begin(key, std::move(values), terms,
                 [this, terms, all = std::vector(members.begin(), members.end())](const BeginExchange& exchange) {
                   return OrderedSum::all_reduce(all, device(), terms, terms, exchange);
                 });
  });
}

Result<std::unique_ptr<PendingSum>> ExchangeTransport::begin_reduce_scatter(const CollectiveKey& key,
                                                                            std::span<const DeviceId> members,
                                                                            std::vector<Values> terms) {
  return guarded([&]() -> Result<std::unique_ptr<PendingSum>> {
    const size_t self = position_in(members, device());
    const TensorsByMember tensors = in_memory(terms);
    return begin(key, std::move(terms[self]), tensors[self],
                 [this, tensors, all = std::vector(members.begin(), members.end())](const BeginExchange& exchange) {
                   return OrderedSum::reduce_scatter(all, device(), tensors, exchange);
                 });
  });
}

void ExchangeTransport::stop_sums() {
  sums_.stop();
  if (dropped_.empty()) return;
  before_free([&] { memory_.await(Stream::kCompute, memory_.record(stream_)); });
  dropped_.clear();
}

Result<void> ExchangeTransport::all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                                           const std::vector<Values>& parts) {
  return guarded([&]() -> Result<void> {
    RANNC_TRY(await_earlier(key));
    const size_t self = position_in(members, device());
    TensorsByMember places(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == self) {
        places[i] = in_memory(parts[i]);
      } else {
        for (const Value& part : parts[i]) places[i].push_back(receive_buffer(part));
      }
    }
    RANNC_TRY(gather_parts(members, device(), places, exchange_factory(key, nullptr, nullptr)));
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t k = 0; i != self && k < parts[i].size(); ++k) write(places[i][k], parts[i][k]);
    }
    return {};
  });
}

}  // namespace rannc::runtime
