/// Kernels, and the order of elements in memory, by their times.
#pragma once

#include <memory>
#include <optional>

#include "passes/pass.h"

namespace rannc::passes {

/// Times of tasks, from whoever can measure them.
class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  /// Forward and backward pass of a task of `with_alternatives(graph)`, ns; nothing: not known. `needs_gradient` is
  /// that graph's (`ir::needs_gradient`).
  virtual std::optional<double> ns(const ir::Graph& graph, TaskId task,
                                   const std::vector<bool>& needs_gradient) const = 0;
};

/// Whether a task has several kernels, or computes in either order of memory.
bool has_alternatives(const ir::Graph& graph, TaskId task);
/// Whether any task of the graph does.
bool has_alternatives(const ir::Graph& graph);
/// A copy of the graph and, behind its tasks, what else could stand for them: per kind of task each way to compute it
/// that its operator's rule allows, and per kind of value between them the copies into either order. Nobody reads their
/// results: they are there to be timed. Tasks and values of `graph` keep their ids. Without a task that has
/// alternatives nothing is added.
ir::Graph with_alternatives(const ir::Graph& graph);

/// Gives convolutions, pooling and batch normalisation the kernels (`algorithm`) and orders (`channels_last`) that
/// together take the least time, the copies between orders (`contiguous`) included. Elementwise tasks and
/// concatenations between them have the order of their operands; all other tasks read what lies as its axes say.
///
/// Before: all lies as its axes say, and LibTorch chooses kernels. After: the same values by the same operators, whose
/// sums are taken in another order. The choice is a minimum cut: a node for each task that may have either order, an
/// edge for what the one or the other takes, and for each value a group whose nodes pay for one copy unless they agree;
/// so it is the best choice for these times. Times that differ by less than two in a hundred count as equal, and a
/// value without a known time of its copy is not copied. Stands behind the planner's pipeline, where times are known,
/// and before mark-constants. Almost linear (Boykov and Kolmogorov 2004). Never changes a graph of which no time is
/// known.
class ChooseKernels : public Pass {
 public:
  explicit ChooseKernels(std::shared_ptr<const KernelTimes> times) : times_(std::move(times)) {}
  std::string_view name() const override { return "choose-kernels"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::shared_ptr<const KernelTimes> times_;
};

}  // namespace rannc::passes
