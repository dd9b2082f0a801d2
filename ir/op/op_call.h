/// What rules of operators see of a task, which need not be in a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir {

/// Two sizes that are taken for equal.
using Equality = std::pair<Dim, Dim>;

struct OpInfo;

/// The attributes of a task as its rules read them: absent ones stand for what the operator's entry says.
class OpAttributes {
 public:
  OpAttributes(const OpInfo& op, const Attributes& given) : op_(&op), given_(&given) {}
  const Attributes& given() const { return *given_; }
  /// As given, or the entry's default; null where there is neither.
  const Attribute* find(std::string_view name) const;
  /// Whether it is given, or has a default.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Typed look-ups; one that has no default must be given or has the type's zero.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const { return given_->dtype(name); }
  const Shape* list(std::string_view name) const { return given_->list(name); }
  const Body* body(std::string_view name) const { return given_->body(name); }
  /// A list of plain integers; empty where absent.
  std::vector<int64_t> integers(std::string_view name) const { return given_->integers(name); }

 private:
  const OpInfo* op_;
  const Attributes* given_;
};

/// What a type rule sees of a task, without the task having to be in a graph.
struct OpCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  OpAttributes attributes;
  std::string_view batch_symbol;
  uint32_t output_count = 1;
  std::vector<Equality>* assumed = nullptr;  ///< takes what the rule needs and cannot prove; null: it must prove all

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

/// Work and traffic of one execution; expressions of the batch symbol.
struct Work {
  Dim flops = 0;  ///< floating-point operations, a multiply-add counts two
  Dim bytes = 0;  ///< bytes read and written
};

/// What a lowering rule sees of a task.
struct LowerCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  OpAttributes attributes;

  LowerCall(const OpInfo& op, std::span<const ValueType* const> inputs, std::span<const ValueType* const> outputs,
            const Attributes& attributes)
      : op(op), inputs(inputs), outputs(outputs), attributes(op, attributes) {}
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
};

}  // namespace rannc::ir
