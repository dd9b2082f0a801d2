#include "tools/run/held_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ir/plan/held_samples.h"
#include "ir/plan/nccl_memory.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

std::string devices_of(const HeldMemory& held) {
  if (held.devices == 1) return fmt::format("device {}", held.first_device);
  return fmt::format("devices {} to {}", held.first_device, held.first_device + held.devices - 1);
}

// Weights, their gradients and the optimizer's state.
int64_t standing_bytes(const ir::Plan& plan, const ir::PipelineShape& shape, DeviceId device) {
  int64_t bytes = 0;
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    const ir::StageShape& stage = shape.stages[s];
    if (std::find(stage.devices.begin(), stage.devices.end(), device) == stage.devices.end()) continue;
    bytes += stage.fixed_bytes + stage.gradient_bytes - ir::held_sample_bytes(plan, StageId::from(s));
  }
  return bytes;
}

std::string size(uint64_t amount) { return bytes(static_cast<double>(amount)); }

std::string row(const std::string& who, const std::string& standing, const std::string& predicted,
                const std::string& measured) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", who, standing, predicted, measured);
}

}  // namespace

uint64_t predicted_bytes(const ir::Plan& plan, const HeldMemory& held) {
  const std::vector<uint64_t> beside = ir::bytes_beside_tensors(plan);
  uint64_t sum = 0;
  for (uint32_t d = held.first_device; d < held.first_device + held.devices; ++d) {
    const uint64_t peak = plan.predictions.at(d).peak_bytes;
    sum += peak - std::min(peak, beside[d]);
  }
  return sum;
}

uint64_t sample_bytes(const ir::Plan& plan, uint32_t first_device, uint32_t devices) {
  std::vector<double> part(plan.graph.value_count(), 0);  // by value: the part of the mini-batch that is read
  for (const ir::Stage& stage : plan.stages) {
    const auto own = std::count_if(stage.devices.begin(), stage.devices.end(), [&](DeviceId device) {
      return device.index() >= first_device && device.index() < first_device + devices;
    });
    const double share = static_cast<double>(own) / static_cast<double>(stage.devices.size());
    for (const TaskId task : stage.tasks) {
      for (const ValueId value : plan.graph.inputs(task)) {
        if (value.valid()) part[value.index()] = std::max(part[value.index()], share);
      }
    }
  }
  double sum = 0;
  for (const ValueId input : plan.graph.inputs()) {
    const ir::ValueType& type = plan.graph.type(input);
    if (!type.shape) continue;
    const auto elements = ir::element_count(*type.shape).evaluate(ir::bindings_of(plan, plan.mini_batch));
    sum += part[input.index()] * static_cast<double>(elements.value_or(0) * ir::byte_size(type.dtype));
  }
  return static_cast<uint64_t>(sum);
}

std::string describe(const ir::Plan& plan, const HeldMemory& held) {
  return fmt::format("{} held {} bytes at most, {} were predicted", devices_of(held), held.peak_bytes,
                     predicted_bytes(plan, held));
}

std::string memory_table(const ir::Plan& plan, const std::vector<HeldMemory>& held) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  std::string table =
      "<div class='wide'><table><tr><th>device</th><th>weights, gradients, optimizer</th><th>predicted "
      "peak</th><th>measured "
      "peak</th></tr>";
  for (uint32_t d = 0; d < plan.predictions.size(); ++d) {
    const auto own = std::find_if(held.begin(), held.end(), [&](const HeldMemory& process) {
      return process.devices == 1 && process.first_device == d;
    });
    table += row(fmt::format("device {}", d), size(static_cast<uint64_t>(standing_bytes(plan, shape, DeviceId(d)))),
                 size(predicted_bytes(plan, {d, 1, 0})), own == held.end() ? "" : size(own->peak_bytes));
  }
  for (const HeldMemory& process : held) {
    if (process.devices == 1) continue;
    table +=
        row(devices_of(process) + ", one process", "", size(predicted_bytes(plan, process)), size(process.peak_bytes));
  }
  return table + "</table></div>";
}

std::string nccl_memory_text(const ir::Plan& plan) {
  const std::vector<uint64_t> buffers = ir::nccl_buffer_bytes(plan);
  const uint64_t most = *std::max_element(buffers.begin(), buffers.end());
  const bool counted = ir::device_type(plan) == ir::DeviceType::kCuda;
  return fmt::format("Buffers of NCCL, up to {} on a device, are {}.", size(most),
                     counted ? "not part of these peaks, but of the plan's" : "not counted");
}

std::string nccl_memory_warning(const ir::Plan& plan, DeviceId device, uint64_t memory_bytes) {
  const uint64_t planned = predicted_bytes(plan, {.first_device = device.index()});
  const uint64_t buffers = ir::nccl_buffer_bytes(plan)[device.index()];
  if (memory_bytes == 0 || planned + buffers <= memory_bytes) return {};
  return fmt::format(
      "device {} may run out of memory: the plan needs {} and NCCL's buffers up to {}, together more than the {} that "
      "it has; compile with a smaller --memory",
      device.index(), size(planned), size(buffers), size(memory_bytes));
}

std::string print_held(const std::optional<HeldMemory>& held) {
  return held ? fmt::format("{} {} {}\n", held->first_device, held->devices, held->peak_bytes) : "";
}

Result<std::optional<HeldMemory>> parse_held(const std::string& text, const std::string& path) {
  if (text.empty()) return std::optional<HeldMemory>();
  std::istringstream words(text);
  HeldMemory held;
  if (words >> held.first_device >> held.devices >> held.peak_bytes) return std::optional(held);
  return error({path, 0, 0, {}}, "is not a worker's memory record");
}

}  // namespace rannc::tools
