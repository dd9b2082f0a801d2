/// Index of routes by stage and of replicas by device.
#include "ir/schedule/dependencies.h"

#include <utility>

namespace rannc::ir {
namespace {

/// Counting sort of (key, item) pairs into rows; items keep their order.
void fill_rows(size_t rows, const std::vector<std::pair<uint32_t, uint32_t>>& pairs, std::vector<uint32_t>& offsets,
               std::vector<uint32_t>& items) {
  offsets.assign(rows + 1, 0);
  for (const auto& [key, item] : pairs) ++offsets[key + 1];
  for (size_t i = 0; i < rows; ++i) offsets[i + 1] += offsets[i];
  items.resize(pairs.size());
  std::vector<uint32_t> next(offsets.begin(), offsets.end() - 1);
  for (const auto& [key, item] : pairs) items[next[key]++] = item;
}

}  // namespace

Dependencies::Dependencies(const PipelineShape& shape) : shape_(shape) {
  std::vector<std::pair<uint32_t, uint32_t>> into, from, groups, on;
  for (uint32_t r = 0; r < shape.routes.size(); ++r) {
    into.emplace_back(shape.routes[r].consumer.index(), r);
    from.emplace_back(shape.routes[r].producer.index(), r);
  }
  for (uint32_t g = 0; g < shape.shared.size(); ++g) {
    for (StageId stage : shape.shared[g].stages) groups.emplace_back(stage.index(), g);
  }
  for (uint32_t s = 0; s < shape.stages.size(); ++s) {
    for (DeviceId device : shape.stages[s].devices) on.emplace_back(device.index(), s);
  }
  fill_rows(shape.stages.size(), into, into_.offsets, into_.items);
  fill_rows(shape.stages.size(), from, from_.offsets, from_.items);
  fill_rows(shape.stages.size(), groups, groups_.offsets, groups_.items);
  std::vector<uint32_t> stages;
  fill_rows(shape.devices, on, stage_offsets_, stages);
  for (uint32_t s : stages) stages_.push_back(StageId(s));
  replicas_.resize(stages_.size());
  std::vector<uint32_t> next(stage_offsets_.begin(), stage_offsets_.end() - 1);
  for (const StageShape& stage : shape.stages) {
    for (uint32_t r = 0; r < stage.devices.size(); ++r) replicas_[next[stage.devices[r].index()]++] = r;
  }
}

std::span<const StageId> Dependencies::stages_on(DeviceId device) const {
  const uint32_t d = device.index();
  return {stages_.data() + stage_offsets_[d], stages_.data() + stage_offsets_[d + 1]};
}

int Dependencies::replica(StageId stage, DeviceId device) const {
  if (device.index() + 1 >= stage_offsets_.size()) return -1;
  for (uint32_t i = stage_offsets_[device.index()]; i < stage_offsets_[device.index() + 1]; ++i) {
    if (stages_[i] == stage) return static_cast<int>(replicas_[i]);
  }
  return -1;
}

std::span<const uint32_t> Dependencies::routes_into(StageId stage) const { return into_.row(stage.index()); }
std::span<const uint32_t> Dependencies::routes_from(StageId stage) const { return from_.row(stage.index()); }
std::span<const uint32_t> Dependencies::groups_of(StageId stage) const { return groups_.row(stage.index()); }

std::vector<DeviceId> Dependencies::members(const Action& action) const {
  if (!is_of_group(action.kind)) return shape_.stages[action.stage.index()].devices;
  std::vector<DeviceId> members;
  std::vector<bool> listed(shape_.devices);
  for (StageId stage : shape_.shared[action.route].stages) {
    for (DeviceId device : shape_.stages[stage.index()].devices) {
      if (!listed[device.index()]) members.push_back(device);
      listed[device.index()] = true;
    }
  }
  return members;
}

std::vector<DeviceAction> dependencies(const PipelineShape& shape, DeviceId device, const Action& action) {
  std::vector<DeviceAction> result;
  Dependencies(shape).each(device, action, [&](const DeviceAction& needed) { result.push_back(needed); });
  return result;
}

}  // namespace rannc::ir
