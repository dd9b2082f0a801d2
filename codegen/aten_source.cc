#include "codegen/aten_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/internal/indented.h"
#include "codegen/internal/native_text.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"

namespace rannc::codegen {

namespace {

namespace aten = ir::aten;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::string torchscript_number(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  return decimal(value);
}

std::string flag(bool value) { return value ? "True" : "False"; }

/// `aten::add.Tensor` is called as `torch.add`, `mine::op` as `torch.ops.mine.op`.
std::string function_of(std::string_view schema) {
  const size_t colons = schema.find("::");
  const std::string_view space = schema.substr(0, colons);
  schema.remove_prefix(colons + 2);
  return (space == "aten" ? "torch." : fmt::format("torch.ops.{}.", space)) +
         std::string(schema.substr(0, schema.find('.')));
}

bool is_one_tensor(const aten::Call& call) { return call.results == 1 && !call.list; }

bool reads(const aten::Lowering& lowering, const aten::Value& wanted) {
  const auto is = [&](const aten::Value& value) { return value == wanted; };
  const auto in_list = [&](const aten::Argument& argument) {
    const auto* value = std::get_if<aten::Value>(&argument.value);
    const auto* list = std::get_if<std::vector<aten::Value>>(&argument.value);
    return (value != nullptr && is(*value)) || (list != nullptr && std::any_of(list->begin(), list->end(), is));
  };
  const auto by = [&](const aten::Call& call) {
    return std::any_of(call.arguments.begin(), call.arguments.end(), in_list);
  };
  return std::any_of(lowering.calls.begin(), lowering.calls.end(), by) ||
         std::any_of(lowering.results.begin(), lowering.results.end(), is);
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
      // Operands of a block get a variable. They may be read several times, and their own operands may change before
      // that.
      const int times = call.blocks.empty() ? 1 : 2;
      for (const aten::Argument& argument : call.arguments) {
        if (const auto* value = std::get_if<aten::Value>(&argument.value)) count(*value, times);
        if (const auto* list = std::get_if<std::vector<aten::Value>>(&argument.value)) {
          for (const aten::Value& value : *list) count(value, times);
        }
      }
    }
    for (size_t i = 0; i < lowering_.results.size(); ++i) {
      const auto* made = std::get_if<aten::Made>(&lowering_.results[i]);
      if (made == nullptr || !lowering_.calls[made->call].blocks.empty()) continue;
      if (is_one_tensor(lowering_.calls[made->call])) variables_.try_emplace(made->call, names_.results[i]);
    }
  }
  void count(const aten::Value& value, int times) {
    if (const auto* made = std::get_if<aten::Made>(&value)) uses_[made->call] += times;
  }

  void write(uint32_t index) {
    const aten::Call& call = lowering_.calls[index];
    if (!call.blocks.empty()) return control(index, call);
    if (call.schema == ir::kForeignAssert) return assertion(call);
    std::string expression = function_of(call.schema) + "(";
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const aten::Argument& argument = call.arguments[i];
      expression += (i == 0 ? "" : ", ") + (argument.name.empty() ? "" : argument.name + "=") + text(argument.value);
    }
    expression += ")";
    const auto named = variables_.find(index);
    if (named == variables_.end() && uses_[index] == 1 && is_one_tensor(call)) {
      inline_[index] = std::move(expression);
      return;
    }
    const std::string variable =
        named != variables_.end() ? named->second : fmt::format("{}_{}", names_.results[0], index);
    variables_[index] = variable;
    text_ += variable + " = " + expression + "\n";
  }

  // Writes an assert statement, because compilation of the program would remove a call of the assertion operator.
  void assertion(const aten::Call& call) {
    const auto& value = std::get<aten::Value>(call.arguments[0].value);
    const auto& dtype = std::get<ir::DType>(call.arguments[2].value);
    const std::string tensor = text(value), sizes = text(call.arguments[1].value);
    text_ += fmt::format(
        "assert {0}.size() == {1} and {0}.dtype == {2}, \"{3} gives sizes {{}} of type {{}}, not {{}} of {2}\".format("
        "{0}.size(), {0}.dtype, {1})\n",
        tensor, sizes, ir::torch_number(dtype), lowering_.calls[std::get<aten::Made>(value).call].schema);
  }

  // --- control

  using Texts = std::vector<std::string>;

  Texts texts(const aten::Argument& list) const {
    Texts found;
    for (const aten::Value& value : std::get<std::vector<aten::Value>>(list.value)) found.push_back(text(value));
    return found;
  }

  // Returns the indented statements of a block. The last ones assign `results`.
  std::string block(const aten::Block& block, const Texts& operands, const Texts& results) const {
    return indented(Writer(block.lowering(), {operands, results, names_.device, names_.training}).write());
  }

  void control(uint32_t index, const aten::Call& call) {
    const std::string stem = fmt::format("{}_{}_t", names_.results[0], index);
    Texts& made = control_[index];
    for (uint32_t i = 0; i < call.results; ++i) made.push_back(fmt::format("{}{}", stem, i));
    if (call.schema == aten::kIf) {
      branch(call, made);
    } else {
      loop(call, stem, made);
    }
  }

  void branch(const aten::Call& call, const Texts& made) {
    const Texts operands = texts(call.arguments[1]);
    const auto side = [&](const aten::Block& each) {
      const std::string lines = block(each, operands, made);
      return lines.empty() ? "    pass\n" : lines;
    };
    text_ += fmt::format("if bool({}):\n", text(call.arguments[0].value)) + side(call.blocks[0]) + "else:\n" +
             side(call.blocks[1]);
  }

  // Updates states and condition together, after all results of a trip are computed.
  void loop(const aten::Call& call, const std::string& stem, const Texts& made) {
    const std::string trip = stem + "_0", condition = stem + "_1", number = stem + "_2";
    const Texts states = texts(call.arguments[2]), scanned = texts(call.arguments[3]);
    const bool counted = !std::holds_alternative<aten::None>(call.arguments[0].value);
    const bool asks = !std::holds_alternative<aten::None>(call.arguments[1].value);
    const bool limited = !std::holds_alternative<aten::None>(call.arguments[5].value);
    Texts operands = {number, asks ? condition : ""}, next, advance;
    if (asks) next.push_back(stem + "_3");
    for (size_t i = 0; i < states.size(); ++i) {
      text_ += made[i] + " = " + states[i] + "\n";
      operands.push_back(made[i]);
      next.push_back(fmt::format("{}_4_{}", stem, i));
      advance.push_back(made[i] + " = " + next.back());
    }
    for (size_t i = 0; i < scanned.size(); ++i) {
      const std::string rows = fmt::format("{}_5_{}", stem, i);
      text_ += fmt::format("{} = torch.unbind({}, 0)\n", rows, scanned[i]);
      operands.push_back(fmt::format("{}[{}]", rows, trip));
    }
    for (const std::string& captured : texts(call.arguments[4])) operands.push_back(captured);
    for (size_t i = states.size(); i < made.size(); ++i) {
      const std::string list = fmt::format("{}_6_{}", stem, i);
      text_ += list + " = []\n";
      next.push_back(fmt::format("{}_4_{}", stem, i));
      advance.push_back(fmt::format("{}.append({})", list, next.back()));
    }
    if (asks) text_ += condition + " = " + text(call.arguments[1].value) + "\n";
    text_ += trip + " = 0\n";
    std::string holds = asks ? fmt::format("bool({})", condition) : "";
    if (counted) {
      const bool tensor = std::holds_alternative<aten::Value>(call.arguments[0].value);
      const std::string trips = text(call.arguments[0].value);
      text_ += fmt::format("{}_7 = {}\n", stem, tensor ? fmt::format("int({})", trips) : trips);
      holds += fmt::format("{}{} < {}_7", asks ? " and " : "", trip, stem);
    }
    std::string body;
    if (limited) {
      const std::string most = text(call.arguments[5].value);
      body += fmt::format("assert {} < {}, \"a loop makes more than {} trips\"\n", trip, most, most);
    }
    if (reads(call.blocks[0].lowering(), aten::Operand{0}))
      body += fmt::format("{} = torch.full([0][:0], {}, dtype=4, device={})\n", number, trip, names_.device);
    text_ += "while " + holds + ":\n" + indented(body) + block(call.blocks[0], operands, next);
    for (const std::string& line : advance) text_ += "    " + line + "\n";
    if (asks) text_ += fmt::format("    {} = {}\n", condition, next[0]);
    text_ += fmt::format("    {0} = {0} + 1\n", trip);
    for (size_t i = states.size(); i < made.size(); ++i)
      text_ += fmt::format("{} = torch.stack({}_6_{}, 0)\n", made[i], stem, i);
  }

  std::string text(const aten::Value& value) const {
    if (const auto* operand = std::get_if<aten::Operand>(&value)) {
      const bool there = operand->index < names_.operands.size() && !names_.operands[operand->index].empty();
      return there ? names_.operands[operand->index] : "None";
    }
    const auto& made = std::get<aten::Made>(value);
    if (const auto found = inline_.find(made.call); found != inline_.end()) return found->second;
    if (const auto found = control_.find(made.call); found != control_.end()) return found->second[made.index];
    const std::string& variable = variables_.at(made.call);
    return is_one_tensor(lowering_.calls[made.call]) ? variable : fmt::format("{}[{}]", variable, made.index);
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
                                                         [](double value) { return torchscript_number(value); },
                                                         [](bool value) { return flag(value); }},
                                              scalar.number);
                          },
                          [](double value) { return torchscript_number(value); },
                          [](const std::vector<double>& values) {
                            return values.empty() ? "annotate(List[float], [])" : list(values, torchscript_number);
                          },
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
  std::map<uint32_t, Texts> control_;          // by call: names of its results
  std::map<uint32_t, std::string> inline_;     // by call: expression that replaces reads of its result
  std::string text_;
};

}  // namespace

std::string torchscript_statements(const ir::aten::Lowering& lowering, const AtenNames& names) {
  return Writer(lowering, names).write();
}

}  // namespace rannc::codegen
