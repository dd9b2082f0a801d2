/// Tells tasks that depend on inputs from those that do not (RaNNC III.A).
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Per task whether it is constant: whether it reads no input, no draw of samples and no output of a task that is not
/// constant. A task that updates running statistics is not constant, since it must run once a micro-batch whatever it
/// reads. One that reads a draw without samples may be: its clones read the same numbers.
///
/// Sizes of inputs are not data: fold-constants has turned them into attributes, so what is left of shape arithmetic
/// reads no input. One sweep, linear.
std::vector<bool> constant_tasks(const ir::Graph& graph);

/// Writes `constant_tasks` into the context.
///
/// Before: fold-constants has run. After: the context knows which tasks a stage may hold a clone of.
/// Never changes the graph.
class MarkConstants : public Pass {
 public:
  std::string_view name() const override { return "mark-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
