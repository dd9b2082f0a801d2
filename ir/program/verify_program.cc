// Rules L of programs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/program/internal/text_program.h"
#include "ir/program/program_text.h"

namespace rannc::ir {

namespace {

using Kind = Instruction::Kind;

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : program_(program) {}

  std::vector<Diagnostic> verify() && {
    slots();
    if (!found_.empty()) return std::move(found_);  // other rules name slots
    for (at_ = 0; at_ < program_.instructions.size(); ++at_) instruction(program_.instructions[at_]);
    if (program_.instructions.empty() || program_.instructions.back().kind != Kind::kReturn)
      add("the last instruction does not return", "L5");
    marks();
    if (found_.empty()) last_readers();
    return std::move(found_);
  }

 private:
  void add(std::string message, std::string rule) {
    found_.push_back(error({}, fmt::format("instruction {}: {}", at_, message), std::move(rule)));
  }
  std::string name(uint32_t slot) const {
    return fmt::format("%{}", program_.graph->value(program_.slots[slot].value).name);
  }

  /// Every slot is an argument or a result, in order.
  void slots() {
    uint32_t next = program_.arguments;
    std::set<ValueId> values;
    for (at_ = 0; at_ < program_.instructions.size(); ++at_) {
      const Instruction& each = program_.instructions[at_];
      if (each.first_result != next) add("its results do not follow those before", "L1");
      next += each.results;
    }
    at_ = 0;
    if (next != program_.slots.size()) return add("not every slot is an argument or a result", "L1");
    for (uint32_t slot = 0; slot < next; ++slot) {
      if (!values.insert(program_.slots[slot].value).second) add(name(slot) + " has two slots", "L1");
    }
    memories();
  }

  /// A slot has memory of its own, that of a value which has its own, or that of a fixed value.
  void memories() {
    std::set<ValueId> borrowed;
    for (const ProgramSlot& slot : program_.slots) {
      if (slot.memory.valid() && slot.memory != slot.value) borrowed.insert(slot.memory);
    }
    for (uint32_t slot = 0; slot < program_.slots.size(); ++slot) {
      const auto& [value, memory] = program_.slots[slot];
      if (borrowed.contains(value) && memory != value) add(name(slot) + " lends memory that it has not", "L6");
    }
  }

  void instruction(const Instruction& of) {
    operands(of);
    form(of);
    if (of.kind == Kind::kCalls) calls(of);
    if (of.kind == Kind::kLoop) loop(of);
  }

  void operands(const Instruction& of) {
    for (const ProgramOperand& operand : of.operands) {
      if (operand.kind == ProgramOperand::Kind::kFixed && operand.index >= program_.graph->value_count())
        add("reads a fixed value that does not exist", "L2");
      if (operand.kind == ProgramOperand::Kind::kSlot && operand.index >= of.first_result)
        add("reads a slot that is not made before", "L2");
    }
  }

  void form(const Instruction& of) {
    const auto expect = [&](bool holds, const char* message) {
      if (!holds) add(message, "L5");
    };
    const bool whole = of.kind == Kind::kCalls || of.kind == Kind::kTask || of.kind == Kind::kExchange;
    expect((of.kind == Kind::kReturn) == (at_ + 1 == program_.instructions.size()), "is not the end, or returns early");
    expect((of.kind == Kind::kCalls) == (of.lowering != nullptr), "has calls, or lacks them");
    expect(!of.tasks.empty() || (!whole && of.kind != Kind::kLoop), "has no task");
    expect(!of.records || of.kind == Kind::kTask, "records, but is not a whole task");
    if (of.kind == Kind::kRandomInput) expect(of.operands.empty() && of.results == 1, "is not one random value");
    if (of.adds()) expect(of.operands.size() == (of.kind == Kind::kAdd ? 1U : 2U), "adds another number of operands");
    if (of.kind == Kind::kMark) expect(of.operands.empty(), "marks, and has operands");
    if (of.adds() || of.kind == Kind::kMark || of.kind == Kind::kReturn) expect(of.results == 0, "has results");
  }

  void calls(const Instruction& of) {
    if (of.lowering == nullptr) return;
    std::vector<bool> read(of.operands.size());
    for (size_t i = 0; i < of.lowering->calls.size(); ++i) {
      aten::Lowering one{{of.lowering->calls[i]}, {}};
      for_each_value(one, [&](const aten::Value& value) { call_value(of, value, i, read); });
    }
    for (const aten::Value& result : of.lowering->results) call_value(of, result, of.lowering->calls.size(), read);
    if (made_results(*of.lowering).size() != of.results) add("has another number of results than its calls", "L4");
    for (size_t i = 0; i < read.size(); ++i) {
      if (!read[i] && of.operands[i].kind != ProgramOperand::Kind::kAbsent)
        add("has an operand that no call reads", "L4");
    }
  }

  void call_value(const Instruction& of, const aten::Value& value, size_t call, std::vector<bool>& read) {
    if (const auto* made = std::get_if<aten::Made>(&value)) {
      const bool exists = made->call < call && made->index < of.lowering->calls[made->call].results;
      if (!exists) add("a call reads a result that is not made before", "L4");
    } else if (const auto& operand = std::get<aten::Operand>(value); operand.index < read.size()) {
      read[operand.index] = true;  // others are operands that the task omits
    }
  }

  void loop(const Instruction& of) {
    if (of.number >= program_.loops.size()) return add("names a loop that does not exist", "L7");
    const ProgramLoop& loop = program_.loops[of.number];
    if (loop.inputs.size() != of.operands.size()) add("has another number of operands than its loop", "L7");
    if (loop.outputs.size() != of.results) add("has another number of results than its loop", "L7");
    const auto exists = [&](uint32_t member, uint32_t result, size_t before) {
      return member < before && result < loop.members[member].types.size();
    };
    for (size_t i = 0; i < loop.members.size(); ++i) {
      for (const auto& operand : loop.members[i].operands) {
        if (!operand) continue;
        const bool known =
            operand->is_made ? exists(operand->index, operand->result, i) : operand->index < loop.inputs.size();
        if (!known) add(fmt::format("member {} reads what does not exist before", i), "L7");
      }
    }
    for (const ProgramLoop::Output& output : loop.outputs) {
      const bool known = output.random ? *output.random < loop.inputs.size() && loop.inputs[*output.random].random
                                       : exists(output.member, output.result, loop.members.size());
      if (!known) add("an output does not exist", "L7");
    }
  }

  /// Marks are numbered in order.
  void marks() {
    uint32_t next = 0;
    for (at_ = 0; at_ < program_.instructions.size(); ++at_) {
      const Instruction& each = program_.instructions[at_];
      if (each.kind == Kind::kMark && each.number != next++) add("is not the next mark", "L8");
    }
  }

  /// The last reader of a slot is marked, and nothing else.
  void last_readers() {
    std::vector<bool> read(program_.slots.size());
    for (at_ = program_.instructions.size(); at_-- > 0;) {
      const Instruction& each = program_.instructions[at_];
      for (uint32_t slot = each.first_result; slot < each.first_result + each.results; ++slot) {
        const bool dead = std::find(each.dead.begin(), each.dead.end(), slot) != each.dead.end();
        if (dead == read[slot]) add(name(slot) + (dead ? " is read later" : " is read by nothing"), "L3");
      }
      for (size_t k = each.operands.size(); k-- > 0;) {
        const ProgramOperand& operand = each.operands[k];
        const bool is_slot = operand.kind == ProgramOperand::Kind::kSlot;
        if (operand.last != (is_slot && !read[operand.index]))
          add(is_slot ? name(operand.index) + " has another last reader" : "an operand that is no slot ends", "L3");
        if (is_slot) read[operand.index] = true;
      }
    }
  }

  const Program& program_;
  std::vector<Diagnostic> found_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Diagnostic> verify(const Program& program) { return ProgramVerifier(program).verify(); }

}  // namespace rannc::ir
