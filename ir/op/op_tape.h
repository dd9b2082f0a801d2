/// The part of an operator's entry that says what LibTorch's tape keeps of it from its forward to its backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir {

struct OpInfo;

/// A value whose memory the derivative reads.
struct Kept {
  enum class Of : uint8_t { kOperand, kResult };
  static constexpr uint32_t kAlways = UINT32_MAX;

  Of of = Of::kOperand;
  uint32_t index = 0;
  uint32_t where_wanted = kAlways;  ///< only where this operand wants a gradient
  bool in_one_piece = false;        ///< a copy in its stead where its elements are scattered
};

/// What a tape rule sees of a task through which a gradient flows.
struct TapeCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  const Attributes& attributes;
  uint64_t wanted = 0;  ///< bit k: operand k wants a gradient
  bool wants(size_t operand) const { return operand < 64 && (wanted >> operand & 1) != 0; }
};

/// What a tape rule finds, beside what the entry lists.
struct TapeUse {
  std::vector<Kept> keeps;
  Dim own_bytes = 0;        ///< kept beside the memory of values: statistics, copies
  Dim workspace_bytes = 0;  ///< needed for a while, beside operands, results and their gradients
  bool gives_rows = false;  ///< the gradient of operand 0 has only the rows that were looked up
};

struct TapeInfo {
  std::vector<Kept> keeps = {};
  uint32_t copies = 0;           ///< of the result that the derivative makes for a while
  bool passes_gradient = false;  ///< the gradient of the result serves as that of operands of its shape
  TapeUse (*rule)(const TapeCall&) = nullptr;
};

}  // namespace rannc::ir
