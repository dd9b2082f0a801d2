/// Writes the backward pass as tasks.
#pragma once

#include "ir/gradient/joint.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Reverse mode over a graph with losses: a copy of the forward tasks, then the tasks that the operators' gradient
/// rules add (`ir/gradient/gradient.h`), from the last task to the first. Only what lies between a parameter and a loss
/// is differentiated. A value that several tasks read has its gradients added in the order of one tape: the loss's
/// seed, then its readers from the last to the first. An operator without a rule becomes one `vjp` task, which repeats
/// its forward pass and runs the tape for it alone. The gradient of what is made once a step is made whole first
/// (`core.total`).
///
/// The graph must have types. Linear in its size. A diagnostic names a value whose gradient would mix the samples of a
/// micro-batch.
Result<ir::Joint> differentiate(const ir::Graph& graph);

/// Leaves the planning graph as it is, and its backward pass beside it (`PassContext::joint`).
///
/// Before: losses are attached. After: `joint` holds. Stands last: later changes of the graph make it useless.
class Differentiate : public Pass {
 public:
  std::string_view name() const override { return "differentiate"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
