#include "codegen/aten_source.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "ir/op.h"

namespace rannc::codegen {

namespace {

namespace aten = ir::aten;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::string number(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string flag(bool value) { return value ? "True" : "False"; }

/// `aten::add.Tensor` is called as `torch.add`.
std::string function_of(std::string_view schema) {
  schema.remove_prefix(schema.find("::") + 2);
  return "torch." + std::string(schema.substr(0, schema.find('.')));
}

class Writer {
 public:
  Writer(const aten::Lowering& lowering, const AtenNames& names) : lowering_(lowering), names_(names) {}

  std::string write() {
    count_uses();
    for (uint32_t call = 0; call < lowering_.calls.size(); ++call) write(call);
    for (size_t i = 0; i < lowering_.results.size(); ++i) {
      const std::string value = text(lowering_.results[i]);
      if (value != names_.results[i]) text_ += names_.results[i] + " = " + value + "\n";
    }
    return std::move(text_);
  }

 private:
  void count_uses() {
    uses_.assign(lowering_.calls.size(), 0);
    for (const aten::Call& call : lowering_.calls) {
      for (const aten::Argument& argument : call.arguments) {
        if (const auto* value = std::get_if<aten::Value>(&argument.value)) count(*value);
        if (const auto* list = std::get_if<std::vector<aten::Value>>(&argument.value)) {
          for (const aten::Value& value : *list) count(value);
        }
      }
    }
    for (size_t i = 0; i < lowering_.results.size(); ++i) {
      const auto* made = std::get_if<aten::Made>(&lowering_.results[i]);
      if (made != nullptr && lowering_.calls[made->call].results == 1)
        variables_.try_emplace(made->call, names_.results[i]);
    }
  }
  void count(const aten::Value& value) {
    if (const auto* made = std::get_if<aten::Made>(&value)) ++uses_[made->call];
  }

  void write(uint32_t index) {
    const aten::Call& call = lowering_.calls[index];
    std::string expression = function_of(call.schema) + "(";
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const aten::Argument& argument = call.arguments[i];
      expression += (i == 0 ? "" : ", ") + (argument.name.empty() ? "" : argument.name + "=") + text(argument.value);
    }
    expression += ")";
    const auto named = variables_.find(index);
    if (named == variables_.end() && uses_[index] == 1 && call.results == 1) {
      inline_[index] = std::move(expression);
      return;
    }
    const std::string variable =
        named != variables_.end() ? named->second : fmt::format("{}_{}", names_.results[0], index);
    variables_[index] = variable;
    text_ += variable + " = " + expression + "\n";
  }

  std::string text(const aten::Value& value) const {
    if (const auto* operand = std::get_if<aten::Operand>(&value)) {
      const bool there = operand->index < names_.operands.size() && !names_.operands[operand->index].empty();
      return there ? names_.operands[operand->index] : "None";
    }
    const auto& made = std::get<aten::Made>(value);
    if (const auto found = inline_.find(made.call); found != inline_.end()) return found->second;
    const std::string& variable = variables_.at(made.call);
    return lowering_.calls[made.call].results == 1 ? variable : fmt::format("{}[{}]", variable, made.index);
  }

  std::string text(const aten::Argument::Kind& argument) const {
    return std::visit(Overloaded{
                          [](const aten::None&) -> std::string { return "None"; },
                          [this](const aten::Value& value) { return text(value); },
                          [this](const std::vector<aten::Value>& values) {
                            return list(values, [this](const aten::Value& v) { return text(v); });
                          },
                          [](const ir::Dim& dim) { return ir::torchscript(dim); },
                          [](const ir::Shape& dims) { return ir::torchscript(dims); },
                          [this](const aten::Scalar& scalar) {
                            return std::visit(Overloaded{[](const ir::Dim& dim) { return ir::torchscript(dim); },
                                                         [](double value) { return number(value); },
                                                         [](bool value) { return flag(value); }},
                                              scalar.number);
                          },
                          [](double value) { return number(value); },
                          [](bool value) { return flag(value); },
                          [](const std::vector<bool>& values) { return list(values, flag); },
                          [](ir::DType dtype) { return std::to_string(ir::torch_number(dtype)); },
                          [](aten::MemoryFormat format) { return std::to_string(static_cast<int>(format)); },
                          [this](const aten::Device&) { return names_.device; },
                          [this](const aten::Training&) { return names_.training; },
                          [](const aten::Text& given) { return "\"" + given.text + "\""; },
                      },
                      argument);
  }

  template <class List, class F>
  static std::string list(const List& values, F&& spell) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + spell(values[i]);
    return text + "]";
  }

  const aten::Lowering& lowering_;
  const AtenNames& names_;
  std::vector<uint32_t> uses_;                 // by call
  std::map<uint32_t, std::string> variables_;  // by call
  std::map<uint32_t, std::string> inline_;     // by call: what stands where its result is read
  std::string text_;
};

}  // namespace

std::string torchscript_statements(const ir::aten::Lowering& lowering, const AtenNames& names) {
  return Writer(lowering, names).write();
}

}  // namespace rannc::codegen
