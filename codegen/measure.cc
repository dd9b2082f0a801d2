// Runs one task as a TorchScript function of its own under the tape.
#include "codegen/measure.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "codegen/torch_types.h"
#include "ir/op.h"

namespace rannc::codegen {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUps = 2;
constexpr int kLeastRuns = 5;
constexpr int kMostRuns = 40;
constexpr double kEnoughNs = 8e6;  // stop when the runs together took so long

/// A task as a compiled function with its operands.
class TaskProgram {
 public:
  TaskProgram(const ir::Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
              const ir::Bindings& bindings)
      : graph_(graph), task_(graph.task(task)), needs_gradient_(needs_gradient), bindings_(bindings) {}

  Result<void> build() {
    RANNC_ASSIGN(const std::string source, lower());
    torch::jit::Module module("measured");
    module.define(source);
    const auto code = module.get_method("forward").graph()->copy();
    torch::jit::Inline(*code);
    code_ = torch::jit::Code(code, "forward");
    self_ = module._ivalue();
    return make_operands();
  }

  std::vector<at::Tensor> forward() {
    torch::jit::Stack stack = {self_};
    stack.insert(stack.end(), operands_.begin(), operands_.end());
    for (const std::string& symbol : symbols_) stack.emplace_back(bindings_.at(symbol));
    torch::jit::InterpreterState(code_).run(stack);
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& output : stack.back().toTupleRef().elements()) outputs.push_back(output.toTensor());
    return outputs;
  }

  const std::vector<at::Tensor>& sources() const { return sources_; }

 private:
  Result<std::string> lower() {
    std::vector<std::string> inputs, outputs;
    std::vector<const ir::ValueType*> input_types, output_types;
    std::string arguments;
    for (size_t i = 0; i < task_.inputs.size(); ++i) {
      const bool present = task_.inputs[i].valid();
      inputs.push_back(present ? fmt::format("i{}", i) : "");
      input_types.push_back(present ? &graph_.type(task_.inputs[i]) : nullptr);
      if (present) arguments += fmt::format(", i{}: Tensor", i);
    }
    std::set<std::string> symbols;
    const auto collect = [&symbols](const ir::ValueType& type) {
      if (!type.shape) return;
      for (const ir::Dim& dim : *type.shape) dim.collect_symbols(symbols);
    };
    for (const ValueId input : task_.inputs) {
      if (input.valid()) collect(graph_.type(input));
    }
    std::string results;
    for (size_t i = 0; i < task_.outputs.size(); ++i) {
      outputs.push_back(fmt::format("o{}", i));
      output_types.push_back(&graph_.type(task_.outputs[i]));
      collect(graph_.type(task_.outputs[i]));
      results += outputs.back() + ", ";
    }
    for (const auto& [name, value] : task_.attributes) {
      if (const auto* dim = std::get_if<ir::Dim>(&value)) dim->collect_symbols(symbols);
      if (const auto* list = std::get_if<ir::Shape>(&value)) {
        for (const ir::Dim& dim : *list) dim.collect_symbols(symbols);
      }
    }
    for (const std::string& symbol : symbols) {
      if (!bindings_.contains(symbol)) {
        return error(task_.location, fmt::format("the symbol '{}' has no value to measure with", symbol));
      }
      std::string variable = symbol;
      std::replace(variable.begin(), variable.end(), '.', '_');
      arguments += ", " + variable + ": int";
      symbols_.push_back(symbol);
    }
    std::string body;
    if (task_.op->effect == ir::Effect::kRandom) {
      body = "o0 = i0 * 0.5\n";
    } else if (task_.op->lower == nullptr) {
      return error(task_.location, "operator '" + task_.op->name + "' has no lowering");
    } else {
      RANNC_ASSIGN(body, task_.op->lower({*task_.op, inputs, outputs, input_types, output_types, task_.attributes}));
    }
    std::string text = "def forward(self" + arguments + "):\n";
    std::string_view rest = body;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      if (end > 0) text += "    " + std::string(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return text + "    return (" + results + ")\n";
  }

  // Indices stay below every extent they could point into.
  int64_t index_limit() const {
    if (task_.inputs.empty() || !task_.inputs[0].valid() || !graph_.type(task_.inputs[0]).shape) return 1;
    const ir::Shape& shape = *graph_.type(task_.inputs[0]).shape;
    if (shape.empty()) return 1;
    const auto at_axis = [&](int64_t axis) {
      axis = axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis;
      return std::max<int64_t>(1, shape[static_cast<size_t>(axis)].evaluate(bindings_).value_or(1));
    };
    if (task_.attributes.has("axis")) return at_axis(task_.attributes.integer("axis"));
    int64_t least = at_axis(0);
    for (size_t i = 1; i < shape.size(); ++i) least = std::min(least, at_axis(static_cast<int64_t>(i)));
    return least;
  }

  Result<void> make_operands() {
    for (const ValueId input : task_.inputs) {
      if (!input.valid()) continue;
      const ir::ValueType& type = graph_.type(input);
      std::vector<int64_t> sizes;
      for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
        const auto size = dim.evaluate(bindings_);
        if (!size) return error(task_.location, "the size " + dim.str() + " is not known");
        sizes.push_back(*size);
      }
      const auto options = at::TensorOptions().dtype(scalar_type(type.dtype));
      at::Tensor operand;
      if (ir::is_float(type.dtype)) {
        operand = at::randn(sizes, options);
        if (needs_gradient_[input.index()]) {
          operand.requires_grad_();
          sources_.push_back(operand);
        }
      } else {
        operand = at::randint(type.dtype == ir::DType::kBool ? 2 : index_limit(), sizes, options);
      }
      operands_.push_back(operand);
    }
    return {};
  }

  const ir::Graph& graph_;
  ir::Graph::Task task_;
  const std::vector<bool>& needs_gradient_;
  const ir::Bindings& bindings_;
  torch::jit::Code code_;
  c10::IValue self_;
  std::vector<at::Tensor> operands_, sources_;
  std::vector<std::string> symbols_;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double elapsed_ns(Clock::time_point start) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

TaskTimes run(TaskProgram& program) {
  std::vector<double> forward, backward;
  double total = 0;
  for (int i = 0; i < kMostRuns && (i < kWarmUps + kLeastRuns || total < kEnoughNs); ++i) {
    const bool counted = i >= kWarmUps;
    auto start = Clock::now();
    const std::vector<at::Tensor> outputs = program.forward();
    const double forward_ns = elapsed_ns(start);
    std::vector<at::Tensor> differentiable, seeds;
    for (const at::Tensor& output : outputs) {
      if (!output.requires_grad()) continue;
      differentiable.push_back(output);
      seeds.push_back(at::ones_like(output));
    }
    double backward_ns = 0;
    if (!differentiable.empty() && !program.sources().empty()) {
      start = Clock::now();
      const auto gradients = torch::autograd::grad(differentiable, program.sources(), seeds, false, false, true);
      backward_ns = elapsed_ns(start);
    }
    if (!counted) continue;
    forward.push_back(forward_ns);
    backward.push_back(backward_ns);
    total += forward_ns + backward_ns;
  }
  return {median(std::move(forward)), median(std::move(backward))};
}

}  // namespace

Result<TaskTimes> measure_task(const ir::Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
                               const ir::Bindings& bindings) {
  try {
    const c10::AutoGradMode with_grad(true);
    TaskProgram program(graph, task, needs_gradient, bindings);
    RANNC_TRY(program.build());
    return run(program);
  } catch (const c10::Error& failure) {
    return error(graph.location(task), std::string("cannot be measured: ") + failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return error(graph.location(task), std::string("cannot be measured: ") + failure.what());
  }
}

std::string library_version() { return fmt::format("libtorch {}", TORCH_VERSION); }

}  // namespace rannc::codegen
