#include "runtime/train/internal/owned_parameters.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/internal/router.h"
#include "runtime/internal/share_exchange.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/gradient_norms.h"

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
  std::vector<ir::ParameterSlice> slices;
  std::vector<ValueId> values;
};

std::map<StageId, OfStage> by_stage(const std::vector<OwnedParameter>& parameters, const TrainedDevice& device) {
  std::map<StageId, OfStage> found;
  for (const OwnedParameter& owned : parameters) {
    if (owned.device != &device) continue;
    found[owned.stage].slices.push_back(owned.slice);
    found[owned.stage].values.push_back(owned.value);
  }
  return found;
}

// The slices of a stage's parameters that a device represents: its share, or everything on the first replica.
std::vector<ir::ParameterSlice> represented(const Pipeline& pipeline, StageId id, const TrainedDevice& device) {
  const Program& program = *device.programs[id.index()];
  if (StageOptimizer::Share share = share_of(pipeline, id, device.id)) return *std::move(share);
  std::vector<ir::ParameterSlice> slices;
  if (pipeline.shape.stages[id.index()].devices.front() != device.id) return slices;
  for (const int64_t elements : parameter_elements(program))
    slices.push_back({static_cast<uint32_t>(slices.size()), 0, elements});
  return slices;
}

const Weight& weight_of(const OwnedParameter& owned) {
  return owned.device->programs[owned.stage.index()]->signature().parameters[owned.slice.parameter];
}

}  // namespace

std::vector<OwnedParameter> owned_parameters(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices) {
  std::vector<OwnedParameter> owned;
  for (const auto& device : devices.all()) {
    for (size_t s = 0; s < device->programs.size(); ++s) {
      if (!device->programs[s]) continue;
      for (const ir::ParameterSlice& slice : represented(pipeline, StageId::from(s), *device)) {
        const ValueId value = device->programs[s]->signature().parameters[slice.parameter].value;
        const auto shared = std::find_if(plan.shared.begin(), plan.shared.end(),
                                         [&](const ir::SharedParameter& entry) { return entry.parameter == value; });
        if (shared != plan.shared.end() && shared->owner != StageId::from(s)) continue;
        owned.push_back({value, device.get(), StageId::from(s), slice});
      }
    }
  }
  std::stable_sort(owned.begin(), owned.end(), [](const OwnedParameter& a, const OwnedParameter& b) {
    return std::pair(a.value, a.slice.first) < std::pair(b.value, b.slice.first);
  });
  return owned;
}

Result<std::map<std::string, Value>> gradients_of(const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                                                  double loss_scale) {
  std::vector<at::Tensor> parts(parameters.size());
  std::vector<std::vector<int64_t>> shapes(parameters.size());
  RANNC_TRY(devices.for_each([&](TrainedDevice& device) -> Result<void> {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const OwnedParameter& owned = parameters[i];
      if (owned.device != &device) continue;
      const Values gradient = device.programs[owned.stage.index()]->gradients({&owned.slice.parameter, 1});
      shapes[i] = gradient[0]->spec().shape;
      const at::Tensor whole = to_tensor(device.transport->hardware().download(gradient[0])).contiguous().view(-1);
      parts[i] = whole.narrow(0, owned.slice.first, owned.slice.size());
    }
    return {};
  }));
  std::map<std::string, Value> found;
  for (size_t first = 0, last = 0; first < parameters.size(); first = last) {
    int64_t elements = 0;
    for (; last < parameters.size() && parameters[last].value == parameters[first].value; ++last)
      elements += parameters[last].slice.size();
    int64_t all = 1;
    for (const int64_t extent : shapes[first]) all *= extent;
    const std::string& name = weight_of(parameters[first]).name;
    if (elements != all) {
      return error(
          fmt::format("this process has {} of the {} elements of the gradient of {}: its optimizer state is "
                      "sharded over processes",
                      elements, all, name));
    }
    at::Tensor gradient = last == first + 1 ? parts[first]
                                            : at::cat(std::vector<at::Tensor>(parts.begin() + static_cast<long>(first),
                                                                              parts.begin() + static_cast<long>(last)));
    if (loss_scale != 1) gradient = gradient / loss_scale;
    found.emplace(name, to_value(gradient.view(shapes[first])));
  }
  return found;
}

Result<double> gradient_norm(const ir::Plan& plan, const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                             Observer* observer) {
  const auto values = static_cast<int64_t>(plan.graph.value_count());
  const at::Tensor squares = at::zeros({static_cast<int64_t>(devices.all().size()), values}, at::kDouble);
  auto slots = squares.accessor<double, 2>();
  RANNC_TRY(devices.for_each([&](TrainedDevice& device) -> Result<void> {
    const ClippedSpan span(observer, device.id);
    const int64_t row = devices.position_of(device);
    for (const auto& [stage, owned] : by_stage(parameters, device)) {
      const std::vector<double> found = squared_norms(*device.programs[stage.index()], owned.slices);
      for (size_t i = 0; i < found.size(); ++i) slots[row][owned.values[i].index()] = found[i];
    }
    return {};
  }));
  at::Tensor own = squares[0];
  for (int64_t row = 1; row < squares.size(0); ++row) own = own + squares[row];
  RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(own));
  const auto terms = all.accessor<double, 1>();
  double total = 0;
  for (int64_t i = 0; i < all.size(0); ++i) total += terms[i];
  return std::sqrt(total);
}

Result<void> update_scaled(DeviceSet& devices, const ScaledUpdate& update) {
  return devices.for_each([&](TrainedDevice& device) -> Result<void> {
    return device.executor->update(
        [&](StageId stage) { return device.optimizers[stage.index()]->update(update.updates, update.scale); });
  });
}

}  // namespace rannc::runtime
