// Lowers tasks to the body of one function and creates operands for it.
#include "codegen/internal/task_run.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "codegen/aten_source.h"
#include "codegen/internal/define.h"
#include "codegen/internal/indented.h"
#include "codegen/internal/task_symbols.h"
#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "runtime/aten/torch_types.h"

namespace rannc::codegen {

namespace {

constexpr double kWeightScale = 0.05;                 // keeps long runs of random weights finite
constexpr size_t kMostStoredBytes = size_t{1} << 26;  // larger constants are synthetic

bool is_leaf(const ir::Graph& graph, ValueId value, const std::vector<bool>& needs_gradient) {
  return graph.value(value).kind == ir::ValueKind::kParameter && needs_gradient[value.index()];
}

}  // namespace

class TaskRunBuilder {
 public:
  TaskRunBuilder(const ir::Graph& graph, std::span<const TaskId> tasks, const RunFacts& facts,
                 const ir::Bindings& bindings)
      : graph_(graph), tasks_(tasks), facts_(facts), needs_gradient_(facts.needs_gradient), bindings_(bindings) {}

  Result<std::unique_ptr<TaskRun>> build() {
    for (const TaskId task : tasks_) RANNC_TRY(lower(task, graph_.task(task)));
    collect_results();
    RANNC_TRY(add_symbols());
    std::string results;
    for (const ValueId value : results_) results += names_.at(value) + ", ";
    torch::jit::Module module("measured");
    define(module, "def forward(self" + head_ + "):\n" + body_ + "    return (" + results + ")\n");
    const auto code = module.get_method("forward").graph()->copy();
    torch::jit::Inline(*code);
    run_->code_ = torch::jit::Code(code, "forward");
    run_->arguments_.insert(run_->arguments_.begin(), module._ivalue());
    return std::move(run_);
  }

 private:
  Result<void> lower(TaskId id, const ir::Graph::Task& task) {
    std::vector<std::string> inputs, outputs;
    std::vector<const ir::ValueType*> input_types, output_types;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      const ValueId value = task.inputs[i];
      inputs.emplace_back();
      input_types.push_back(value.valid() ? &graph_.type(value) : nullptr);
      if (!value.valid()) continue;
      RANNC_ASSIGN(inputs.back(), operand(id, i));
    }
    for (const ValueId value : task.outputs) {
      outputs.push_back(names_[value] = fmt::format("rannc_v{}", value.index()));
      output_types.push_back(&graph_.type(value));
      made_.insert(value);
    }
    collect_symbols(graph_, id, symbols_);
    const auto lowering = ir::lowering({*task.op, input_types, output_types, task.attributes});
    if (!lowering.ok()) return error(task.location, lowering.diagnostic().message);
    body_ += indented(torchscript_statements(*lowering, {inputs, outputs, "torch.device(\"cpu\")", "True"}));
    return {};
  }

  std::string argument(c10::IValue value, const char* type = "Tensor") {
    std::string name = fmt::format("rannc_a{}", run_->arguments_.size());
    head_ += fmt::format(", {}: {}", name, type);
    run_->arguments_.push_back(std::move(value));
    return name;
  }

  Result<std::string> operand(TaskId task, size_t index) {
    const ValueId value = graph_.inputs(task)[index];
    if (is_leaf(graph_, value, needs_gradient_)) {
      RANNC_ASSIGN(const at::Tensor parameter, outside(task, index));
      run_->leaves_.push_back(parameter.detach().requires_grad_());
      return argument(run_->leaves_.back());
    }
    if (const auto known = names_.find(value); known != names_.end()) return known->second;
    RANNC_ASSIGN(const at::Tensor tensor, outside(task, index));
    return names_[value] = argument(tensor);
  }

  /// Returns the tensor of a value that no task of the run computes.
  Result<at::Tensor> outside(TaskId task, size_t index) {
    const ValueId value = graph_.inputs(task)[index];
    const auto known = tensors_.find(value);
    if (known != tensors_.end()) return known->second;
    RANNC_ASSIGN(at::Tensor tensor, make(value, graph_.location(task)));
    if (ir::reads_channels_last(graph_, facts_.channels_last, task, index))
      tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
    if (needs_gradient_[value.index()] && !is_leaf(graph_, value, needs_gradient_)) {
      tensor.requires_grad_();
      run_->sources_.push_back(tensor);
    }
    return tensors_[value] = tensor;
  }

  Result<std::vector<int64_t>> sizes(const ir::ValueType& type, const Location& place) const {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      const auto size = dim.evaluate(bindings_);
      if (!size) return error(place, "the size " + dim.str() + " is not known");
      sizes.push_back(*size);
    }
    return sizes;
  }

  Result<at::Tensor> make(ValueId id, const Location& place) {
    const ir::Graph::Value& value = graph_.value(id);
    RANNC_ASSIGN(const std::vector<int64_t> extents, sizes(value.type, place));
    const auto options = at::TensorOptions().dtype(runtime::scalar_type(value.type.dtype));
    if (value.kind == ir::ValueKind::kRandomInput) return at::ones(extents, options);
    if (value.kind != ir::ValueKind::kParameter && value.data.present()) {
      at::Tensor stored = at::empty(extents, options);
      if (stored.nbytes() <= kMostStoredBytes) {
        RANNC_ASSIGN(const std::vector<std::byte> bytes, value.data.read());
        if (bytes.size() == stored.nbytes()) {
          if (!bytes.empty()) std::memcpy(stored.mutable_data_ptr(), bytes.data(), bytes.size());
          return stored;
        }
      }
    }
    if (!ir::is_float(value.type.dtype)) {
      return at::randint(value.type.dtype == ir::DType::kBool ? 2 : index_limit(id), extents, options);
    }
    at::Tensor made = at::randn(extents, options);
    if (value.kind == ir::ValueKind::kParameter && extents.size() > 1) made.mul_(kWeightScale);
    return value.kind == ir::ValueKind::kBuffer ? made.abs_() : made;
  }

  /// Returns the minimum extent that the run's tasks may index with `value`.
  int64_t index_limit(ValueId value) const {
    int64_t limit = std::numeric_limits<int32_t>::max();
    for (const TaskId id : tasks_) {
      const ir::Graph::Task task = graph_.task(id);
      if (std::find(task.inputs.begin(), task.inputs.end(), value) == task.inputs.end()) continue;
      if (!task.inputs[0].valid() || !graph_.type(task.inputs[0]).shape) return 1;
      const ir::Shape& shape = *graph_.type(task.inputs[0]).shape;
      const auto extent = [&](int64_t axis) {
        axis = axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis;
        return std::max<int64_t>(1, shape[static_cast<size_t>(axis)].evaluate(bindings_).value_or(1));
      };
      if (shape.empty()) return 1;
      if (task.attributes.has("axis")) {
        limit = std::min(limit, extent(task.attributes.integer("axis")));
        continue;
      }
      for (size_t axis = 0; axis < shape.size(); ++axis) limit = std::min(limit, extent(static_cast<int64_t>(axis)));
    }
    return limit;
  }

  /// Selects as results the values that are read outside, or all values if there are none.
  void collect_results() {
    std::set<ValueId> read, losses;
    for (const ir::LossTerm& loss : graph_.losses()) losses.insert(loss.numerator);
    const std::set<TaskId> own(tasks_.begin(), tasks_.end());
    for (const ValueId value : made_) {
      bool outside = false;
      graph_.for_each_use(value, [&](ir::Graph::Use use) { outside = outside || !own.contains(use.task); });
      if (outside || losses.contains(value)) read.insert(value);
    }
    const std::set<ValueId> graph_outputs(graph_.outputs().begin(), graph_.outputs().end());
    for (const ValueId value : made_) {
      if (read.contains(value) || graph_outputs.contains(value)) results_.push_back(value);
    }
    if (results_.empty()) results_.assign(made_.begin(), made_.end());
    const bool any = std::any_of(results_.begin(), results_.end(), [&](ValueId value) { return read.contains(value); });
    for (const ValueId value : results_) {
      run_->seeded_.push_back(needs_gradient_[value.index()] && (!any || read.contains(value)));
    }
  }

  Result<void> add_symbols() {
    for (const std::string& symbol : symbols_) {
      const auto bound = bindings_.find(symbol);
      if (bound == bindings_.end()) {
        return error(graph_.location(tasks_.front()),
                     fmt::format("the symbol '{}' has no value to measure with", symbol));
      }
      std::string variable = symbol;
      std::replace(variable.begin(), variable.end(), '.', '_');
      head_ += ", " + variable + ": int";
      run_->arguments_.emplace_back(bound->second);
    }
    return {};
  }

  const ir::Graph& graph_;
  std::span<const TaskId> tasks_;
  const RunFacts& facts_;
  const std::vector<bool>& needs_gradient_;
  const ir::Bindings& bindings_;
  std::unique_ptr<TaskRun> run_{new TaskRun};
  std::string head_, body_;
  std::map<ValueId, std::string> names_;   // of values in the program; parameters have one per reading task
  std::map<ValueId, at::Tensor> tensors_;  // of values computed outside
  std::set<ValueId> made_;
  std::set<std::string> symbols_;
  std::vector<ValueId> results_;
};

Result<std::unique_ptr<TaskRun>> TaskRun::build(const ir::Graph& graph, std::span<const TaskId> tasks,
                                                const RunFacts& facts, const ir::Bindings& bindings) {
  RANNC_CHECK(!tasks.empty()) << "a run of no tasks";
  return TaskRunBuilder(graph, tasks, facts, bindings).build();
}

std::vector<at::Tensor> TaskRun::forward() {
  torch::jit::Stack stack = arguments_;
  torch::jit::InterpreterState(code_).run(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& result : stack.back().toTupleRef().elements()) results.push_back(result.toTensor());
  return results;
}

}  // namespace rannc::codegen
