/// Chooses kernels and memory layouts by their costs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/graph/structure.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Source of task times.
class KernelTimes {
 public:
  virtual ~KernelTimes() = default;
  /// What the times are, for the remark: `measured time`.
  virtual std::string_view basis() const { return "measured time"; }
  /// Returns the time of the forward and backward pass of a task of `with_alternatives(graph)`, in ns or in another
  /// unit that all of them share; nullopt if unknown. `roles` belong to that graph (`ir::gradient_roles`).
  virtual std::optional<double> ns(const ir::Graph& graph, TaskId task,
                                   const std::vector<ir::GradientRole>& roles) const = 0;
};

/// Memory format of the weights that channels-last convolutions read.
enum class WeightFormat {
  kStored,        ///< as stored: kernels of processors have formats of their own
  kChannelsLast,  ///< copied once per step or load: kernels of GPUs would copy them in every call
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
/// equal, and a value whose copy has no known time is not copied. Weights are not part of the choice. Those that are
/// computed once per step or less are copied afterwards if `WeightFormat` says so, unless both formats are the same:
/// one place per filter, or one channel. Runs after the planner's pipeline, where times are known, and before
/// mark-constants. Almost linear (Boykov and Kolmogorov 2004). Never changes a graph if no time is known.
class ChooseKernels : public Pass {
 public:
  explicit ChooseKernels(std::shared_ptr<const KernelTimes> times, WeightFormat weights = WeightFormat::kStored)
      : times_(std::move(times)), weights_(weights) {}
  std::string_view name() const override { return "choose-kernels"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::shared_ptr<const KernelTimes> times_;
  WeightFormat weights_;
};

}  // namespace rannc::passes
