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

/// Returns memory of the host for a part that another member sends: its own if it is there.
at::Tensor place_for(const Value& part) {
  const at::Tensor& tensor = to_tensor(part);
  if (tensor.is_cpu() && tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
}

/// Returns host tensors as values in the memory in which `like` lie.
Values as(Device& device, std::vector<at::Tensor> tensors, const Values& like) {
  Values values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value value = to_value(std::move(tensors[i]));
    values.push_back(to_tensor(like[i]).is_cpu() ? value : device.upload(value));
  }
  return values;
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

Result<Values> ExchangeTransport::all_reduce(const CollectiveKey&, std::span<const DeviceId> members, Values values) {
  return guarded([&]() -> Result<Values> {
    if (members.size() < 2) return values;
    RANNC_ASSIGN(std::vector<at::Tensor> sums,
                 ordered_sums(members, device(), on_host(hardware(), values), [this] { return begin_exchange(); }));
    return as(hardware(), std::move(sums), values);
  });
}

Result<Values> ExchangeTransport::reduce_scatter(const CollectiveKey&, std::span<const DeviceId> members,
                                                 const std::vector<Values>& terms) {
  return guarded([&]() -> Result<Values> {
    TensorsByMember tensors;
    for (const Values& each : terms) tensors.push_back(on_host(hardware(), each));
    RANNC_ASSIGN(std::vector<at::Tensor> sums,
                 scattered_sums(members, device(), tensors, [this] { return begin_exchange(); }));
    return as(hardware(), std::move(sums), terms[position_in(members, device())]);
  });
}

Result<void> ExchangeTransport::all_gather(const CollectiveKey&, std::span<const DeviceId> members,
                                           const std::vector<Values>& parts) {
  return guarded([&]() -> Result<void> {
    const size_t self = position_in(members, device());
    TensorsByMember places(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == self) places[i] = on_host(hardware(), parts[i]);
      if (i != self) std::transform(parts[i].begin(), parts[i].end(), std::back_inserter(places[i]), place_for);
    }
    RANNC_TRY(gather_parts(members, device(), places, [this] { return begin_exchange(); }));
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t k = 0; i != self && k < parts[i].size(); ++k) {
        if (places[i][k].is_same(to_tensor(parts[i][k]))) continue;
        parts[i][k]->overwrite(*hardware().upload(to_value(places[i][k])));
      }
    }
    return {};
  });
}

}  // namespace rannc::runtime
