// Interprets a stage's program while LibTorch records the tape; one tape per micro-batch.
#include "runtime/engine/engine_autograd.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include "ir/gradient/row_gradients.h"
#include "runtime/engine/allocation_meter.h"
#include "runtime/engine/internal/running_statistics.h"
#include "runtime/engine/internal/sync_batch_norm.h"
#include "runtime/engine/internal/torch_draws.h"
#include "runtime/engine/internal/torch_weights.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

/// From forward to backward: the inputs as leaves, and the outputs with the tape behind them. No outputs: inputs alone.
struct Tape final : HeldState {
  Tensors inputs, outputs;
  uint64_t held_bytes = 0;
  uint64_t bytes() const override { return held_bytes; }
};

// TorchScript prints the program around the two lines that matter: the task, which codegen names in a comment above its
// statement, and what went wrong, last.
std::string essence(std::string text) {
  constexpr std::string_view kStart = "The following operation failed in the TorchScript interpreter",
                             kMark = "<--- HERE", kTask = "# #";
  if (!text.starts_with(kStart)) return text;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::string reason = text.substr(text.rfind('\n') + 1);
  const size_t task = text.rfind(kTask, text.rfind(kMark));
  if (task == std::string::npos) return reason;
  return fmt::format("{} at task {}", reason, text.substr(task + 2, text.find('\n', task) - task - 2));
}

/// Channels last where the stage that makes the value has it so: sums over it, and over its gradient, are then taken in
/// the same order however the graph is cut.
at::Tensor laid_out(const at::Tensor& tensor, const Port& port) {
  return port.channels_last ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

at::Tensor in_one_piece(const at::Tensor& tensor, const Port& port) {
  return port.channels_last ? laid_out(tensor, port) : tensor.contiguous();
}

template <class F>
auto without_exceptions(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const c10::Error& failure) {
    return error(essence(failure.what_without_backtrace()));
  } catch (const std::exception& failure) {
    return error(essence(failure.what()));
  }
}

class AutogradProgram final : public Program {
 public:
  AutogradProgram(Signature signature, torch::jit::Module module)
      : signature_(std::move(signature)), module_(std::move(module)), statistics_(signature_.statistics.size()) {}

  Result<void> load(const SafetensorsFile& weights, const std::string& path) {
    path_ = path;
    RANNC_TRY(check_program(path));
    for (const Weight& parameter : signature_.parameters) {
      RANNC_ASSIGN(at::Tensor tensor, read(weights, parameter));
      parameters_.push_back(to_value(std::move(tensor)));
    }
    for (const Weight& buffer : signature_.buffers) {
      RANNC_ASSIGN(at::Tensor tensor, read(weights, buffer));
      buffers_.push_back(to_value(std::move(tensor)));
    }
    for (const Weight& constant : signature_.constants) {
      RANNC_ASSIGN(at::Tensor tensor, read(weights, constant));
      constants_.push_back(std::move(tensor));
    }
    for (const Leaf& leaf : signature_.leaves) {
      const at::Tensor& parameter = to_tensor(parameters_[leaf.parameter]);
      leaves_.push_back(parameter.detach().requires_grad_(at::isFloatingType(parameter.scalar_type())));
      if (leaves_.back().requires_grad()) leaves_.back().set_grad_dtype(sum_type(parameter.scalar_type()));
    }
    const auto graph = module_.get_method("forward").graph()->copy();
    torch::jit::Inline(*graph);
    add_rows_alone(*graph);
    if (signature_.sums_within_passes()) {
      const Result<void> taken = norms_.take_over(*graph, signature_.synchronised);
      if (!taken.ok()) return error({.file = path}, taken.diagnostic().message, "B8");
    }
    code_ = torch::jit::Code(graph, "forward");
    for (const size_t table : tables_) {
      // The sum is made when the first rows come: by then the tape has let most of what it kept go.
      leaves_[table].register_hook([&leaf = leaves_[table]](const at::Tensor& rows) {
        if (!leaf.grad().defined()) leaf.mutable_grad() = zero_sum(leaf);
        return rows.coalesce();
      });
    }
    begin_step({});
    return {};
  }

  const Signature& signature() const override { return signature_; }
  bool parts_backward() const override { return false; }

  void begin_step(const Carried& carried) override {
    const c10::NoGradGuard no_grad;
    std::vector<bool> seeded(parameters_.size());
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const uint32_t parameter = signature_.leaves[i].parameter;
      const bool kept = parameter < carried.gradients.size() && carried.gradients[parameter];
      if (kept && totals_[parameter] == nullptr) continue;  // nobody has asked for the sum: it goes on leaf by leaf
      const bool first = kept && !seeded[parameter];
      leaves_[i].mutable_grad() = first ? to_tensor(totals_[parameter]).clone() : at::Tensor();  // others hold the sum
      seeded[parameter] = true;
    }
    totals_.assign(parameters_.size(), nullptr);
    if (carried.statistics) return;
    for (RunningStatistics& statistics : statistics_) statistics.begin_step();
  }

  Result<Values> forward(const At& at, Values inputs, Held& saved) override {
    return pass(at, [&]() -> Result<Values> {
      auto tape = std::make_unique<Tape>();
      for (size_t i = 0; i < inputs.size(); ++i) {
        tape->inputs.push_back(laid_out(to_tensor(inputs[i]), signature_.inputs[i]));
      }
      Tensors outputs;
      if (at.training && !at.recomputed) {
        RANNC_ASSIGN(const Tensors moments, record(at, *tape));
        RANNC_TRY(add_statistics(at, moments));
        outputs = tape->outputs;
        drop_unseeded(*tape);
      } else {
        const c10::NoGradGuard no_grad;
        RANNC_ASSIGN(outputs, call(at, tape->inputs));
        const Tensors moments = split_moments(outputs);
        if (at.training) RANNC_TRY(add_statistics(at, moments));
        for (const at::Tensor& input : tape->inputs) tape->held_bytes += input.nbytes();
      }
      if (at.training) saved = std::move(tape);
      Values values;
      for (const at::Tensor& output : outputs) values.push_back(to_value(output.detach()));
      return values;
    });
  }

  Result<void> recompute(const At& at, Held& saved) override {
    return pass(at, [&]() -> Result<void> {
      RANNC_TRY(record(at, tape_of(saved)));  // what it says of means and variances was counted before
      drop_unseeded(tape_of(saved));
      return {};
    });
  }

  Result<Values> backward_input(const At& at, Held& saved, Values output_gradients, Held&) override {
    return pass(at,
                [&]() -> Result<Values> {
                  Tape& tape = tape_of(saved);
                  RANNC_CHECK(!tape.outputs.empty())
                      << "a recompute stands between a forward pass that keeps inputs and a backward pass";
                  differentiate(tape, output_gradients);
                  Values results(tape.inputs.size());
                  for (size_t i = 0; i < results.size(); ++i) {
                    if (!signature_.inputs[i].gradient) continue;
                    const at::Tensor& gradient = tape.inputs[i].grad();
                    results[i] = to_value(gradient.defined() ? in_one_piece(gradient, signature_.inputs[i])
                                                             : at::zeros_like(tape.inputs[i].detach()));
                  }
                  saved.reset();
                  return results;
                });
  }

  Result<void> backward_weight(const At&, Held&, Held&) override { return {}; }

  Values statistics() override {
    Values sums;
    for (size_t i = 0; i < statistics_.size(); ++i) {
      sums.push_back(to_value(statistics_[i].sums(to_tensor(buffers_[signature_.statistics[i].mean]).numel())));
    }
    return sums;
  }
  void set_statistics(Values sums) override {
    for (size_t i = 0; i < sums.size(); ++i) statistics_[i].set_sums(to_tensor(sums[i]));
  }
  Result<void> commit_buffers(uint64_t) override {
    for (size_t i = 0; i < statistics_.size(); ++i) {
      const Statistics& entry = signature_.statistics[i];
      statistics_[i].commit(to_tensor(buffers_[entry.mean]), to_tensor(buffers_[entry.variance]), entry.momentum);
    }
    return {};
  }

  Values gradients(std::span<const uint32_t> parameters) override {
    const c10::NoGradGuard no_grad;
    Values values;
    for (uint32_t index : parameters) {
      if (totals_[index] == nullptr) totals_[index] = to_value(take_total(index));
      values.push_back(totals_[index]);
    }
    return values;
  }

  void set_gradients(std::span<const uint32_t> parameters, Values gradients) override {
    for (size_t i = 0; i < parameters.size(); ++i) {
      totals_[parameters[i]] = std::move(gradients[i]);
      for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
        if (signature_.leaves[leaf].parameter == parameters[i]) leaves_[leaf].mutable_grad().reset();
      }
    }
  }

  const Values& parameters() const override { return parameters_; }
  const Values& buffers() const override { return buffers_; }

 private:
  /// What a pass throws, or why replicas could not sum in it.
  template <class F>
  auto pass(const At& at, F&& call) -> decltype(call()) {
    norms_.begin_pass(at.replicas);
    auto result = without_exceptions(std::forward<F>(call));
    if (const auto& failure = norms_.failure()) return *failure;
    return result;
  }

  static Tape& tape_of(const Held& saved) {
    RANNC_CHECK(saved != nullptr) << "a backward pass follows a forward pass that kept something";
    return static_cast<Tape&>(*saved);
  }

  /// Lets look-ups in large tables say their gradient as the rows that were looked up. A micro-batch reads few of them:
  /// a gradient of the table's size would be filled with zeros and added as a whole, which takes longer than the layer.
  /// Rows are summed before they are added, so that the sums have the bits of whole gradients.
  void add_rows_alone(torch::jit::Graph& graph) {
    const auto look_up = c10::Symbol::fromQualString("aten::embedding");
    const size_t first = 1 + signature_.inputs.size();  // of the leaves among the arguments, after `self`
    for (torch::jit::Node* node : graph.nodes()) {
      if (node->kind() != look_up || node->input(0)->node() != graph.param_node()) continue;
      const size_t leaf = node->input(0)->offset() - first;
      if (node->input(0)->offset() < first || leaf >= signature_.leaves.size()) continue;
      const auto bytes = static_cast<int64_t>(to_tensor(parameters_[signature_.leaves[leaf].parameter]).nbytes());
      if (bytes < ir::kRowGradientTableBytes) continue;
      const torch::jit::WithInsertPoint here(node);
      node->replaceInput(4, graph.insertConstant(true));
      tables_.push_back(leaf);
    }
  }

  /// B8: the program takes and returns what the plan says.
  Result<void> check_program(const std::string& path) const {
    const auto wrong = [&](std::string message) { return error({.file = path}, std::move(message), "B8"); };
    const auto method = module_.find_method("forward");
    if (!method) return wrong("the program has no function `forward`");
    std::vector<std::string> expected = {"self"};
    for (const Port& port : signature_.inputs) expected.push_back(port.argument);
    for (const Leaf& leaf : signature_.leaves) expected.push_back(leaf.argument);
    for (const Weight& buffer : signature_.buffers) expected.push_back(buffer.argument);
    for (const Weight& constant : signature_.constants) expected.push_back(constant.argument);
    for (const DrawnValue& draw : signature_.draws) expected.push_back(draw.argument);
    for (const std::string& symbol : signature_.symbols) expected.push_back(symbol_variable(symbol));
    if (signature_.asks_training) expected.push_back("training");
    const auto& schema = method->function().getSchema();
    if (schema.arguments().size() != expected.size()) {
      return wrong(fmt::format("the program takes {} arguments, but the plan says {}", schema.arguments().size(),
                               expected.size()));
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (schema.arguments()[i].name() == expected[i]) continue;
      return wrong(fmt::format("argument {} of the program is `{}`, but the plan says `{}`", i,
                               schema.arguments()[i].name(), expected[i]));
    }
    const auto tuple = schema.returns().size() == 1 ? schema.returns()[0].type()->cast<c10::TupleType>() : nullptr;
    const size_t results = signature_.outputs.size() + 2 * signature_.statistics.size();
    if (tuple == nullptr || tuple->elements().size() != results) {
      return wrong(fmt::format("the program does not return the {} values that the plan says", results));
    }
    return {};
  }

  static Result<at::Tensor> read(const SafetensorsFile& file, const Weight& weight) {
    const SafetensorsFile::Entry* entry = file.find(weight.name);
    RANNC_CHECK(entry != nullptr) << "an open bundle has every weight";
    return read_tensor(file, *entry);
  }

  Result<ir::Bindings> bindings(const At& at) const {
    ir::Bindings bound = *at.symbols;
    if (!signature_.batch_symbol.empty()) bound[signature_.batch_symbol] = static_cast<int64_t>(at.samples);
    for (const std::string& symbol : signature_.symbols) {
      if (!bound.contains(symbol)) return error({.node = symbol}, "size `" + symbol + "` has no value in this step");
    }
    return bound;
  }

  /// What `forward` takes.
  Result<torch::jit::Stack> arguments(const At& at, const Tensors& inputs) {
    RANNC_ASSIGN(const ir::Bindings bound, bindings(at));
    torch::jit::Stack stack = {module_._ivalue()};
    stack.insert(stack.end(), inputs.begin(), inputs.end());
    stack.insert(stack.end(), leaves_.begin(), leaves_.end());
    for (const Value& buffer : buffers_) stack.emplace_back(to_tensor(buffer));
    stack.insert(stack.end(), constants_.begin(), constants_.end());
    for (const DrawnValue& draw : signature_.draws) {
      RANNC_ASSIGN(at::Tensor numbers, drawn(draw, at, bound));
      stack.emplace_back(std::move(numbers));
    }
    for (const std::string& symbol : signature_.symbols) stack.emplace_back(bound.at(symbol));
    if (signature_.asks_training) stack.emplace_back(at.training);
    return stack;
  }

  /// LibTorch computes a reduced `mse_loss` in memory of the size of its operands and returns a scalar that keeps all
  /// of it. A loss lives until the step ends.
  static at::Tensor compact(at::Tensor output) {
    if (output.dim() > 0 || output.storage().nbytes() <= output.nbytes()) return output;
    return output.clone();
  }

  Result<Tensors> call(const At& at, const Tensors& inputs) {
    RANNC_ASSIGN(torch::jit::Stack stack, arguments(at, inputs));
    try {
      torch::jit::InterpreterState(code_).run(stack);
    } catch (const std::exception&) {
      if (!norms_.failure()) RANNC_TRY(fail_again(at, inputs));
      throw;
    }
    Tensors outputs;
    for (const c10::IValue& output : stack.back().toTupleRef().elements())
      outputs.push_back(compact(output.toTensor()));
    return outputs;
  }

  /// Throws what a call has thrown, but with the task that failed: the program's records say it. They are as large as a
  /// small model's weights, and so not there as a rule.
  Result<void> fail_again(const At& at, const Tensors& inputs) {
    std::optional<torch::jit::Module> recorded;
    try {
      recorded = torch::jit::load(path_);
    } catch (const std::exception&) {
      return {};  // the bundle has gone meanwhile
    }
    RANNC_ASSIGN(torch::jit::Stack stack, arguments(at, inputs));
    stack.front() = recorded->_ivalue();
    recorded->get_method("forward").function().run(stack);
    return {};
  }

  /// Outputs whose gradient nobody gives need not outlive the forward pass: logits, as a rule.
  void drop_unseeded(Tape& tape) const {
    for (size_t i = 0; i < tape.outputs.size(); ++i) {
      if (!signature_.outputs[i].gradient) tape.outputs[i].reset();
    }
  }

  /// Takes means and variances off the end of a call's results.
  Tensors split_moments(Tensors& results) const {
    const auto end = results.begin() + static_cast<ptrdiff_t>(signature_.outputs.size());
    Tensors moments(end, results.end());
    results.erase(end, results.end());
    return moments;
  }

  Result<void> add_statistics(const At& at, const Tensors& moments) {
    if (statistics_.empty()) return {};
    RANNC_ASSIGN(const ir::Bindings bound, bindings(at));
    for (size_t i = 0; i < statistics_.size(); ++i) {
      const auto count = signature_.statistics[i].count.evaluate(bound);
      if (!count) return error("`" + signature_.statistics[i].count.str() + "` has no value in this step");
      statistics_[i].add(moments[2 * i], moments[2 * i + 1], *count);
    }
    return {};
  }

  /// Runs forward with a tape that starts at the inputs; returns means and variances.
  Result<Tensors> record(const At& at, Tape& tape) {
    const c10::AutoGradMode with_grad(true);
    const AllocationMeter meter;  // what the tape and the results hold
    uint64_t input_bytes = 0;
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      input_bytes += tape.inputs[i].nbytes();
      tape.inputs[i] = tape.inputs[i].detach();
      if (signature_.inputs[i].gradient) tape.inputs[i].requires_grad_();
    }
    RANNC_ASSIGN(tape.outputs, call(at, tape.inputs));
    Tensors moments = split_moments(tape.outputs);
    tape.held_bytes = input_bytes + static_cast<uint64_t>(std::max<int64_t>(meter.live_bytes(), 0));
    return moments;
  }

  /// Leaves gradients at the inputs that want one, and adds those of the parameters to their sums as they come, so that
  /// no second set of them is ever there; undefined where no output depends on them.
  void differentiate(const Tape& tape, const Values& output_gradients) const {
    Tensors outputs, seeds, sources;
    for (size_t i = 0; i < tape.outputs.size(); ++i) {
      if (output_gradients[i] == nullptr || !tape.outputs[i].defined() || !tape.outputs[i].requires_grad()) continue;
      outputs.push_back(tape.outputs[i]);
      seeds.push_back(laid_out(to_tensor(output_gradients[i]), signature_.outputs[i]));
    }
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      if (signature_.inputs[i].gradient) sources.push_back(tape.inputs[i]);
    }
    for (const at::Tensor& leaf : leaves_) {
      if (leaf.requires_grad()) sources.push_back(leaf);
    }
    if (outputs.empty() || sources.empty()) return;
    torch::autograd::backward(outputs, seeds, /*retain_graph=*/false, /*create_graph=*/false, sources);
    separate_sums();
  }

  /// Of one sample, gradients of two leaves may be views of the same memory (two class tokens in front of what is
  /// added): autograd keeps both as they come, and what the next micro-batch adds to one would be added to the other,
  /// too.
  void separate_sums() const {
    for (const at::Tensor& leaf : leaves_) {
      const at::Tensor& sum = leaf.grad();
      if (!sum.defined() || sum.layout() != at::kStrided || !sum.has_storage()) continue;
      if (sum.storage().use_count() > 1) leaf.mutable_grad() = sum.clone();
    }
  }

  static at::Tensor zero_sum(const at::Tensor& parameter) {
    return at::zeros_like(parameter.detach(), sum_type(parameter.scalar_type()));
  }

  /// Adds up in the first leaf's sum, which is no more needed alone: large tables are not held once more.
  at::Tensor take_total(uint32_t parameter) {
    at::Tensor sum;
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      if (signature_.leaves[leaf].parameter != parameter || !leaves_[leaf].grad().defined()) continue;
      if (!sum.defined()) {
        sum = leaves_[leaf].grad();
      } else {
        sum.add_(leaves_[leaf].grad());
      }
    }
    return sum.defined() ? sum : zero_sum(to_tensor(parameters_[parameter]));
  }

  Signature signature_;
  std::string path_;  ///< of the program
  torch::jit::Module module_;
  SyncBatchNorm norms_;  ///< before the code, which calls it
  torch::jit::Code code_;
  Values parameters_, buffers_;
  Tensors constants_;
  std::vector<size_t> tables_;  ///< leaves of which a gradient comes as rows
  Tensors leaves_;              ///< views of the parameters, one per reading task; each holds the sum of its gradients
  Values totals_;               ///< per parameter; null: not summed yet
  std::vector<RunningStatistics> statistics_;
};

}  // namespace

Result<std::unique_ptr<Program>> load_autograd_program(const Bundle& bundle, StageId stage, Origins origins) {
  const std::string path = bundle.program_path(stage);
  return without_exceptions([&]() -> Result<std::unique_ptr<Program>> {
    torch::jit::Module module = torch::jit::load(path, std::nullopt, /*load_debug_files=*/origins == Origins::kKept);
    auto program = std::make_unique<AutogradProgram>(bundle.signatures[stage.index()], std::move(module));
    RANNC_TRY(program->load(bundle.weights[stage.index()], path));
    return std::unique_ptr<Program>(std::move(program));
  });
}

}  // namespace rannc::runtime
