/// Foreign operators: operators of LibTorch's dispatcher that have no core operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// Declared types of the operands and results of a call, with symbols of their own. A symbol stands for the size of the
/// operand that declares it. Text: `f32[batch,n] samples 0, _ -> f32[batch] samples 0`.
struct ForeignTypes {
  std::vector<std::optional<ValueType>> operands;  ///< nothing: absent
  std::vector<ValueType> results;
  bool operator==(const ForeignTypes&) const = default;
};
std::string str(const ForeignTypes& types);
Result<ForeignTypes> parse_foreign_types(std::string_view text);

/// A schema parameter that is passed as one operand, or as a list of operands.
struct ForeignOperand {
  std::string parameter;
  std::optional<uint32_t> count;  ///< of a list
  bool operator==(const ForeignOperand&) const = default;
};

/// Description of a foreign call in the attributes of its task. Parameters that are neither operands nor arguments take
/// their defaults.
struct ForeignCall {
  std::string schema;                    ///< with its overload: `aten::cdist`, `aten::searchsorted.Tensor`
  std::vector<ForeignOperand> operands;  ///< in the order of the task's operands
  /// By parameter: a flag, an integer or size, a number, a text, an element type, or a list of integers, sizes or
  /// numbers. Enumerations of LibTorch such as layouts are integers.
  Attributes arguments;
  std::vector<std::string> none;  ///< parameters that are None although that is not their default
  std::string device;             ///< the parameter that takes the program's device; empty: none
  ForeignTypes types;
  bool guessed = false;  ///< the result types are observed, not derived; every run asserts them
  bool list = false;     ///< the results are one list
  bool view = false;     ///< the results may share memory with operands, so they are copied
};

/// The call that asserts a guessed type, or one that follows from another float type: `a` has `size` and `dtype`.
inline constexpr std::string_view kForeignAssert = "aten::_assert_tensor_metadata";

/// The operator name of a schema: `aten.cdist` for `aten::cdist` and its overloads.
std::string foreign_name(std::string_view schema);
/// Whether a name denotes a foreign operator: `<namespace>.<name>`, neither a core operator nor a gradient.
bool is_foreign_name(std::string_view name);
/// Encodes a call as attributes of its task. Attributes that are not arguments are named `call.…`.
Attributes foreign_attributes(const ForeignCall& call);
/// Decodes a call from attributes. Fails if they do not describe a call.
Result<ForeignCall> foreign_call(const Attributes& attributes);

/// Result types of the call for these operands. Symbols of the declared types are bound to the sizes of the operands,
/// and float results follow operands of another float type. Fails if the operands do not match the declared types.
Result<std::vector<ValueType>> foreign_types(const ForeignCall& call, const std::vector<const ValueType*>& operands);

/// The registry entry of a foreign operator. Its rules read the attributes.
OpInfo foreign_entry(std::string_view name);
bool is_foreign(const OpInfo& op);
/// An arbitrary foreign operator, for callers that have attributes only.
const OpInfo& any_foreign_op();
/// The fault of an attribute of a foreign task; empty if it is valid.
std::string foreign_attribute_fault(std::string_view name, const Attribute& value);

}  // namespace rannc::ir
