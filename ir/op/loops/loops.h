/// Loop rules of operators. Private to ir.
#pragma once

#include <span>
#include <string_view>

#include "ir/op/loops/terms.h"

namespace rannc::ir::ops {

/// What a call's loop computes, without regard to sizes.
struct LoopRule {
  LoopBody body;
  std::optional<LoopLabels> labels;
  bool integers = false;      ///< operand 0 may be integers
  bool truths = false;        ///< all operands may be truth values
  int64_t least_columns = 0;  ///< of loops by rows
};

/// Rows from which loops are about as fast as LibTorch's operators, for most of them. Shorter ones are a vector or
/// less.
constexpr int64_t kLeastColumns = 16;

/// A row of a table of rules.
struct LoopRow {
  std::string_view name;
  Term expression = {};                                 ///< of the only result
  Statements (*rule)(const LowerCall& call) = nullptr;  ///< instead of an expression
  std::optional<uint32_t> labels = {};                  ///< operand of labels; attribute `ignore_index` is ignored
  bool integers = false, truths = false;
  int64_t least_columns = kLeastColumns;  ///< as `bench-loops` measures it
};
std::span<const LoopRow> elementwise_loops();
std::span<const LoopRow> row_loops();
std::span<const LoopRow> loss_loops();

/// Whether attribute `axis` counts the last axis of an operand.
bool is_along_columns(const LowerCall& call, size_t operand);

/// The label that a loss does not count.
double ignored(const LowerCall& call);

/// The rule of a call. Nothing: the operator or its attributes have none.
std::optional<LoopRule> loop_rule(const LowerCall& call);

}  // namespace rannc::ir::ops
