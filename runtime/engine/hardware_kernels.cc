#include "runtime/engine/internal/hardware_kernels.h"

#include <fmt/format.h>

#include "ir/gradient/vjp.h"
#include "ir/op/op.h"
#include "ir/plan/functions.h"

namespace rannc::runtime {

namespace {

/// Compares the lowerings for both types: a task that has none for either is another error.
Result<void> check_task(const ir::Graph& graph, TaskId task, ir::DeviceType planned, ir::DeviceType found) {
  const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, graph.outputs(task));
  const auto lowered = [&](ir::DeviceType type) {
    return ir::lowering({graph.op(task), inputs, outputs, graph.attributes(task), type});
  };
  if (ir::taped_of(graph, task) || ir::vjp_of(graph, task) || !lowered(planned).ok()) return {};
  const auto on_hardware = lowered(found);
  if (on_hardware.ok()) return {};
  return error(graph.location(task), on_hardware.diagnostic().message, "B8");
}

}  // namespace

Result<void> check_kernels(const ir::Plan& plan, StageId stage, const Device& device) {
  const ir::DeviceType planned = ir::device_type(plan), found = device.type();
  if (planned == found) return {};
  for (const TaskId task : plan.stages[stage.index()].tasks) RANNC_TRY(check_task(plan.graph, task, planned, found));
  if (plan.functions.empty()) return {};
  const ir::Graph& joint = plan.functions[stage.index()]->joint.graph;
  for (const TaskId task : joint.tasks()) RANNC_TRY(check_task(joint, task, planned, found));
  return {};
}

}  // namespace rannc::runtime
