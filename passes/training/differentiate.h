/// Builds the backward pass as tasks.
#pragma once

#include "ir/base/device_type.h"
#include "ir/gradient/joint.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Applies reverse mode to a graph with losses. The result is a copy of the forward tasks, followed by the tasks that
/// the operators' gradient rules add (`ir/gradient/gradient.h`), from the last task to the first. Only tasks between a
/// parameter and a loss are differentiated. Gradients of a value with several readers are added in the order of a
/// single tape: the loss's seed, then its readers from last to first. An operator without a rule keeps a tape of its
/// own as one more result of its copy, which one `vjp` task runs. The gradient of a value that is computed once per
/// step is first summed over the micro-batches (`core.total`).
///
/// The graph must have types. Linear in its size. A diagnostic names a value whose gradient would mix the samples of a
/// micro-batch.
Result<ir::Joint> differentiate(const ir::Graph& graph);

/// The same for a pipeline stage, a graph without losses. `returned` are the values whose gradient arrives from outside
/// in training; it stands where a seed stands. `sources` are the inputs whose gradient is sent back. Both ascending.
/// Operators keep the auxiliary results that the gradient kernels of `device` read.
struct StageBorder {
  std::vector<ValueId> returned, sources;
  ir::DeviceType device = ir::DeviceType::kCpu;
};
Result<ir::Joint> differentiate(const ir::Graph& graph, const StageBorder& border);

/// Writes the backward pass to `PassContext::joint`. Does not change the graph.
///
/// Before: losses are attached. After: `joint` is set. Runs last, because later changes of the graph invalidate it.
/// Example: `tests/passes/golden/differentiate.rir`.
class Differentiate : public Pass {
 public:
  std::string_view name() const override { return "differentiate"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
