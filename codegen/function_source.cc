// Lowers the tasks of each function of a stage to the body of a method.
#include "codegen/function_source.h"

#include <fmt/format.h>

#include <set>

#include "codegen/aten_source.h"
#include "codegen/internal/indented.h"
#include "codegen/internal/task_symbols.h"
#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {
namespace {

using ir::FunctionKind;

std::string_view method_name(FunctionKind kind) {
  constexpr std::string_view kNames[ir::kFunctionKinds] = {"P_load", "P_step", "F", "R", "I", "W", "B", "E"};
  return kNames[static_cast<size_t>(kind)];
}

class MethodWriter {
 public:
  MethodWriter(const ir::Plan& plan, StageId stage, const ir::StageFunctions& functions, const ir::StageFunction& of,
               FunctionKind kind)
      : joint_(functions.joint),
        graph_(functions.joint.graph),
        tasks_(plan.stages[stage.index()].tasks),
        function_(of),
        kind_(kind),
        results_(results()),
        arguments_(arguments()) {}

  /// Whether nothing leaves the function.
  bool empty() const { return results_.empty(); }

  Result<std::string> write() {
    for (const TaskId task : function_.tasks) RANNC_TRY(add(task));
    std::string head = fmt::format("def {}(self", method_name(kind_));
    for (const ValueId value : arguments_) head += fmt::format(",\n    {}: Tensor", name(value));
    for (const std::string& symbol : symbols_) head += fmt::format(",\n    {}: int", runtime::symbol_variable(symbol));
    if (asks_training_) head += ",\n    training: bool";
    std::string types, values;
    for (const ValueId value : results_) {
      types += types.empty() ? "Tensor" : ", Tensor";
      values += name(value) + ", ";
    }
    return head + ") -> Tuple[" + types + "]:\n" + body_ + "    return (" + values + ")\n";
  }

 private:
  static std::string name(ValueId value) { return fmt::format("v{}", value.index()); }

  /// Results of P are what the function is for; it has no others.
  std::vector<ValueId> results() const {
    if (kind_ != FunctionKind::kLoad && kind_ != FunctionKind::kStep) return function_.leaving();
    std::vector<ValueId> all;
    for (const TaskId task : function_.tasks) {
      for (const ValueId output : graph_.outputs(task)) all.push_back(output);
    }
    return all;
  }

  /// Arguments of the function, and everything else that it reads and does not make.
  std::vector<ValueId> arguments() const {
    std::set<ValueId> made, read;
    for (const TaskId task : function_.tasks) {
      const auto inputs = graph_.inputs(task);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (ir::reads_operand(graph_, task, i) && !made.contains(inputs[i])) read.insert(inputs[i]);
      }
      for (const ValueId operand : repeated_operands(task)) {
        if (operand.valid() && !made.contains(operand)) read.insert(operand);
      }
      made.insert(graph_.outputs(task).begin(), graph_.outputs(task).end());
    }
    for (const ValueId value : results_) {
      if (!made.contains(value)) read.insert(value);
    }
    std::vector<ValueId> found = function_.arguments;
    for (const ValueId value : found) read.erase(value);
    found.insert(found.end(), read.begin(), read.end());
    return found;
  }

  /// The operands of the forward task whose tape a task runs: TorchScript has no tapes to pass, so it is repeated.
  std::span<const ValueId> repeated_operands(TaskId task) const {
    const auto vjp = ir::vjp_of(graph_, task);
    if (!vjp || !vjp->tape.valid()) return {};
    return graph_.inputs(graph_.producer(vjp->tape));
  }

  Result<void> add(TaskId task) {
    const auto inputs = graph_.inputs(task), outputs = graph_.outputs(task);
    std::vector<std::string> operands, made;
    for (const ValueId input : inputs) operands.push_back(input.valid() ? name(input) : "");
    for (const ValueId output : outputs) made.push_back(name(output));
    collect_symbols(graph_, task, symbols_);
    asks_training_ = asks_training_ || graph_.op(task).asks_training(graph_.attributes(task));
    const TaskId of = tasks_[joint_.origins[task.index()].task.index()];
    body_ += fmt::format("    # #{} {}\n", of.index(), graph_.op(task).name);
    if (const auto vjp = ir::vjp_of(graph_, task)) return add_vjp(repeated(*vjp), operands, made);
    if (const auto taped = ir::taped_of(graph_, task)) return add_taped(task, *taped, operands, made);
    RANNC_ASSIGN(const std::string text, statements({graph_.op(task), ir::type_list(graph_, inputs),
                                                     ir::type_list(graph_, outputs), graph_.attributes(task)},
                                                    operands, made, graph_.location(task)));
    body_ += indented(text);
    return {};
  }

  Result<std::string> statements(const ir::LowerCall& call, const std::vector<std::string>& operands,
                                 const std::vector<std::string>& made, const Location& where) const {
    if (!call.op.can_be_lowered()) return error(where, "operator `" + call.op.name + "` has no lowering");
    const auto lowering = ir::lowering(call);
    if (!lowering.ok()) return error(where, lowering.diagnostic().message);
    return torchscript_statements(*lowering, {operands, made, device(), "training"});
  }

  std::string device() const {
    return arguments_.empty() ? "torch.device(\"cpu\")" : name(arguments_.front()) + ".device";
  }

  /// Runs the operator of a `taped` task. The tape is empty.
  Result<void> add_taped(TaskId task, const ir::Taped& taped, const std::vector<std::string>& operands,
                         std::vector<std::string> made) {
    const std::string tape = made.back();
    made.pop_back();
    RANNC_ASSIGN(const std::string text, statements({*taped.op, ir::type_list(graph_, graph_.inputs(task)),
                                                     ir::type_list(graph_, taped.results), taped.attributes},
                                                    operands, made, graph_.location(task)));
    body_ += indented(text);
    body_ += fmt::format("    {} = torch.empty([0], dtype={})\n", tape, ir::torch_number(ir::DType::kU8));
    return {};
  }

  /// A `vjp` task that repeats the forward pass, instead of one that runs its tape.
  ir::Vjp repeated(ir::Vjp vjp) {
    if (!vjp.tape.valid()) return vjp;
    const TaskId forward = graph_.producer(vjp.tape);
    collect_symbols(graph_, forward, symbols_);
    vjp.operands = graph_.inputs(forward);
    vjp.attributes = ir::taped_of(graph_, forward)->attributes;
    return vjp;
  }

  /// Repeats the operator under a tape of its own.
  Result<void> add_vjp(const ir::Vjp& vjp, const std::vector<std::string>& given,
                       const std::vector<std::string>& made) {
    std::vector<std::string> operands;
    for (const ValueId operand : vjp.operands) operands.push_back(operand.valid() ? name(operand) : "");
    std::string leaves, results, seeds, text;
    for (const uint32_t operand : vjp.wanted) {
      const std::string leaf = made[0] + "_leaf" + std::to_string(operand);
      text += fmt::format("{} = torch.requires_grad_(torch.detach({}), True)\n", leaf, operands[operand]);
      operands[operand] = leaf;
      leaves += leaf + ", ";
    }
    const std::vector<const ir::ValueType*> inputs = ir::type_list(graph_, vjp.operands);
    RANNC_ASSIGN(const std::vector<ir::ValueType> types,
                 ir::types_of({*vjp.op, inputs, vjp.attributes, graph_.batch_symbol(),
                               static_cast<uint32_t>(vjp.gradients.size())}));
    std::vector<const ir::ValueType*> outputs;
    std::vector<std::string> again;
    for (size_t i = 0; i < types.size(); ++i) {
      outputs.push_back(&types[i]);
      again.push_back(fmt::format("{}_result{}", made[0], i));
      if (!vjp.gradients[i].valid()) continue;
      results += again.back() + ", ";
      seeds += given[i] + ", ";
    }
    RANNC_ASSIGN(const std::string forward,
                 statements({*vjp.op, inputs, outputs, vjp.attributes}, operands, again, {}));
    text += forward;
    text += fmt::format("{}_tape = torch.grad([{}], [{}], annotate(List[Optional[Tensor]], [{}]), allow_unused=True)\n",
                        made[0], results, leaves, seeds);
    for (size_t i = 0; i < made.size(); ++i) {
      text += fmt::format("{0}_part = {1}_tape[{2}]\n{0} = torch.zeros_like({3}) if {0}_part is None else {0}_part\n",
                          made[i], made[0], i, operands[vjp.wanted[i]]);
    }
    body_ += indented(text);
    return {};
  }

  const ir::Joint& joint_;
  const ir::Graph& graph_;
  const std::vector<TaskId>& tasks_;  // of the plan, by task of the stage
  const ir::StageFunction& function_;
  const FunctionKind kind_;
  const std::vector<ValueId> results_, arguments_;
  std::string body_;
  std::set<std::string> symbols_;
  bool asks_training_ = false;
};

}  // namespace

Result<std::string> function_source(const ir::Plan& plan, StageId stage) {
  const ir::StageFunctions& functions = *plan.functions[stage.index()];
  const ir::FunctionTable table = ir::function_table(functions);
  std::string text;
  for (size_t i = 0; i < ir::kFunctionKinds; ++i) {
    const auto kind = static_cast<FunctionKind>(i);
    if (table[kind].tasks.empty()) continue;
    MethodWriter writer(plan, stage, functions, table[kind], kind);
    if (writer.empty()) continue;
    RANNC_ASSIGN(const std::string method, writer.write());
    text += "\n" + method;
  }
  return text;
}

}  // namespace rannc::codegen
