// Lowers the tasks of a stage to the body of one function.
#include "codegen/torchscript_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "codegen/aten_source.h"
#include "codegen/internal/indented.h"
#include "ir/op/op.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {
namespace {

constexpr std::array<std::string_view, 37> kReserved = {
    "and",    "as",      "assert", "break", "class",  "continue", "def",     "del",  "elif",  "else",
    "except", "finally", "for",    "from",  "global", "if",       "import",  "in",   "is",    "lambda",
    "not",    "or",      "pass",   "raise", "return", "try",      "while",   "with", "yield", "torch",
    "self",   "float",   "int",    "bool",  "Tensor", "annotate", "training"};

bool is_reserved(const std::string& name) {
  const bool value_name = name.size() > 1 && name[0] == 'v' && std::all_of(name.begin() + 1, name.end(), [](char c) {
                            return (c >= '0' && c <= '9') || c == '_' || c == 't';
                          });
  return value_name || std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

class SourceWriter {
 public:
  SourceWriter(const ir::Plan& plan, StageId stage)
      : plan_(plan), graph_(plan.graph), stage_(stage), signature_(runtime::signature(plan, stage)) {
    for (const runtime::Leaf& leaf : signature_.leaves) {
      leaves_[{signature_.parameters[leaf.parameter].value, leaf.task}] = leaf.argument;
    }
  }

  Result<std::string> write() {
    RANNC_TRY(write_head());
    for (TaskId task : plan_.stages[stage_.index()].tasks) write_task(task);
    if (!problems_.empty()) return all_problems();
    write_return();
    return std::move(text_);
  }

 private:
  Result<void> write_head() {
    text_ = "def forward(self";
    const auto argument = [&](const std::string& name, const std::string& type) {
      text_ += ",\n    " + name + ": " + type;
      if (device_.empty() && type == "Tensor") device_ = name + ".device";  // a program uses one device
    };
    for (const auto& port : signature_.inputs) argument(port.argument, "Tensor");
    for (const auto& leaf : signature_.leaves) argument(leaf.argument, "Tensor");
    for (const auto& buffer : signature_.buffers) argument(buffer.argument, "Tensor");
    for (const auto& constant : signature_.constants) argument(constant.argument, "Tensor");
    for (const auto& draw : signature_.draws) argument(draw.argument, "Tensor");
    for (const auto& symbol : signature_.symbols) {
      const std::string name = runtime::symbol_variable(symbol);
      if (is_reserved(name)) {
        return error({.node = symbol},
                     "symbol `" + symbol + "` is a reserved name in generated programs; rename the dimension");
      }
      argument(name, "int");
    }
    if (signature_.asks_training) argument("training", "bool");
    if (signature_.outputs.empty()) {
      return error(fmt::format("stage {} computes nothing that another stage or the user reads", stage_.index()));
    }
    text_ += ") -> Tuple[";
    const size_t results = signature_.outputs.size() + 2 * signature_.statistics.size();
    for (size_t i = 0; i < results; ++i) text_ += i == 0 ? "Tensor" : ", Tensor";
    text_ += "]:\n";
    return {};
  }

  void write_task(TaskId id) {
    const ir::Graph::Task task = graph_.task(id);
    const std::string place = task.location.str();
    if (!task.op->can_be_lowered()) {
      problems_.push_back(error(task.location, "operator `" + task.op->name + "` has no lowering"));
      return;
    }
    std::vector<std::string> inputs, outputs;
    for (ValueId value : task.inputs) inputs.push_back(value.valid() ? operand(value, id) : "");
    for (ValueId value : task.outputs) outputs.push_back(runtime::variable(value));
    const auto input_types = ir::type_list(graph_, task.inputs), output_types = ir::type_list(graph_, task.outputs);
    const ir::LowerCall call{*task.op, input_types, output_types, task.attributes};
    Result<std::string> statements = this->statements(call, {inputs, outputs, device_, "training"});
    if (!statements.ok()) {
      Diagnostic problem = statements.diagnostic();
      problem.where = task.location;
      problems_.push_back(std::move(problem));
      return;
    }
    text_ += fmt::format("    # #{} {}\n", id.index(), one_line(place.empty() ? task.op->name : place));
    text_ += indented(*statements);
  }

  static Result<std::string> statements(const ir::LowerCall& call, const AtenNames& names) {
    RANNC_ASSIGN(const ir::aten::Lowering lowering, ir::lowering(call));
    return torchscript_statements(lowering, names);
  }

  std::string operand(ValueId value, TaskId task) const {
    const auto leaf = leaves_.find({value, task});
    return leaf != leaves_.end() ? leaf->second : runtime::variable(value);
  }

  static std::string one_line(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    return text;
  }

  void write_return() {
    text_ += "    return (";
    for (const auto& output : signature_.outputs) text_ += output.argument + ", ";
    for (const auto& statistics : signature_.statistics) {
      text_ += runtime::variable(statistics.mean_value) + ", " + runtime::variable(statistics.variance_value) + ", ";
    }
    text_ += ")\n";
  }

  Diagnostic all_problems() const {
    Diagnostic first = problems_.front();
    for (size_t i = 1; i < problems_.size(); ++i) first.notes.push_back({problems_[i].where, problems_[i].message});
    return first;
  }

  const ir::Plan& plan_;
  const ir::Graph& graph_;
  StageId stage_;
  runtime::Signature signature_;
  std::map<std::pair<ValueId, TaskId>, std::string> leaves_;
  std::string text_;
  std::string device_;  // an expression
  std::vector<Diagnostic> problems_;
};

}  // namespace

Result<std::string> torchscript_source(const ir::Plan& plan, StageId stage) {
  return SourceWriter(plan, stage).write();
}

}  // namespace rannc::codegen
