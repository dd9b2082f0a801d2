/// Helpers that build the entries of elementwise families. Private to ir/op.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

using Names = std::vector<std::string_view>;

/// Properties of a row other than types.
struct Traits {
  Autocast autocast = Autocast::kWidest;
  View view = View::kNone;
  Linear (*linear)(const OpCall&) = nullptr;
  GradientRule gradient = nullptr;
  std::optional<TapeInfo> tape = {};
  FoldRule fold = nullptr;
  IntervalRule interval = nullptr;
  bool costly = false;
  std::string schema = {};    ///< schema of the call; empty: `aten::<name>`
  LowerRule lower = nullptr;  ///< replaces the call
  Names aten = {};            ///< ATen names, with `lower`
  std::vector<AttributeInfo> attributes = {};
  std::vector<aten::Template::Slot> slots = {};  ///< of the call, after the operands
};

/// Entry of `core.<name>`. Several operands are broadcast to a common shape.
OpInfo elementwise(std::string_view name, std::string_view summary, Names onnx, std::vector<OperandInfo> operands,
                   InferRule infer, Traits traits);
OpInfo unary(std::string_view name, std::string_view summary, Names onnx, InferRule infer, Traits traits = {});
OpInfo binary(std::string_view name, std::string_view summary, Names onnx, InferRule infer, Traits traits);

// --- type rules
/// Type of a broadcast operation over all present operands, with element type `dtype`.
Result<ValueType> broadcast_type(const OpCall& call, DType dtype);
/// The operand's type with another element type, without contents.
ValueType like(const OpCall& call, DType dtype);
Result<Types> infer_float(const OpCall& call);
Result<Types> infer_float_test(const OpCall& call);

}  // namespace rannc::ir::ops
