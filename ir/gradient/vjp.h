/// Gradients of operators that have no rule: one task that runs LibTorch's tape for the operator alone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/gradient/gradient.h"

namespace rannc::ir {

/// Gives all wanted gradients by one task `vjp.<operator>` with the operator's attributes and two of its own. Its
/// operands are the gradients of the results (absent where none reaches one), then the forward task's; it repeats the
/// forward pass.
void add_vjp(GradientCall& call);
/// The same as an entry's gradient rule.
bool gradient_by_vjp(GradientCall& call);

/// Such a task, taken apart.
struct Vjp {
  const OpInfo* op = nullptr;          ///< the forward operator
  std::span<const ValueId> gradients;  ///< by result; invalid: none
  std::span<const ValueId> operands;   ///< of the forward task
  std::vector<uint32_t> wanted;        ///< operands whose gradients are its results
  Attributes attributes;               ///< of the forward task
};

/// Nothing where the task is no such one. The spans are of the graph.
std::optional<Vjp> vjp_of(const Graph& graph, TaskId task);

}  // namespace rannc::ir
