// Completes the calls of a program by LibTorch's schemas and finds the last reader of each slot.
#include <algorithm>

#include "runtime/aten/torch_types.h"
#include "runtime/flat/flat_code.h"
#include "runtime/internal/aten_schema.h"

namespace rannc::runtime {

namespace aten = ir::aten;
using Kind = FlatArgument::Kind;

/// Resolves one program.
class FlatResolver {
 public:
  FlatResolver(ir::Program program, const FlatBinding& to, SizeTable& sizes)
      : to_(to), sizes_(sizes), code_(std::make_unique<FlatCode>()), places_(program.slots.size()) {
    code_->program = std::move(program);
    code_->device = to.device;
    code_->size_table = &sizes;
  }

  Result<FlatProgram> resolve() {
    for (uint32_t i = 0; i < code_->argument_count(); ++i) places_[i] = new_slots(1);
    for (const ir::Instruction& each : code_->program.instructions) RANNC_TRY(resolve(each));
    find_last_readers();
    name_slots();
    FlatProgram program;
    program.code_ = std::move(code_);
    return program;
  }

 private:
  uint32_t new_slots(uint32_t count) {
    code_->slot_count += count;
    return code_->slot_count - count;
  }

  FlatArgument place(const ir::ProgramOperand& operand) const {
    switch (operand.kind) {
      case ir::ProgramOperand::Kind::kSlot:
        return {Kind::kSlot, false, places_[operand.index]};
      case ir::ProgramOperand::Kind::kFixed:
        return {Kind::kFixed, false, operand.index};
      case ir::ProgramOperand::Kind::kAbsent:
        break;
    }
    return {};
  }

  std::vector<FlatArgument> operands_of(const ir::Instruction& of) const {
    std::vector<FlatArgument> operands;
    for (const ir::ProgramOperand& operand : of.operands) operands.push_back(place(operand));
    return operands;
  }

  void add(FlatInstruction instruction, const std::vector<FlatArgument>& arguments) {
    instruction.first = static_cast<uint32_t>(code_->arguments.size());
    instruction.count = static_cast<uint32_t>(arguments.size());
    code_->arguments.insert(code_->arguments.end(), arguments.begin(), arguments.end());
    code_->instructions.push_back(std::move(instruction));
  }

  Result<void> resolve(const ir::Instruction& of) {
    using Of = ir::Instruction::Kind;
    FlatInstruction made{.task = of.task(), .records = of.records, .results = of.results, .index = of.number};
    switch (of.kind) {
      case Of::kCalls:
        return calls(of);
      case Of::kReturn:
        code_->results = operands_of(of);
        return {};
      case Of::kTask:
        made.kind = FlatInstruction::Kind::kTask;
        break;
      case Of::kExchange:
        made.kind = FlatInstruction::Kind::kKernel;
        made.index = static_cast<uint32_t>(code_->kernels.size());
        code_->kernels.push_back(to_.kernels.at(of.task()));
        break;
      case Of::kRandomInput:
        made.kind = FlatInstruction::Kind::kRandomInput;
        break;
      case Of::kAdd:
        made.kind = FlatInstruction::Kind::kAdd;
        break;
      case Of::kAddProduct:
        made.kind = FlatInstruction::Kind::kAddProduct;
        break;
      case Of::kMark:
        made.kind = FlatInstruction::Kind::kMark;
        break;
      case Of::kLoop:
        made.kind = FlatInstruction::Kind::kLoop;
        code_->program.loops[of.number].for_each_size([&](const ir::Dim& size) { sizes_.number(size); });
        break;
    }
    made.slot = new_slots(of.results);
    for (uint32_t i = 0; i < of.results; ++i) places_[of.first_result + i] = made.slot + i;
    add(std::move(made), operands_of(of));
    return {};
  }

  // --- calls

  struct Frame {
    const std::vector<FlatArgument>& operands;
    std::vector<uint32_t> first;  // by call: slot of its first result
  };

  static FlatArgument resolve(const aten::Value& value, const Frame& frame) {
    if (const auto* operand = std::get_if<aten::Operand>(&value)) {
      return operand->index < frame.operands.size() ? frame.operands[operand->index] : FlatArgument{};
    }
    const auto& made = std::get<aten::Made>(value);
    return {Kind::kSlot, false, frame.first[made.call] + made.index};
  }

  Result<void> calls(const ir::Instruction& of) {
    const std::vector<FlatArgument> operands = operands_of(of);
    Frame frame{operands, {}};
    for (const aten::Call& call : of.lowering->calls) {
      const c10::OperatorHandle* handle = handle_of(call.schema);
      if (handle == nullptr) {
        return error(code_->graph().location(of.task()), "LibTorch has no operator `" + call.schema + "`");
      }
      std::vector<FlatArgument> arguments = completed(call, handle->schema(), frame);
      frame.first.push_back(new_slots(call.results));
      add({.kind = FlatInstruction::Kind::kCall,
           .task = of.task(),
           .grad_mode = of.grad_mode,
           .handle = *handle,
           .slot = frame.first.back(),
           .results = call.results},
          arguments);
    }
    std::vector<aten::Value> found;
    for (const aten::Value& result : of.lowering->results) {
      const bool again = std::find(found.begin(), found.end(), result) != found.end();
      if (again || !std::holds_alternative<aten::Made>(result)) continue;
      places_[of.first_result + found.size()] = resolve(result, frame).index;
      found.push_back(result);
    }
    return {};
  }

  /// The arguments of a call in the order of its schema.
  std::vector<FlatArgument> completed(const aten::Call& call, const c10::FunctionSchema& schema, const Frame& frame) {
    std::vector<FlatArgument> arguments;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::Argument& parameter = schema.arguments()[i];
      const aten::Argument* given = argument_for(call, schema, i);
      if (given == nullptr) {
        RANNC_CHECK(parameter.default_value().has_value()) << call.schema << " lacks " << parameter.name();
        arguments.push_back(constant(*parameter.default_value()));
        continue;
      }
      arguments.push_back(argument(given->value, frame));
      const bool tensor = parameter.type()->kind() == c10::TypeKind::TensorType;
      if (tensor && arguments.back().kind == Kind::kAbsent) arguments.back() = constant(at::Tensor());
    }
    return arguments;
  }

  FlatArgument constant(c10::IValue value) {
    if (value.isNone()) return {};
    code_->constants.push_back(std::move(value));
    return {Kind::kConstant, false, static_cast<uint32_t>(code_->constants.size() - 1)};
  }

  FlatArgument size(const ir::Dim& dim) {
    code_->sizes.push_back(sizes_.number(dim));
    return {Kind::kSize, false, static_cast<uint32_t>(code_->sizes.size() - 1)};
  }

  FlatArgument size_list(const ir::Shape& dims) {
    std::vector<uint32_t> numbers;
    for (const ir::Dim& dim : dims) numbers.push_back(sizes_.number(dim));
    code_->size_lists.push_back(std::move(numbers));
    return {Kind::kSizes, false, static_cast<uint32_t>(code_->size_lists.size() - 1)};
  }

  FlatArgument tensors(const std::vector<aten::Value>& values, const Frame& frame) {
    FlatCode::TensorList list;
    for (const aten::Value& value : values) {
      list.items.push_back(resolve(value, frame));
      list.optional = list.optional || list.items.back().kind == Kind::kAbsent;
    }
    code_->lists.push_back(std::move(list));
    return {Kind::kTensors, false, static_cast<uint32_t>(code_->lists.size() - 1)};
  }

  FlatArgument argument(const aten::Argument::Kind& kind, const Frame& frame) {
    if (auto fixed = constant_of(kind)) return constant(*std::move(fixed));
    if (const auto* value = std::get_if<aten::Value>(&kind)) return resolve(*value, frame);
    if (const auto* values = std::get_if<std::vector<aten::Value>>(&kind)) return tensors(*values, frame);
    if (const auto* dims = std::get_if<ir::Shape>(&kind)) return size_list(*dims);
    if (std::holds_alternative<aten::Device>(kind)) return constant(to_.device);
    if (std::holds_alternative<aten::Training>(kind)) return {Kind::kTraining, false, 0};
    const auto* scalar = std::get_if<aten::Scalar>(&kind);
    return size(scalar != nullptr ? std::get<ir::Dim>(scalar->number) : std::get<ir::Dim>(kind));
  }

  void name_slots() {
    code_->values.resize(code_->slot_count);
    for (size_t i = 0; i < places_.size(); ++i) code_->values[places_[i]] = code_->program.slots[i].value;
  }

  // --- liveness

  void mark(FlatArgument& argument, std::vector<bool>& read) {
    if (argument.kind == Kind::kTensors) {
      auto& items = code_->lists[argument.index].items;
      for (size_t i = items.size(); i-- > 0;) mark(items[i], read);
    }
    if (argument.kind != Kind::kSlot) return;
    argument.last = !read[argument.index];
    read[argument.index] = true;
  }

  void find_last_readers() {
    std::vector<bool> read(code_->slot_count);
    for (size_t i = code_->results.size(); i-- > 0;) mark(code_->results[i], read);
    code_->dead.resize(code_->instructions.size());
    for (size_t i = code_->instructions.size(); i-- > 0;) {
      const FlatInstruction& instruction = code_->instructions[i];
      for (uint32_t k = 0; k < instruction.results; ++k) {
        if (!read[instruction.slot + k]) code_->dead[i].push_back(instruction.slot + k);
      }
      for (uint32_t k = instruction.count; k-- > 0;) mark(code_->arguments[instruction.first + k], read);
    }
  }

  const FlatBinding& to_;
  SizeTable& sizes_;
  std::unique_ptr<FlatCode> code_;
  std::vector<uint32_t> places_;  ///< by slot of the program: slot of the code
};

Result<FlatProgram> FlatProgram::resolve(ir::Program program, const FlatBinding& to, SizeTable& sizes) {
  return FlatResolver(std::move(program), to, sizes).resolve();
}

}  // namespace rannc::runtime
