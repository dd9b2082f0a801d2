/// Kernels that compute several gradients of one task in one call. Private to ir/op.
#pragma once

#include <array>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Gradient tasks that one call of a kernel computes: of the input (0), of the weight or scale (1), of the bias (2). At
/// least one of the first two is there. Operands of equal names are equal, and so are attributes. Operand 0 is the
/// gradient of the forward task's result.
struct KernelCall {
  std::array<const LowerCall*, 3> tasks = {};  ///< by gradient; null: not wanted
  std::array<uint32_t, 3> first = {};          ///< by gradient: number of the task's operand 0 among those of all tasks

  bool wants(size_t gradient) const { return tasks[gradient] != nullptr; }
  /// Shape of a wanted gradient.
  const Shape& shape(size_t gradient) const { return shape_of(*tasks[gradient]->outputs[0]); }
  /// The first task that is not the bias'.
  const LowerCall& any() const { return *(wants(0) ? tasks[0] : tasks[1]); }
  /// The operand of that name; nothing if it is absent, or no task has one of that name.
  std::optional<aten::Value> operand(std::string_view name) const;
  std::vector<bool> mask() const { return {wants(0), wants(1), wants(2)}; }
};

/// Lowers a call of a kernel for the wanted gradients. The lowering has a result for each gradient, of which those that
/// are not wanted must not be read.
using KernelRule = Result<aten::Lowering> (*)(const KernelCall&);

/// The kernels. A family defines those of its operators.
Result<aten::Lowering> convolution_backward(const KernelCall& call);
Result<aten::Lowering> layer_norm_backward(const KernelCall& call);
Result<aten::Lowering> batch_norm_backward(const KernelCall& call);
Result<aten::Lowering> group_norm_backward(const KernelCall& call);

/// The value, or None if there is none.
aten::Argument or_none(const std::optional<aten::Value>& value);
/// All three results of a kernel.
inline std::vector<aten::Value> gradients_of(aten::Made made) {
  return {made, aten::Made{made.call, 1}, aten::Made{made.call, 2}};
}

/// Lowering rule of a task for one gradient. It assigns the operator to the kernel (`ir/op/merged_calls.h`).
template <KernelRule rule, size_t gradient>
Result<aten::Lowering> one_gradient(const LowerCall& call) {
  KernelCall kernel;
  kernel.tasks[gradient] = &call;
  RANNC_ASSIGN(aten::Lowering made, rule(kernel));
  made.results = {made.results[gradient]};
  return made;
}

}  // namespace rannc::ir::ops
