// Hashes the instructions of a flat program.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <sstream>

#include "runtime/flat/flat_code.h"

namespace rannc::runtime {

namespace {

/// The instructions as text, with the numbers of sizes and their meaning.
class Printer {
 public:
  explicit Printer(const FlatCode& code) : code_(code) {}

  std::string print() {
    text_ << code_.device << " " << code_.argument_count() << " " << code_.slot_count << "\n";
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      print(code_.instructions[i]);
      for (const uint32_t slot : code_.dead[i]) text_ << " dead " << slot;
      text_ << "\n";
    }
    for (const FlatArgument& result : code_.results) print(result);
    return text_.str();
  }

 private:
  void print(const FlatInstruction& instruction) {
    text_ << static_cast<int>(instruction.kind) << " task " << instruction.task.index() << " ";
    if (instruction.handle) text_ << instruction.handle->operator_name() << " ";
    text_ << instruction.grad_mode << instruction.records << " " << instruction.slot << "+" << instruction.results;
    if (instruction.kind == FlatInstruction::Kind::kLoop) print(code_.program.loops[instruction.index]);
    if (instruction.kind != FlatInstruction::Kind::kCall) text_ << " #" << instruction.index;
    for (uint32_t i = 0; i < instruction.count; ++i) print(code_.arguments[instruction.first + i]);
  }

  void print(const ir::ProgramLoop& loop) {
    text_ << " loop " << ir::str(loop.dtype) << loop.by_rows;
    size(loop.rows);
    size(loop.columns);
    for (const ir::ProgramLoop::Member& member : loop.members) {
      text_ << " member";
      for (const auto& operand : member.operands) {
        if (operand) text_ << " " << operand->is_made << operand->index << "." << operand->result;
      }
      text_ << " " << ir::print(member.loop.body);
    }
    for (const ir::ProgramLoop::Input& input : loop.inputs) {
      text_ << " in " << static_cast<int>(input.value.kind) << ir::str(input.dtype);
      for (const ir::Dim& each :
           {input.value.divisor, input.value.period, input.value.outer_divisor, input.value.outer_period})
        size(each);
      if (input.ignored) text_ << " ignored " << *input.ignored;
      if (!input.random) continue;
      text_ << " draw " << input.random->value.index() << static_cast<int>(input.random->random.of)
            << fmt::format("{:a}", input.random->random.drop);
      size(input.random->elements);
    }
    for (const ir::ProgramLoop::Output& output : loop.outputs) {
      text_ << " out " << output.member << "." << output.result << ir::str(output.dtype);
      if (output.random) text_ << " drawn " << *output.random;
      for (const ir::Dim& each : output.sizes) size(each);
    }
  }

  void print(const FlatArgument& argument) {
    text_ << " " << static_cast<int>(argument.kind) << (argument.last ? "!" : ":");
    switch (argument.kind) {
      case FlatArgument::Kind::kConstant: {
        const c10::IValue& constant = code_.constants[argument.index];
        if (constant.isDouble()) {
          text_ << fmt::format("{:a}", constant.toDouble());
        } else if (constant.isDoubleList()) {
          for (const double each : constant.toDoubleVector()) text_ << fmt::format("{:a},", each);
        } else if (!constant.isTensor()) {
          text_ << constant.tagKind() << " " << constant;
        }
        return;
      }
      case FlatArgument::Kind::kSize:
        return size(code_.sizes[argument.index]);
      case FlatArgument::Kind::kSizes:
        for (const uint32_t number : code_.size_lists[argument.index]) size(number);
        return;
      case FlatArgument::Kind::kTensors:
        for (const FlatArgument& item : code_.lists[argument.index].items) print(item);
        return;
      default:
        text_ << argument.index;
    }
  }

  void size(const ir::Dim& dim) { size(code_.size_table->number(dim)); }
  void size(uint32_t number) { text_ << "[" << number << " " << code_.size_table->dim(number).str() << "]"; }

  const FlatCode& code_;
  std::ostringstream text_;
};

}  // namespace

std::string FlatProgram::fingerprint() const {
  const std::string text = Printer(*code_).print();
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace rannc::runtime
