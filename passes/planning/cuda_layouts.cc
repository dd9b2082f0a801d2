#include "passes/planning/cuda_layouts.h"

#include "ir/graph/memory_format.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

/// One task of a graph, with what its times follow from.
class Priced {
 public:
  Priced(const ir::Graph& graph, TaskId task, const std::vector<ir::GradientRole>& roles, const ir::Bindings& sizes,
         TensorCores tensor_cores)
      : graph_(graph),
        task_(task),
        roles_(roles),
        sizes_(sizes),
        tensor_cores_(tensor_cores),
        attributes_(graph.op(task), graph.attributes(task)),
        dtype_(graph.type(graph.inputs(task)[0]).dtype) {
    if (!graph.batch_symbol().empty()) sizes_[graph.batch_symbol()] = 1;
  }

  std::optional<double> bytes() const {
    static const ir::Ops kCopies{"contiguous"}, kConvolutions{"conv"}, kNorms{"batch_norm"},
        kPools{"max_pool", "avg_pool", "adaptive_avg_pool"};
    const ir::OpInfo& op = graph_.op(task_);
    if (dtype_ == ir::DType::kF64) return std::nullopt;
    if (kCopies.contains(op)) return copied(graph_.inputs(task_)[0]);
    if (kConvolutions.contains(op)) return of_convolution();
    if (kNorms.contains(op)) return of_norm();
    return kPools.contains(op) ? std::optional(0.0) : std::nullopt;
  }

 private:
  bool last() const { return attributes_.flag(ir::kChannelsLast); }

  std::optional<double> of_convolution() const {
    if (attributes_.text(ir::kAlgorithm) != "any") return std::nullopt;
    const bool on_tensor_cores = dtype_ != ir::DType::kF32 || tensor_cores_ == TensorCores::kSixteenBitsAndTf32;
    if (attributes_.integer("groups") == 1) return on_tensor_cores ? both_copied() : 0;
    const ir::Shape& weight = *graph_.type(graph_.inputs(task_)[1]).shape;
    const bool depthwise = weight[1] == ir::Dim(1);
    return last() && !(depthwise && dtype_ != ir::DType::kF32) ? std::nullopt : std::optional(0.0);
  }

  std::optional<double> of_norm() const {
    return attributes_.flag("training") && !attributes_.flag("synchronised") ? both_copied() : 0;
  }

  /// Copies of operand and result unless channels come last.
  std::optional<double> both_copied() const {
    const auto read = copied(graph_.inputs(task_)[0]), made = copied(graph_.outputs(task_)[0]);
    if (!read || !made) return std::nullopt;
    return last() ? 0 : *read + *made;
  }

  std::optional<double> copied(ValueId value) const {
    const ir::ValueType& type = graph_.type(value);
    const auto elements = ir::element_count(*type.shape).evaluate(sizes_);
    if (!elements) return std::nullopt;
    const double tensors = roles_[value.index()] == ir::GradientRole::kNone ? 1 : 2;  // with the gradient
    return 2 * tensors * static_cast<double>(*elements) * static_cast<double>(byte_size(type.dtype));
  }

  const ir::Graph& graph_;
  const TaskId task_;
  const std::vector<ir::GradientRole>& roles_;
  ir::Bindings sizes_;
  const TensorCores tensor_cores_;
  const ir::OpAttributes attributes_;
  const ir::DType dtype_;
};

}  // namespace

std::optional<double> CudaLayouts::ns(const ir::Graph& graph, TaskId task,
                                      const std::vector<ir::GradientRole>& roles) const {
  return Priced(graph, task, roles, sizes_, tensor_cores_).bytes();
}

}  // namespace rannc::passes
