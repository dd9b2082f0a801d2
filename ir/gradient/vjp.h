/// Fallback gradients for operators without a gradient rule: one task that runs LibTorch's tape for the operator.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/gradient/gradient.h"

namespace rannc::ir {

/// Computes all wanted gradients by one task `vjp.<operator>` with the operator's attributes and two of its own. Its
/// operands are the gradients of the results (absent if none reaches a result), then the forward task's operands. It
/// repeats the forward pass, without auxiliary results that no gradient reaches.
void add_vjp(GradientCall& call);
/// `add_vjp` as a gradient rule of an entry.
bool gradient_by_vjp(GradientCall& call);

/// The parts of a `vjp.…` task.
struct Vjp {
  const OpInfo* op = nullptr;          ///< the forward operator
  std::span<const ValueId> gradients;  ///< by result; invalid if none reaches it
  std::span<const ValueId> operands;   ///< of the forward task
  std::vector<uint32_t> wanted;        ///< operands whose gradients are its results
  Attributes attributes;               ///< of the forward task
};

/// The parts of a task; nothing if it is not a `vjp.…` task. The spans point into the graph.
std::optional<Vjp> vjp_of(const Graph& graph, TaskId task);

}  // namespace rannc::ir
