/// What the rows of elementwise families share. Private to ir/ops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

using Names = std::vector<std::string_view>;

/// What a row says beside types.
struct Traits {
  View view = View::kNone;
  Linear (*linear)(const OpCall&) = nullptr;
  GradientRule gradient = nullptr;
  std::optional<TapeInfo> tape = {};
  FoldRule fold = nullptr;
  IntervalRule interval = nullptr;
  bool costly = false;
  std::string schema = {};    ///< the call; empty: `aten::<name>`
  LowerRule lower = nullptr;  ///< instead of the call
  Names aten = {};            ///< names for such a rule
  std::vector<AttributeInfo> attributes = {};
  std::vector<aten::Template::Slot> slots = {};  ///< of the call, after the operands
};

/// Of operator `core.<name>`; several operands stretch to a common shape.
OpInfo elementwise(std::string_view name, std::string_view says, Names onnx, std::vector<OperandInfo> operands,
                   InferRule infer, Traits traits);
OpInfo unary(std::string_view name, std::string_view says, Names onnx, InferRule infer, Traits traits = {});
OpInfo binary(std::string_view name, std::string_view says, Names onnx, InferRule infer, Traits traits);

// --- what the tape keeps
inline TapeInfo keeps_nothing() { return {}; }
inline TapeInfo keeps_operand(uint32_t copies = 0) { return {{kept_operand(0)}, copies}; }
inline TapeInfo keeps_operands() { return {{kept_operand(0), kept_operand(1)}}; }
inline TapeInfo keeps_result(uint32_t copies = 0) { return {{kept_result()}, copies}; }

// --- type rules
/// Shape and samples of a broadcast operation over all operands that are there, of element type `dtype`.
Result<ValueType> broadcast_type(const OpCall& call, DType dtype);
/// The operand's type with another element type, without contents.
ValueType like(const OpCall& call, DType dtype);
Result<Types> infer_float(const OpCall& call);
Result<Types> infer_float_test(const OpCall& call);

}  // namespace rannc::ir::ops
