// Prints programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/internal/text_writer.h"
#include "ir/op/op.h"
#include "ir/program/internal/text_program.h"
#include "ir/program/program_text.h"

namespace rannc::ir {

namespace {

using Kind = Instruction::Kind;

class ProgramPrinter {
 public:
  explicit ProgramPrinter(const Program& program) : program_(program), graph_(*program.graph) {}

  std::string print(size_t stage) {
    text_ = fmt::format("\nprogram {} stage {} device {}\n", program_.name, stage, str(program_.device));
    head();
    for (const Instruction& each : program_.instructions) instruction(each);
    return std::move(text_);
  }

 private:
  // --- names

  void append(std::string_view text) { text_ += text; }
  void name(ValueId value) { append_name(text_, '%', graph_.value(value).name); }

  template <class Items, class Print>
  void list(const Items& items, Print&& print) {
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) append(", ");
      print(item);
    }
  }

  /// A value where it is made.
  void definition(uint32_t slot, bool dead = false) {
    const auto& [value, memory] = program_.slots[slot];
    name(value);
    append(dead ? "! : " : " : ");
    append_type(text_, graph_.type(value));
    if (memory == value) return;
    append(" in ");
    if (memory.valid()) {
      name(memory);
    } else {
      append("fixed");
    }
  }

  void definition(const Instruction& of, uint32_t result) {
    const uint32_t slot = of.first_result + result;
    definition(slot, std::find(of.dead.begin(), of.dead.end(), slot) != of.dead.end());
  }

  // --- statements

  void head() {
    std::set<ValueId> known;
    for (const ProgramSlot& slot : program_.slots) known.insert(slot.value);
    const auto declare = [&](std::string_view word, ValueId value) {
      if (!known.insert(value).second) return;
      append(word), name(value), append(" : ");
      append_type(text_, graph_.type(value));
      append("\n");
    };
    const auto read = [&](const ProgramOperand* operand) {
      if (operand != nullptr && operand->kind == ProgramOperand::Kind::kFixed)
        declare("fixed ", ValueId(operand->index));
    };
    for (const Instruction& each : program_.instructions) {
      of_ = &each;
      if (each.lowering != nullptr) {
        for_each_value(*each.lowering, [&](const aten::Value& value) { read(operand_of(value)); });
      } else {
        for (const ProgramOperand& operand : each.operands) read(&operand);
      }
    }
    for (const ProgramSlot& slot : program_.slots) {
      if (slot.memory.valid()) declare("memory ", slot.memory);
    }
    for (uint32_t slot = 0; slot < program_.arguments; ++slot) append("argument "), definition(slot), append("\n");
  }

  void instruction(const Instruction& of) {
    of_ = &of;
    last_place_.clear();
    for (size_t i = 0; i < of.operands.size(); ++i) {
      if (of.operands[i].last) last_place_[of.operands[i].index] = 0;
    }
    if (!of.tasks.empty()) append(fmt::format("#{} ", fmt::join(numbers(of.tasks), ",#")));
    statement(of);
    if (of.grad_mode) append(" grad-mode");
    if (of.records) append(" records");
    std::string comment = this->comment(of);
    end_line(text_, comment);
    if (of.kind == Kind::kCalls && !is_one_call(of)) call_lines(of);
    if (of.kind == Kind::kLoop) append_loop(text_, program_.loops[of.number], graph_);
  }

  static std::vector<uint32_t> numbers(const std::vector<TaskId>& tasks) {
    std::vector<uint32_t> found;
    for (const TaskId task : tasks) found.push_back(task.index());
    return found;
  }

  void statement(const Instruction& of) {
    switch (of.kind) {
      case Kind::kCalls:
        return calls(of);
      case Kind::kTask:
        return made_by(of, "task");
      case Kind::kExchange:
        return made_by(of, "exchange");
      case Kind::kLoop:
        return made_by(of, "loop");
      case Kind::kRandomInput:
        return made_by(of, "random");
      case Kind::kAdd:
      case Kind::kAddProduct:
        append(of.kind == Kind::kAdd ? "add(" : "add-product(");
        operands(of);
        return append(fmt::format(") to {}", of.number));
      case Kind::kMark:
        return append(fmt::format("mark {}", of.number));
      case Kind::kReturn:
        append("return(");
        operands(of);
        return append(")");
    }
  }

  void made_by(const Instruction& of, std::string_view word) {
    definitions(of);
    append(word), append("(");
    operands(of);
    append(")");
  }

  /// `%y : f32[4], %mean : f32[4] = `, or nothing.
  void definitions(const Instruction& of) {
    for (uint32_t i = 0; i < of.results; ++i) append(i == 0 ? "" : ", "), definition(of, i);
    if (of.results > 0) append(" = ");
  }

  void operands(const Instruction& of) {
    list(of.operands, [&](const ProgramOperand& each) { operand(each, each.last); });
  }

  void operand(const ProgramOperand& of, bool last) {
    if (of.kind == ProgramOperand::Kind::kAbsent) return append("none");
    name(of.kind == ProgramOperand::Kind::kFixed ? ValueId(of.index) : program_.slots[of.index].value);
    if (last) append("!");
  }

  // --- calls

  void calls(const Instruction& of) {
    const aten::Lowering& lowering = *of.lowering;
    count_reads(lowering);
    first_of_call_.assign(1, 0);
    for (const aten::Call& call : lowering.calls) first_of_call_.push_back(first_of_call_.back() + call.results);
    if (is_one_call(of)) {
      definitions(of);
      return call(lowering.calls[0]);
    }
    append("calls");
  }

  void call_lines(const Instruction& of) {
    const aten::Lowering& lowering = *of.lowering;
    for (size_t i = 0; i < lowering.calls.size(); ++i) {
      append("  ");
      for (uint32_t k = first_of_call_[i]; k < first_of_call_[i + 1]; ++k)
        append(fmt::format("{}~{}", k == first_of_call_[i] ? "" : ", ", k));
      append(lowering.calls[i].results > 0 ? " = " : "= ");
      call(lowering.calls[i]);
      append("\n");
    }
    const std::vector<aten::Made> made = made_results(lowering);
    for (uint32_t i = 0; i < of.results; ++i) {
      append("  makes ");
      definition(of, i);
      append(fmt::format(" = ~{}\n", first_of_call_[made[i].call] + made[i].index));
    }
  }

  /// Whether its results are those of one call.
  static bool is_one_call(const Instruction& of) {
    if (of.lowering->calls.size() != 1 || of.results != of.lowering->calls[0].results) return false;
    const std::vector<aten::Made> made = made_results(*of.lowering);
    for (uint32_t i = 0; i < of.results; ++i) {
      if (made[i] != aten::Made{0, i}) return false;
    }
    return true;
  }

  /// Counts how often each operand that is read for the last time stands in the calls.
  void count_reads(const aten::Lowering& lowering) {
    for_each_value(lowering, [&](const aten::Value& value) {
      if (const ProgramOperand* read = operand_of(value)) {
        if (const auto place = last_place_.find(read->index); is_slot(*read) && place != last_place_.end())
          ++place->second;
      }
    });
  }

  static bool is_slot(const ProgramOperand& operand) { return operand.kind == ProgramOperand::Kind::kSlot; }
  const ProgramOperand* operand_of(const aten::Value& value) const {
    const auto* operand = std::get_if<aten::Operand>(&value);
    return operand != nullptr && operand->index < of_->operands.size() ? &of_->operands[operand->index] : nullptr;
  }

  void call(const aten::Call& of) {
    append(of.schema), append("(");
    list(of.arguments, [&](const aten::Argument& each) {
      if (!each.name.empty()) append(each.name), append("=");
      argument(each.value);
    });
    append(of.list ? ") list" : ")");
  }

  void value(const aten::Value& of) {
    if (const auto* made = std::get_if<aten::Made>(&of))
      return append(fmt::format("~{}", first_of_call_[made->call] + made->index));
    const ProgramOperand* read = operand_of(of);
    if (read == nullptr) return append("none");
    const auto place = is_slot(*read) ? last_place_.find(read->index) : last_place_.end();
    operand(*read, place != last_place_.end() && --place->second == 0);
  }

  /// Names of sizes that are words of arguments stand in parentheses.
  static std::string size(const Dim& dim) {
    const std::string text = dim.str();
    const bool reads_as_word = std::any_of(kArgumentWords.begin(), kArgumentWords.end(),
                                           [&](std::string_view word) { return text.starts_with(word); });
    return reads_as_word ? "(" + text + ")" : text;
  }

  void argument(const aten::Argument::Kind& of) {
    std::visit([&](const auto& each) { argument(each); }, of);
  }
  void argument(aten::None) { append("none"); }
  void argument(const aten::Value& of) { value(of); }
  void argument(const std::vector<aten::Value>& of) {
    append(of.empty() ? "[%" : "[");
    list(of, [&](const aten::Value& each) { value(each); });
    append("]");
  }
  void argument(const Dim& of) { append(size(of)); }
  void argument(const Shape& of) {
    append("[");
    list(of, [&](const Dim& each) { argument(each); });
    append("]");
  }
  void argument(const aten::Scalar& of) {
    std::visit([&](const auto& each) { argument(each); }, of.number);
  }
  void argument(double of) { append(hexadecimal(of)); }
  void argument(const std::vector<double>& of) { append_numbers(text_, of); }
  void argument(bool of) { append(of ? "true" : "false"); }
  void argument(const std::vector<bool>& of) {
    append(of.empty() ? "[?" : "[");
    bool first = true;
    for (const bool each : of) append(std::exchange(first, false) ? "" : ", "), argument(each);
    append("]");
  }
  void argument(DType of) { append("!"), append(str(of)); }
  void argument(aten::MemoryFormat of) { append(kMemoryFormats[static_cast<size_t>(of)]); }
  void argument(aten::Device) { append("device"); }
  void argument(aten::Training) { append("training"); }
  void argument(const aten::Text& of) { append(quote(of.text)); }

  /// Operators and places in the model.
  std::string comment(const Instruction& of) const {
    std::string text;
    for (const TaskId task : of.tasks) {
      if (task.index() >= graph_.task_count()) continue;  // read from a text
      const std::string node = graph_.location(task).node;
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", graph_.op(task).name, node.empty() ? "" : " " + node);
    }
    return text;
  }

  const Program& program_;
  const Graph& graph_;
  const Instruction* of_ = nullptr;
  std::map<uint32_t, uint32_t> last_place_;  ///< by slot that is read for the last time: places of it that are left
  std::vector<uint32_t> first_of_call_;      ///< by call: number of its first result among those of all calls
  std::string text_;
};

}  // namespace

std::vector<aten::Made> made_results(const aten::Lowering& lowering) {
  std::vector<aten::Made> found;
  for (const aten::Value& result : lowering.results) {
    const auto* made = std::get_if<aten::Made>(&result);
    if (made != nullptr && std::find(found.begin(), found.end(), *made) == found.end()) found.push_back(*made);
  }
  return found;
}

std::string programs_head() { return "rannc.programs 1\n"; }

std::string print(const Program& program, size_t stage) { return ProgramPrinter(program).print(stage); }

std::string ParsedPrograms::print() const {
  std::string text = programs_head();
  for (size_t i = 0; i < programs.size(); ++i) text += ir::print(programs[i], stages[i]);
  return text;
}

}  // namespace rannc::ir
