/// Inputs to operator rules: a task, which need not be in a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir {

/// Two sizes that are assumed to be equal.
using Equality = std::pair<Dim, Dim>;

struct AttributeInfo;
struct OpInfo;

/// The attributes of a task with the defaults of the operator's entry for absent ones. Every look-up names an attribute
/// that the entry declares; any other name fails a check.
class OpAttributes {
 public:
  OpAttributes(const OpInfo& op, const Attributes& given) : op_(&op), given_(&given) {}
  const Attributes& given() const { return *given_; }
  /// The value as given, or the entry's default; null if there is neither.
  const Attribute* find(std::string_view name) const;
  /// Whether the entry has the attribute. Only rules that several operators share need to ask.
  bool declares(std::string_view name) const;
  /// Whether the attribute is given or has a default.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Typed look-ups: the value, the default, or the type's zero.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  const Shape* list(std::string_view name) const;
  const Body* body(std::string_view name) const;
  /// A list of plain integers; empty if absent.
  std::vector<int64_t> integers(std::string_view name) const;

 private:
  /// The entry's declaration of the attribute, which must exist: a zero for a misspelt name would be a wrong number.
  const AttributeInfo& declared(std::string_view name) const;

  const OpInfo* op_;
  const Attributes* given_;
};

/// Input to a type rule.
struct OpCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  OpAttributes attributes;
  std::string_view batch_symbol;
  uint32_t output_count = 1;
  std::vector<Equality>* assumed =
      nullptr;  ///< receives equalities that the rule cannot prove; null: it must prove all

  OpCall(const OpInfo& op, std::span<const ValueType* const> inputs, const Attributes& attributes,
         std::string_view batch_symbol, uint32_t output_count = 1, std::vector<Equality>* assumed = nullptr)
      : op(op),
        inputs(inputs),
        attributes(op, attributes),
        batch_symbol(batch_symbol),
        output_count(output_count),
        assumed(assumed) {}
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  const ValueType& in(size_t operand) const { return *inputs[operand]; }
};

/// Work and memory traffic of one execution, as expressions of the batch symbol.
struct Work {
  Dim flops = 0;  ///< floating-point operations; a multiply-add counts as two
  Dim bytes = 0;  ///< bytes read and written
};

/// Input to a lowering rule.
struct LowerCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  OpAttributes attributes;
  DeviceType device;             ///< that the calls run on
  bool flash_attention = false;  ///< the device has the kernels
  /// Bit k: operand k lies in memory as rows along its last axis, in one piece each, at multiples of `kRowBytes`. Where
  /// that is unknown: 0.
  uint64_t rows = 0;
  static constexpr int64_t kRowBytes = 16;

  LowerCall(const OpInfo& op, std::span<const ValueType* const> inputs, std::span<const ValueType* const> outputs,
            const Attributes& attributes, DeviceType device = DeviceType::kCpu)
      : op(op), inputs(inputs), outputs(outputs), attributes(op, attributes), device(device) {}
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  bool has_rows(size_t operand) const { return operand < 64 && (rows >> operand & 1) != 0; }
};

}  // namespace rannc::ir
