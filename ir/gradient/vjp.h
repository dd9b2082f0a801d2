/// Fallback gradients for operators without a gradient rule: LibTorch's tape for one task.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/gradient/gradient.h"
#include "ir/graph/views.h"
#include "ir/op/op_tape.h"

namespace rannc::ir {

/// Computes all wanted gradients by one task `vjp.<operator>`. Its first operands are the gradients of the results
/// (absent if none reaches a result). Of a `taped.…` task, the tape follows, then the values whose memory the tape
/// shares. Of any other task, the forward task's operands follow, and its attributes: the task repeats the forward
/// pass, without auxiliary results that no gradient reaches.
void add_vjp(GradientCall& call);
/// `add_vjp` as a gradient rule of an entry.
bool gradient_by_vjp(GradientCall& call);

/// The parts of a `vjp.…` task.
struct Vjp {
  const OpInfo* op = nullptr;          ///< the forward operator
  std::span<const ValueId> gradients;  ///< by result; invalid if none reaches it
  ValueId tape;                        ///< invalid: the forward pass is repeated
  std::span<const ValueId> operands;   ///< of the forward task, or the values whose memory the tape shares
  std::vector<uint32_t> wanted;        ///< operands of the forward task whose gradients are its results
  Attributes attributes;               ///< of the forward task if it is repeated
};

/// The parts of a task; nothing if it is not a `vjp.…` task. The spans point into the graph.
std::optional<Vjp> vjp_of(const Graph& graph, TaskId task);

/// Whether the gradient of an operator is a `vjp` task for every call, so that its forward task can keep a tape.
bool keeps_tape(const OpInfo& op);

/// The copy of a forward task that keeps its tape: the name `taped.<operator>`, attributes that list the wanted
/// operands and the values whose memory the tape shares, and the tape as one more result. The tape is bytes (u8) that
/// only the `vjp` task can read, as many as it keeps in addition to values of the graph.
struct Taped {
  const OpInfo* op = nullptr;        ///< the operator
  std::span<const ValueId> results;  ///< without the tape
  ValueId tape;
  std::vector<uint32_t> wanted;  ///< operands whose gradients are wanted
  std::vector<uint32_t> shared;  ///< operands, then results, counted together
  Attributes attributes;         ///< of the operator
};

/// Name and attributes of the copy, and the type of its tape.
struct TapedCopy {
  std::string name;
  Attributes attributes;
  ValueType tape;
};
/// The copy of a task that keeps its tape. `wanted`: by operand. `views`: of the graph.
TapedCopy taped_copy(const Graph& graph, TaskId task, const std::vector<bool>& wanted, const Views& views);

/// The parts of a task; nothing if it is not a `taped.…` task. The spans point into the graph.
std::optional<Taped> taped_of(const Graph& graph, TaskId task);
/// Whether a value is the tape of a `taped.…` task.
bool is_tape(const Graph& graph, ValueId value);
/// The name of a task's operator without the prefix of a `taped.…` task.
std::string_view operator_name(const Graph& graph, TaskId task);
/// What the tape of a `taped.…` task keeps, and what its `vjp` task allocates in addition.
TapeUse tape_use(const Graph& graph, const Taped& taped, TaskId task);

}  // namespace rannc::ir
