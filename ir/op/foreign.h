/// Operators of LibTorch's dispatcher that have no core operator: what a task of one says of its call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// Types of operands and results for which a call was asked, in symbols of their own: an operand whose size is a symbol
/// says what that symbol stands for. `f32[batch,n] samples 0, _ -> f32[batch] samples 0`.
struct ForeignTypes {
  std::vector<std::optional<ValueType>> operands;  ///< nothing: absent
  std::vector<ValueType> results;
  bool operator==(const ForeignTypes&) const = default;
};
std::string str(const ForeignTypes& types);
Result<ForeignTypes> parse_foreign_types(std::string_view text);

/// A parameter of the schema for which operands stand: one, or a list of them.
struct ForeignOperand {
  std::string parameter;
  std::optional<uint32_t> count;  ///< of a list
  bool operator==(const ForeignOperand&) const = default;
};

/// All that a task says of its call. Parameters that neither operands nor arguments stand for take their defaults.
struct ForeignCall {
  std::string schema;                    ///< with its overload: `aten::cdist`, `aten::searchsorted.Tensor`
  std::vector<ForeignOperand> operands;  ///< in the order of the task's operands
  /// By parameter: a flag, an integer or a size, a number, a text, an element type (an integer where LibTorch counts
  /// layouts and the like), a list of integers or sizes, or of numbers.
  Attributes arguments;
  std::vector<std::string> none;  ///< parameters that are None though that is not their default
  std::string device;             ///< the parameter that takes the program's device; empty: none
  ForeignTypes types;
  bool guessed = false;  ///< the types of the results are observed, not derived: every run asserts them
  bool list = false;     ///< the results are one list
  bool view = false;     ///< the results may share memory with operands: they are copied
};

/// The call that asserts what was guessed of a tensor, or follows from another float type: `a` has `size` and `dtype`.
inline constexpr std::string_view kForeignAssert = "aten::_assert_tensor_metadata";

/// `aten.cdist` of `aten::cdist` and of its overloads.
std::string foreign_name(std::string_view schema);
/// Whether tasks of that name are such calls: `<namespace>.<name>`, of neither core operators nor gradients.
bool is_foreign_name(std::string_view name);
/// The attributes of the task, of which those that are no arguments are named `call.…`.
Attributes foreign_attributes(const ForeignCall& call);
/// The way back; an error where attributes say no call.
Result<ForeignCall> foreign_call(const Attributes& attributes);

/// The types that the call gives of these operands: symbols of the declared types stand for what the operands have, and
/// results of a float type follow operands of another float type. An error where the operands are others than those
/// for which the types were declared.
Result<std::vector<ValueType>> foreign_types(const ForeignCall& call, const std::vector<const ValueType*>& operands);

/// The entry of such operators: rules that read the attributes.
OpInfo foreign_entry(std::string_view name);
bool is_foreign(const OpInfo& op);
/// Of any of them, for who has attributes alone.
const OpInfo& any_foreign_op();
/// Empty, or what is wrong with an attribute of a task of one.
std::string foreign_attribute_fault(std::string_view name, const Attribute& value);

}  // namespace rannc::ir
