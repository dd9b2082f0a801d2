/// Autograd memory of an operator: values that LibTorch's tape keeps from the forward to the backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir {

struct OpInfo;

/// A value that the derivative reads.
struct Kept {
  enum class Of : uint8_t { kOperand, kResult };
  static constexpr uint32_t kAlways = UINT32_MAX;

  Of of = Of::kOperand;
  uint32_t index = 0;
  uint32_t where_wanted = kAlways;  ///< kept only if this operand needs a gradient
  bool in_one_piece = false;        ///< a copy is kept instead if the value is not contiguous
};

/// Input to a tape rule: a task through which a gradient flows.
struct TapeCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  const Attributes& attributes;
  uint64_t wanted = 0;  ///< bit k: operand k needs a gradient
  DeviceType device = DeviceType::kCpu;
  bool wants(size_t operand) const { return operand < 64 && (wanted >> operand & 1) != 0; }
};

/// Result of a tape rule, in addition to the values that the entry lists.
struct TapeUse {
  std::vector<Kept> keeps;
  Dim own_bytes = 0;        ///< kept in addition to values: statistics, copies
  Dim workspace_bytes = 0;  ///< temporary memory in addition to operands, results and their gradients
};

struct TapeInfo {
  std::vector<Kept> keeps = {};
  TapeUse (*rule)(const TapeCall&) = nullptr;
};

}  // namespace rannc::ir
