#include "tests/runtime/cuda/host_update.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "runtime/cuda/update_element.h"

namespace rannc::testing {
namespace {

using runtime::DeviceUpdate;

template <class Number, class Stored, class Gradient>
void update_tensor(const cuda::UpdateFactors<Number>& factors, const DeviceUpdate::Tensor& tensor) {
  auto* const parameter = static_cast<Stored*>(tensor.parameter);
  auto* const average = static_cast<Stored*>(tensor.average);
  for (uint64_t i = 0; i < tensor.elements; ++i) {
    Number states[DeviceUpdate::kStates] = {};
    const auto stored = [&](int s) -> Stored& { return static_cast<Stored*>(tensor.states[s])[i]; };
    for (int s = 0; s < DeviceUpdate::kStates; ++s) {
      if (tensor.states[s] != nullptr) states[s] = static_cast<Number>(stored(s));
    }
    const auto gradient = static_cast<Number>(static_cast<const Gradient*>(tensor.gradient)[i]);
    parameter[i] = static_cast<Stored>(cuda::update_element(factors, static_cast<Number>(parameter[i]), gradient,
                                                            states, tensor.states[2] != nullptr));
    for (int s = 0; s < DeviceUpdate::kStates; ++s) {
      if (tensor.states[s] != nullptr) stored(s) = static_cast<Stored>(states[s]);
    }
    if (average != nullptr)
      average[i] = static_cast<Stored>(
          cuda::lerp(static_cast<Number>(average[i]), static_cast<Number>(parameter[i]), factors.average));
  }
}

template <class Number, class Stored, class Gradient>
void update_all(const DeviceUpdate& update) {
  const auto factors = cuda::update_factors<Number>(update);
  for (size_t t = 0; t < update.count; ++t) update_tensor<Number, Stored, Gradient>(factors, update.tensors[t]);
}

}  // namespace

void update_on_host(const DeviceUpdate& update) {
  switch (update.number) {
    case DeviceUpdate::Number::kFloat32:
      return update_all<float, float, float>(update);
    case DeviceUpdate::Number::kFloat64:
      return update_all<double, double, double>(update);
    case DeviceUpdate::Number::kBFloat16:
      return update_all<float, c10::BFloat16, float>(update);
    case DeviceUpdate::Number::kFloat16:
      return update_all<float, c10::Half, float>(update);
  }
}

}  // namespace rannc::testing
