#include "runtime/train/internal/owned_parameters.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "runtime/internal/router.h"

namespace rannc::runtime {

namespace {

// Reports its lifetime to the observer, if there is one.
class ClippedSpan {
 public:
  ClippedSpan(Observer* observer, DeviceId device) : observer_(observer), device_(device) {
    if (observer_ != nullptr) observer_->started(device_);
    start_ns_ = now_ns();
  }
  ClippedSpan(const ClippedSpan&) = delete;
  ClippedSpan& operator=(const ClippedSpan&) = delete;
  ~ClippedSpan() {
    if (observer_ != nullptr) observer_->clipped(device_, start_ns_, now_ns());
  }

 private:
  Observer* observer_;
  DeviceId device_;
  int64_t start_ns_ = 0;
};

struct OfStage {
  std::vector<uint32_t> indices;
  std::vector<ValueId> values;
};

std::map<StageId, OfStage> by_stage(const std::vector<OwnedParameter>& parameters, const TrainedDevice& device) {
  std::map<StageId, OfStage> found;
  for (const OwnedParameter& owned : parameters) {
    if (owned.device != &device) continue;
    found[owned.stage].indices.push_back(owned.index);
    found[owned.stage].values.push_back(owned.value);
  }
  return found;
}

}  // namespace

std::vector<OwnedParameter> owned_parameters(const ir::Plan& plan, const DeviceSet& devices) {
  std::map<ValueId, OwnedParameter> owned;
  for (const auto& device : devices.all()) {
    for (size_t s = 0; s < device->programs.size(); ++s) {
      if (!device->programs[s] || plan.stages[s].devices.front() != device->id) continue;
      const auto& parameters = device->programs[s]->signature().parameters;
      for (uint32_t i = 0; i < parameters.size(); ++i) {
        const ValueId value = parameters[i].value;
        const auto shared = std::find_if(plan.shared.begin(), plan.shared.end(),
                                         [&](const ir::SharedParameter& entry) { return entry.parameter == value; });
        if (shared != plan.shared.end() && shared->owner != StageId::from(s)) continue;
        owned.emplace(value, OwnedParameter{value, device.get(), StageId::from(s), i});
      }
    }
  }
  std::vector<OwnedParameter> list;
  for (const auto& [value, parameter] : owned) list.push_back(parameter);
  return list;
}

Result<std::map<std::string, Value>> gradients_of(const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                                                  double loss_scale) {
  Values values(parameters.size());
  RANNC_TRY(devices.for_each([&](TrainedDevice& device) -> Result<void> {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const OwnedParameter& owned = parameters[i];
      if (owned.device != &device) continue;
      const Values gradient = device.programs[owned.stage.index()]->gradients({&owned.index, 1});
      values[i] = device.transport->hardware().download(gradient[0]);
      if (loss_scale != 1) values[i] = to_value(to_tensor(values[i]) / loss_scale);
    }
    return {};
  }));
  std::map<std::string, Value> found;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const OwnedParameter& owned = parameters[i];
    const Signature& signature = owned.device->programs[owned.stage.index()]->signature();
    found.emplace(signature.parameters[owned.index].name, std::move(values[i]));
  }
  return found;
}

Result<double> gradient_norm(const ir::Plan& plan, const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                             uint64_t step, Observer* observer) {
  at::Tensor squares = at::zeros({static_cast<int64_t>(plan.graph.value_count())}, at::kDouble);
  auto slots = squares.accessor<double, 1>();
  RANNC_TRY(devices.for_each([&](TrainedDevice& device) -> Result<void> {
    const ClippedSpan span(observer, device.id);
    for (const auto& [stage, owned] : by_stage(parameters, device)) {
      const std::vector<double> found = squared_norms(*device.programs[stage.index()], owned.indices);
      for (size_t i = 0; i < found.size(); ++i) slots[owned.values[i].index()] = found[i];
    }
    return {};
  }));
  RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(squares, step));
  const auto terms = all.accessor<double, 1>();
  double total = 0;
  for (int64_t i = 0; i < all.size(0); ++i) total += terms[i];
  return std::sqrt(total);
}

Result<void> update_scaled(DeviceSet& devices, uint64_t updates, double scale, Observer* observer) {
  return devices.for_each([&](TrainedDevice& device) -> Result<void> {
    const ClippedSpan span(observer, device.id);
    for (const auto& optimizer : device.optimizers) {
      if (optimizer) RANNC_TRY(optimizer->update(updates, scale));
    }
    return {};
  });
}

}  // namespace rannc::runtime
