// Interprets a stage's program while LibTorch records the tape; one tape per micro-batch.
#include "runtime/engine/engine_autograd.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/serialization/import.h>

#include "runtime/engine/allocation_meter.h"
#include "runtime/engine/internal/hardware_kernels.h"
#include "runtime/engine/internal/parameter_sums.h"
#include "runtime/engine/internal/running_statistics.h"
#include "runtime/engine/internal/stage_calls.h"
#include "runtime/engine/internal/stage_code.h"
#include "runtime/engine/internal/torch_weights.h"
#include "runtime/internal/reason.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

/// State between forward and backward: the inputs as leaves and the outputs with their autograd graph. Before a
/// recompute there are only inputs.
struct Tape final : HeldState {
  Tensors inputs, outputs;
  uint64_t held_bytes = 0;
  uint64_t bytes() const override { return held_bytes; }
};

// Extracts the two relevant lines of TorchScript's message: the task, from codegen's comment above the statement, and
// the reason, which is the last line.
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
  AutogradProgram(Signature signature, torch::jit::Module module, const std::string& path, Device& device)
      : signature_(std::move(signature)),
        device_(device),
        code_(signature_, tensors_, std::move(module), path, device),
        sums_(signature_.leaves, tensors_.parameters),
        statistics_(signature_, tensors_.buffers) {}

  Result<void> load(const SafetensorsFile& weights) {
    RANNC_TRY(code_.check());
    for (const Weight& parameter : signature_.parameters) {
      RANNC_ASSIGN(at::Tensor tensor, read_weight(weights, parameter, device_));
      tensors_.parameters.push_back(to_value(std::move(tensor)));
    }
    for (const Weight& buffer : signature_.buffers) {
      RANNC_ASSIGN(at::Tensor tensor, read_weight(weights, buffer, device_));
      tensors_.buffers.push_back(to_value(std::move(tensor)));
    }
    for (const Weight& constant : signature_.constants) {
      RANNC_ASSIGN(at::Tensor tensor, read_weight(weights, constant, device_));
      tensors_.constants.push_back(std::move(tensor));
    }
    sums_.create();
    RANNC_ASSIGN(const std::vector<size_t> tables, code_.prepare());
    for (const size_t table : tables) sums_.accept_rows(table);
    begin_step({}, StepKind::kOther);
    return {};
  }

  const Signature& signature() const override { return signature_; }
  bool parts_backward() const override { return false; }

  void begin_step(const Carried& carried, StepKind) override {
    sums_.begin_step(carried.gradients);
    if (!carried.statistics) statistics_.begin_step();
  }

  Result<Values> forward(const At& at, Values inputs, Held& saved) override {
    return pass(at, [&]() -> Result<Values> {
      auto tape = std::make_unique<Tape>();
      for (size_t i = 0; i < inputs.size(); ++i) {
        tape->inputs.push_back(as_operand(to_tensor(inputs[i]), signature_.inputs[i]));
      }
      Tensors outputs;
      if (at.training && !at.recomputed) {
        RANNC_ASSIGN(const Tensors moments, record(at, *tape));
        RANNC_TRY(add_statistics(at, moments));
        outputs = tape->outputs;
        drop_unseeded(*tape);
      } else {
        const c10::NoGradGuard no_grad;
        RANNC_ASSIGN(outputs, code_.call(at, tape->inputs, sums_.leaves()));
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
      RANNC_TRY(record(at, tape_of(saved)));  // its means and variances were counted before
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
                    results[i] = to_value(gradient.defined() ? in_format(gradient, signature_.inputs[i])
                                                             : at::zeros_like(tape.inputs[i].detach()));
                  }
                  saved.reset();
                  return results;
                });
  }

  Result<void> backward_weight(const At&, Held&, Held&) override { return {}; }

  Values statistics() override { return statistics_.sums(); }
  void set_statistics(Values sums) override { statistics_.set_sums(sums); }
  Result<void> commit_buffers(uint64_t) override {
    statistics_.commit();
    return {};
  }

  Values gradients(std::span<const uint32_t> parameters) override { return sums_.totals(parameters); }
  void set_gradients(std::span<const uint32_t> parameters, Values gradients) override {
    sums_.set_totals(parameters, std::move(gradients));
  }

  const Values& parameters() const override { return tensors_.parameters; }
  const Values& buffers() const override { return tensors_.buffers; }

 private:
  /// Runs a pass and converts exceptions. If an exchange between replicas failed, returns the reason for that.
  template <class F>
  auto pass(const At& at, F&& call) -> decltype(call()) {
    code_.norms().begin_pass(at.replicas);
    auto result = without_exceptions(std::forward<F>(call));
    if (const auto& failure = code_.norms().failure()) return *failure;
    return result;
  }

  static Tape& tape_of(const Held& saved) {
    RANNC_CHECK(saved != nullptr) << "a backward pass follows a forward pass that kept something";
    return static_cast<Tape&>(*saved);
  }

  /// Drops outputs that receive no gradient, usually logits. They need not outlive the forward pass.
  void drop_unseeded(Tape& tape) const {
    for (size_t i = 0; i < tape.outputs.size(); ++i) {
      if (!signature_.outputs[i].gradient) tape.outputs[i].reset();
    }
  }

  /// Removes means and variances from the end of a call's results and returns them.
  Tensors split_moments(Tensors& results) const {
    const auto end = results.begin() + static_cast<ptrdiff_t>(signature_.outputs.size());
    Tensors moments(end, results.end());
    results.erase(end, results.end());
    return moments;
  }

  Result<void> add_statistics(const At& at, const Tensors& moments) {
    if (statistics_.empty()) return {};
    RANNC_ASSIGN(const ir::Bindings bound, bindings_of(signature_, at));
    return statistics_.add(moments, bound);
  }

  /// Runs forward with autograd from the inputs on and returns means and variances.
  Result<Tensors> record(const At& at, Tape& tape) {
    const c10::AutoGradMode with_grad(true);
    const AllocationMeter meter;  // bytes of saved tensors and results
    uint64_t input_bytes = 0;
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      input_bytes += tape.inputs[i].nbytes();
      tape.inputs[i] = tape.inputs[i].detach();
      if (signature_.inputs[i].gradient) tape.inputs[i].requires_grad_();
    }
    RANNC_ASSIGN(tape.outputs, code_.call(at, tape.inputs, sums_.leaves()));
    Tensors moments = split_moments(tape.outputs);
    tape.held_bytes = input_bytes + static_cast<uint64_t>(std::max<int64_t>(meter.live_bytes(), 0));
    return moments;
  }

  /// Computes gradients of the inputs that require one (undefined if no output depends on them). Adds parameter
  /// gradients to their sums as they arrive, so that no second set of them exists at any time.
  void differentiate(const Tape& tape, const Values& output_gradients) const {
    Tensors outputs, seeds, sources;
    for (size_t i = 0; i < tape.outputs.size(); ++i) {
      if (output_gradients[i] == nullptr || !tape.outputs[i].defined() || !tape.outputs[i].requires_grad()) continue;
      outputs.push_back(tape.outputs[i]);
      seeds.push_back(as_operand(to_tensor(output_gradients[i]), signature_.outputs[i]));
    }
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      if (signature_.inputs[i].gradient) sources.push_back(tape.inputs[i]);
    }
    for (const at::Tensor& leaf : sums_.leaves()) {
      if (leaf.requires_grad()) sources.push_back(leaf);
    }
    if (outputs.empty() || sources.empty()) return;
    torch::autograd::backward(outputs, seeds, /*retain_graph=*/false, /*create_graph=*/false, sources);
    sums_.separate();
  }

  Signature signature_;
  Device& device_;
  StageTensors tensors_;
  StageCode code_;
  ParameterSums sums_;
  StageStatistics statistics_;
};

/// LibTorch does not name the file in its errors.
Result<torch::jit::Module> load_module(const std::string& path, const LoadOptions& options) {
  try {
    return torch::jit::load(path, std::nullopt, /*load_debug_files=*/options.origins == Origins::kKept);
  } catch (const std::exception& failure) {
    return error({.file = path}, fmt::format("cannot be read as TorchScript: {}", reason_of(failure)));
  }
}

}  // namespace

Result<std::unique_ptr<Program>> load_autograd_program(const Bundle& bundle, StageId stage, const LoadOptions& options,
                                                       Device& device) {
  RANNC_TRY(check_kernels(bundle.plan, stage, device));
  if (bundle.form != BundleForm::kTorchScript) {
    return error({.file = bundle.path}, "the bundle has no TorchScript: compile the model with --form torchscript");
  }
  const std::string path = bundle.program_path(stage);
  return without_exceptions([&]() -> Result<std::unique_ptr<Program>> {
    RANNC_ASSIGN(torch::jit::Module module, load_module(path, options));
    auto program = std::make_unique<AutogradProgram>(bundle.signatures[stage.index()], std::move(module), path, device);
    RANNC_TRY(program->load(bundle.weights[stage.index()]));
    return std::unique_ptr<Program>(std::move(program));
  });
}

}  // namespace rannc::runtime
