/// Chooses kernels and memory layouts by their measured times.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/graph/structure.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Source of measured task times.
class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  /// Returns the time of the forward and backward pass of a task of `with_alternatives(graph)`, in ns; nullopt if
  /// unknown. `roles` belong to that graph (`ir::gradient_roles`).
  virtual std::optional<double> ns(const ir::Graph& graph, TaskId task,
                                   const std::vector<ir::GradientRole>& roles) const = 0;
};

/// Returns whether a task has several kernels or can compute in either memory layout.
bool has_alternatives(const ir::Graph& graph, TaskId task);
/// Returns whether any task of the graph has alternatives.
bool has_alternatives(const ir::Graph& graph);
/// Returns a copy of the graph with the alternatives appended, so that they can be measured. For each kind of task
/// these are all variants that its operator's rule allows. For each kind of value between such tasks they are the
/// copies into either layout. Their results have no readers. Tasks and values of `graph` keep their ids. Nothing is
/// added if no task has alternatives.
ir::Graph with_alternatives(const ir::Graph& graph);

/// Assigns kernels (`algorithm`) and layouts (`channels_last`) to convolutions, pooling and batch normalization such
/// that the total time is minimal, including the copies between layouts (`contiguous`). Elementwise tasks and
/// concatenations between them use the layout of their operands. All other tasks read the default layout.
///
/// Before: everything has the default layout, and LibTorch chooses kernels. After: the same values by the same
/// operators, whose sums are taken in another order. The choice is a minimum cut. It has a node for each task that may
/// use either layout and an edge for the time of each choice. Each value has a group whose nodes pay for one copy
/// unless they agree. The choice is therefore optimal for these times. Times that differ by less than 2 % count as
/// equal, and a value whose copy has no known time is not copied. Runs after the planner's pipeline, where times are
/// known, and before mark-constants. Almost linear (Boykov and Kolmogorov 2004). Never changes a graph if no time is
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
