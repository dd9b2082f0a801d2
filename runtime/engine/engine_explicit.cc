// Runs the functions of a stage as flat programs; what a micro-batch keeps is a list of tensors.
#include "runtime/engine/engine_explicit.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "ir/state/statistics.h"
#include "runtime/engine/internal/compiled_stage.h"
#include "runtime/engine/internal/hardware_kernels.h"
#include "runtime/engine/internal/parameter_sums.h"
#include "runtime/engine/internal/running_program.h"
#include "runtime/engine/internal/running_statistics.h"
#include "runtime/engine/internal/stage_calls.h"
#include "runtime/engine/internal/step_recorder.h"
#include "runtime/engine/internal/sync_norm_kernels.h"
#include "runtime/engine/internal/torch_random.h"
#include "runtime/engine/internal/torch_weights.h"
#include "runtime/flat/stage_places.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

using ir::FunctionKind;
using ir::ProgramKind;
using Tensors = std::vector<at::Tensor>;

/// Tensors that one micro-batch keeps.
struct Kept final : HeldState {
  Tensors tensors;
  bool complete = true;  ///< all saved values; else what R reads
  uint64_t bytes() const override {
    std::set<const void*> counted;
    uint64_t total = 0;
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.defined() || !counted.insert(tensor.storage().unsafeGetStorageImpl()).second) continue;
      total += tensor.storage().nbytes();
    }
    return total;
  }
};

class ExplicitProgram final : public Program {
 public:
  ExplicitProgram(const Signature& signature, std::shared_ptr<const ir::StageFunctions> functions,
                  std::vector<TaskId> tasks, const LoadOptions& options, Device& device,
                  std::optional<CompiledStage> compiled)
      : signature_(signature),
        options_(options),
        device_(device),
        torch_device_(device.address()),
        functions_(std::move(functions)),
        joint_(functions_->joint),
        kept_(functions_->kept),
        table_(ir::function_table(*functions_)),
        tasks_(std::move(tasks)),
        places_(places_of(signature_, joint_, tasks_)),
        fixed_(joint_.graph.value_count()),
        sums_(signature_.leaves, parameters_),
        statistics_(signature_, buffers_),
        recorder_(device),
        compiled_(std::move(compiled)),
        records_(device.is_asynchronous()) {}

  Result<void> load(const SafetensorsFile& weights) {
    RANNC_TRY(load_weights(weights, signature_.parameters, places_.parameters, &parameters_));
    RANNC_TRY(load_weights(weights, signature_.buffers, places_.buffers, &buffers_));
    RANNC_TRY(load_weights(weights, signature_.constants, places_.constants, nullptr));
    statistics_.prepare();
    RANNC_TRY(build());
    totals_.resize(programs_.totals.size());
    for (at::Tensor& sum : sums_.sums()) sum_places_.push_back(&sum);
    for (at::Tensor& total : totals_) sum_places_.push_back(&total);
    late_.assign(parameters_.size(), false);
    for (size_t i = 0; i < joint_.gradients.size(); ++i) {
      const ValueId gradient = joint_.gradients[i].gradient;
      const std::vector<ValueId>& end = table_[FunctionKind::kStepEnd].results;
      if (std::find(end.begin(), end.end(), gradient) != end.end())
        late_[signature_.leaves[places_.sums[i]].parameter] = true;
    }
    for (const ValueId total : programs_.totals) {
      const ir::DType dtype = joint_.graph.type(total).dtype;
      widens_ = widens_ || ir::sum_dtype(dtype) != dtype;
    }
    RANNC_TRY(load_sizes_.bind({}));
    RANNC_ASSIGN(Tensors loaded, run(programs_[ProgramKind::kLoad], {}, with_fixed()));
    set_fixed(programs_.loaded, std::move(loaded));
    begin_step({}, StepKind::kOther);
    return {};
  }

  const Signature& signature() const override { return signature_; }
  void record_steps(bool allowed) override { records_ = allowed; }
  std::string why_not_recorded() const override { return recorder_.why_not(); }

  Result<void> use_functions(const ir::StageFunctions& functions) override {
    if (!ir::equal(functions.joint, joint_)) return error("the new functions differ from those of the bundle");
    forget_recordings();  // also of another order of calls
    if (functions.kept == kept_) return {};
    if (compiled_) {
      return error(
          "the new plan recomputes other values than the compiled stages: write a bundle of it, or open this "
          "one with engine explicit");
    }
    kept_ = functions.kept;
    table_ = ir::function_table(functions);
    sizes_ = SizeTable();
    load_sizes_ = SizeTable();
    return build();
  }

  void begin_step(const Carried& carried, StepKind kind) override {
    const bool continues =
        std::find(carried.gradients.begin(), carried.gradients.end(), true) != carried.gradients.end();
    if (continues && backward_ran_) run_end();
    backward_ran_ = false;
    stepped_ = false;
    for (at::Tensor& total : totals_) total.reset();
    sums_.begin_step(carried.gradients);
    if (!carried.statistics) statistics_.begin_step();
    recorder_.begin_step(records_ && only_calls_ && kind == StepKind::kAlike);
  }

  Result<Values> forward(const At& at, Values inputs, Held& saved) override {
    RANNC_TRY(begin_pass(at));
    Tensors arguments = forward_arguments(std::move(inputs));
    const bool keeps_all = !at.recomputed || !kept_;
    FlatProgram& program = !at.training ? programs_[ProgramKind::kEvaluate]
                           : keeps_all  ? programs_[ProgramKind::kForward]
                                        : programs_[ProgramKind::kBegin];
    const auto call = [&](Tensors given, const at::Tensor* keys) -> Result<Tensors> {
      RANNC_ASSIGN(Tensors made, run(program, std::move(given), at, keys));
      for (size_t i = 0; i < places_.outputs.size(); ++i) made[i] = without_buffer(std::move(made[i]));
      if (at.training) {
        RANNC_TRY(statistics_.add(std::span(made).subspan(places_.outputs.size(), places_.moments.size()),
                                  sizes_.bindings()));
      }
      return made;
    };
    RANNC_ASSIGN(Tensors results, recorded(FunctionKind::kForward, at, std::move(arguments), statistic_places_, call));
    Values outputs;
    for (size_t i = 0; i < places_.outputs.size(); ++i) {
      outputs.push_back(to_value(std::move(results[i])));
    }
    if (!at.training) return outputs;
    auto kept = std::make_unique<Kept>();
    kept->complete = keeps_all;
    const auto first = results.begin() + static_cast<ptrdiff_t>(places_.outputs.size() + places_.moments.size());
    kept->tensors.assign(std::make_move_iterator(first), std::make_move_iterator(results.end()));
    saved = std::move(kept);
    return outputs;
  }

  Result<void> recompute(const At& at, Held& saved) override {
    RANNC_TRY(begin_pass(at));
    Kept& kept = kept_of(saved);
    if (kept.complete) return {};
    Tensors arguments;
    for (const ValueId value : programs_.rebuild_from) {
      arguments.push_back(kept.tensors[static_cast<size_t>(place_in(table_.recompute, value))]);
    }
    RANNC_ASSIGN(Tensors rebuilt, recorded(FunctionKind::kRebuild, at, std::move(arguments), {},
                                           [&](Tensors given, const at::Tensor* keys) {
                                             return run(programs_[ProgramKind::kRebuild], std::move(given), at, keys);
                                           }));
    Tensors all;
    for (const ValueId value : table_.saved) {
      const int place = place_in(table_.rebuilt, value);
      all.push_back(place >= 0 ? std::move(rebuilt[static_cast<size_t>(place)])
                               : kept.tensors[static_cast<size_t>(place_in(table_.recompute, value))]);
    }
    kept.tensors = std::move(all);
    kept.complete = true;
    return {};
  }

  Result<Values> backward_input(const At& at, Held& saved, Values output_gradients, Held& pending) override {
    RANNC_ASSIGN(Tensors results, run_backward(at, FunctionKind::kInput, saved, std::move(output_gradients)));
    auto held = std::make_unique<Kept>();
    const auto first = results.begin() + static_cast<ptrdiff_t>(joint_.inputs.size());
    held->tensors.assign(std::make_move_iterator(first), std::make_move_iterator(results.end()));
    pending = std::move(held);
    return input_gradients(std::move(results));
  }

  Result<void> backward_weight(const At& at, Held&, Held& pending) override {
    RANNC_TRY(begin_pass(at));
    Tensors arguments = std::move(kept_of(pending).tensors);
    pending.reset();
    RANNC_TRY(run_weights(FunctionKind::kWeight, programs_[ProgramKind::kWeight], at, std::move(arguments)));
    return {};
  }

  Result<Values> backward(const At& at, Held& saved, Values output_gradients) override {
    RANNC_ASSIGN(Tensors results, run_backward(at, FunctionKind::kBackward, saved, std::move(output_gradients)));
    return input_gradients(std::move(results));
  }

  Values statistics() override { return statistics_.sums(); }
  void set_statistics(Values sums) override { statistics_.set_sums(sums); }
  Result<void> commit_buffers(uint64_t) override {
    const at::Tensor& sums = statistics_.place();
    if (!sums.defined()) return {};
    const auto call = [&](Tensors given, const at::Tensor*) -> Result<Tensors> {
      statistics_.commit(given.front());
      return Tensors();
    };
    RANNC_TRY(recorder_.run({FunctionKind::kStepEnd, 0, 0, kCommit}, symbols_, {sums}, {}, {}, call));
    return {};
  }

  Values gradients(std::span<const uint32_t> parameters) override {
    if (std::any_of(parameters.begin(), parameters.end(), [this](uint32_t each) { return late_[each]; })) end_step();
    return sums_.totals(parameters);
  }
  void set_gradients(std::span<const uint32_t> parameters, Values gradients) override {
    sums_.set_totals(parameters, std::move(gradients));
  }

  const Values& parameters() const override { return parameters_; }
  const Values& buffers() const override { return buffers_; }

 private:
  static constexpr uint32_t kCommit = 1;  ///< segment of the end of a step that updates running statistics

  // --- set-up

  Result<void> load_weights(const SafetensorsFile& file, const std::vector<Weight>& weights,
                            const std::vector<ValueId>& places, Values* values) {
    for (size_t i = 0; i < weights.size(); ++i) {
      RANNC_ASSIGN(at::Tensor tensor, read_weight(file, weights[i], device_));
      if (places[i].valid()) fixed_[places[i].index()] = tensor;
      if (values != nullptr) values->push_back(to_value(std::move(tensor)));
    }
    return {};
  }

  Result<void> build() {
    RANNC_ASSIGN(programs_, build_programs({joint_, kept_.has_value(), table_, places_, kernels(), torch_device_,
                                            device_.kernels(), compiled_ && compiled_->has_loops()},
                                           sizes_, load_sizes_));
    if (compiled_) RANNC_TRY(compiled_->bind(programs_));
    only_calls_ = true;
    for (const auto& [name, program] : named_programs(programs_)) {
      const bool in_steps = program != &programs_[ProgramKind::kLoad] && program != &programs_[ProgramKind::kEvaluate];
      only_calls_ &= !in_steps || program->only_calls();
    }
    return {};
  }

  /// Kernels of the tasks that exchange sums between replicas.
  std::map<TaskId, TaskKernel> kernels() {
    std::map<TaskId, TaskKernel> found;
    for (const auto& [task, number] : replica_sums(joint_)) {
      const bool forward = joint_.origins[task.index()].phase == ir::Phase::kForward;
      found[task] = forward ? sync_norm_kernel(norms_, joint_.graph, task, number)
                            : sync_norm_gradient_kernel(norms_, joint_.graph, task, number);
    }
    return found;
  }

  // --- runs

  /// Takes the gradients of the last step out of the memory of recordings before that is freed.
  void forget_recordings() {
    sums_.own();
    recorder_.forget();
  }

  Result<void> begin_pass(const At& at) {
    stage_ = at.stage, step_ = at.step;
    norms_.begin_pass(at.replicas);
    RANNC_ASSIGN(const ir::Bindings bound, bindings_of(signature_, at));
    RANNC_TRY(sizes_.bind(bound));
    if (stepped_) return {};
    const auto call = [&](Tensors, const at::Tensor*) { return run(programs_[ProgramKind::kStep], {}, with_fixed()); };
    RANNC_ASSIGN(Tensors results, recorded(FunctionKind::kStep, at, {}, {}, call));
    set_fixed(programs_.stepped, std::move(results));
    stepped_ = true;
    return {};
  }

  /// Runs a call of a micro-batch, or replays its recording. Sums over replicas are exchanged by the host.
  Result<Tensors> recorded(FunctionKind kind, const At& at, Tensors arguments, std::span<at::Tensor* const> places,
                           const StepRecorder::Call& call, uint32_t segment = 0) {
    if (!at.training || at.replicas != nullptr) return call(std::move(arguments), nullptr);
    symbols_ = *at.symbols;
    std::vector<std::array<int64_t, 2>> keys;
    for (const RandomValue& random : signature_.random_inputs) keys.push_back(key_and_sample_of(random, at));
    return recorder_.run({kind, at.micro_batch, at.samples, segment}, symbols_, std::move(arguments), places, keys,
                         call);
  }

  /// Of a call of a micro-batch. `at` and `keys` must outlive it.
  FlatRun run_of(const At& at, const at::Tensor* const& keys) {
    FlatRun with{.fixed = fixed_, .sums = sum_places_, .training = at.training};
    with.random_input = [&](ValueId value) { return random_input(at, value, keys); };
    with.numbers = [&](ValueId value) { return numbers_of(random_value(value), at); };
    if (at.marks != nullptr) with.mark = *at.marks;
    if (options_.nonfinite != nullptr) {
      with.nonfinite = [this, micro_batch = at.micro_batch](const FlatNonfinite& found) { report(found, micro_batch); };
    }
    return with;
  }

  Result<Tensors> run(FlatProgram& program, Tensors arguments, const At& at, const at::Tensor* keys) {
    FlatRun with = run_of(at, keys);
    if (options_.origins == Origins::kForgotten) return run(program, std::move(arguments), with);
    RunningProgram running(joint_, tasks_);
    with.running = &running.position;
    return run(program, std::move(arguments), with);
  }

  Result<Tensors> run(FlatProgram& program, Tensors arguments, const FlatRun& with) {
    return located(program, program.run(std::move(arguments), with));
  }

  /// Names the task of an error.
  Result<Tensors> located(const FlatProgram& program, Result<Tensors> results) const {
    if (results.ok()) return results;
    if (const auto& failure = norms_.failure()) return *failure;
    return error(at_task(program.failed_task(), results.diagnostic().message));
  }

  /// Names the task of the plan that a task of the joint graph belongs to.
  std::string at_task(TaskId failed, const std::string& reason) const {
    if (!failed.valid()) return reason;  // an argument that is added to a sum
    const TaskId task = joint_.origins[failed.index()].task;
    return fmt::format("{} at task #{} {}", reason, tasks_[task.index()].index(), joint_.graph.location(task).str());
  }

  /// Of programs that run once per load or step.
  FlatRun with_fixed() const {
    FlatRun with{.fixed = fixed_, .sums = sum_places_};
    if (options_.nonfinite != nullptr) {
      with.nonfinite = [this](const FlatNonfinite& found) { report(found, std::nullopt); };
    }
    return with;
  }

  void report(const FlatNonfinite& found, std::optional<uint32_t> micro_batch) const {
    const ir::Joint::Origin& origin = joint_.origins[found.task.index()];
    const bool forward = origin.phase == ir::Phase::kForward && !found.sum;
    options_.nonfinite->found({.phase = forward ? NonfiniteValue::Phase::kForward : NonfiniteValue::Phase::kBackward,
                               .step = step_,
                               .stage = stage_,
                               .micro_batch = micro_batch,
                               .task = tasks_[origin.task.index()],
                               .position = found.task.index(),
                               .name = {},
                               .shape = found.shape,
                               .elements = found.counts.elements,
                               .nan = found.counts.nan,
                               .infinite = found.counts.infinite,
                               .reads_nan = found.inputs.nan,
                               .reads_infinite = found.inputs.infinite});
  }
  void set_fixed(const std::vector<ValueId>& values, Tensors results) {
    for (size_t i = 0; i < values.size(); ++i) fixed_[values[i].index()] = std::move(results[i]);
  }

  static int place_in(const std::vector<ValueId>& values, ValueId value) {
    const auto at = std::lower_bound(values.begin(), values.end(), value);
    return at != values.end() && *at == value ? static_cast<int>(at - values.begin()) : -1;
  }

  static int index_in(const std::vector<ValueId>& values, ValueId value) {
    const auto at = std::find(values.begin(), values.end(), value);
    return at == values.end() ? -1 : static_cast<int>(at - values.begin());
  }

  const RandomValue& random_value(ValueId value) const {
    const int random_input = index_in(places_.random_inputs, value);
    RANNC_CHECK(random_input >= 0) << "the signature lists all random inputs";
    return signature_.random_inputs[static_cast<size_t>(random_input)];
  }

  Result<at::Tensor> random_input(const At& at, ValueId value, const at::Tensor* keys) const {
    const RandomValue& of = random_value(value);
    const int64_t* const key =
        keys == nullptr ? nullptr : keys->const_data_ptr<int64_t>() + 2 * (&of - signature_.random_inputs.data());
    return make_random_input(of, at, sizes_.bindings(), device_, key);
  }

  Tensors forward_arguments(Values inputs) const {
    Tensors arguments;
    for (const ValueId value : programs_.inputs) {
      const auto port = static_cast<size_t>(index_in(places_.inputs, value));
      arguments.push_back(as_operand(to_tensor(inputs[port]), signature_.inputs[port]));
    }
    return arguments;
  }

  static Kept& kept_of(const Held& held) {
    RANNC_CHECK(held != nullptr) << "a backward pass follows a forward pass that kept something";
    return static_cast<Kept&>(*held);
  }

  Result<Tensors> run_backward(const At& at, FunctionKind kind, Held& saved, Values output_gradients) {
    RANNC_TRY(begin_pass(at));
    Kept& kept = kept_of(saved);
    RANNC_CHECK(kept.complete) << "a recompute stands between a forward pass that keeps less and a backward pass";
    Tensors arguments = std::move(kept.tensors);
    saved.reset();
    for (const auto& [output, seed] : joint_.outputs) {
      const auto port = static_cast<size_t>(index_in(places_.outputs, output));
      if (output_gradients[port] == nullptr) {
        RANNC_ASSIGN(at::Tensor none, zeros(seed));
        arguments.push_back(std::move(none));
      } else {
        arguments.push_back(as_operand(to_tensor(output_gradients[port]), signature_.outputs[port]));
      }
    }
    output_gradients.clear();
    backward_ran_ = !widens_;
    if (kind == FunctionKind::kBackward)
      return run_weights(kind, programs_[ProgramKind::kBackward], at, std::move(arguments));
    return recorded(kind, at, std::move(arguments), sum_places_, [&](Tensors given, const at::Tensor* keys) {
      return run(programs_[ProgramKind::kInput], std::move(given), at, keys);
    });
  }

  /// Runs a program that completes gradients: in one call, or in segments that are recorded one by one.
  Result<Tensors> run_weights(FunctionKind kind, FlatProgram& program, const At& at, Tensors arguments) {
    if (at.marks != nullptr && recorder_.records()) return run_segments(kind, program, at, std::move(arguments));
    return recorded(kind, at, std::move(arguments), sum_places_,
                    [&](Tensors given, const at::Tensor* keys) -> Result<Tensors> {
                      RANNC_ASSIGN(Tensors made, run(program, std::move(given), at, keys));
                      if (widens_) run_end();
                      return made;
                    });
  }

  Result<Tensors> run_segments(FunctionKind kind, FlatProgram& program, const At& at, Tensors arguments) {
    At unmarked = at;  // marks are passed between the segments
    unmarked.marks = nullptr;
    const at::Tensor* keys = nullptr;
    RunningProgram running(joint_, tasks_);
    FlatRun with = run_of(unmarked, keys);
    with.running = &running.position;
    const std::vector<std::vector<uint32_t>> marks = program.marks();
    for (uint32_t segment = 0;; ++segment) {
      const bool last = segment == marks.size();
      const auto call = [&](Tensors given, const at::Tensor* of_segment) -> Result<Tensors> {
        keys = of_segment;
        if (segment == 0) program.begin(std::move(given), with);
        if (!program.has_begun()) return error("a kernel behind the first mark cannot be recorded: use --late-sums");
        RANNC_ASSIGN(Tensors made, located(program, program.run_segment()));
        if (widens_ && last) run_end();
        return made;
      };
      RANNC_ASSIGN(Tensors made, recorded(kind, at, std::exchange(arguments, {}), sum_places_, call, segment));
      if (last) return made;
      for (const uint32_t bucket : marks[segment]) (*at.marks)(bucket);
    }
  }

  Result<at::Tensor> zeros(ValueId value) const {
    const ir::ValueType& type = joint_.graph.type(value);
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      const auto extent = dim.evaluate(sizes_.bindings());
      if (!extent) return error("size `" + dim.str() + "` has no value in this step");
      sizes.push_back(*extent);
    }
    return at::zeros(sizes, at::TensorOptions().dtype(scalar_type(type.dtype)).device(torch_device_));
  }

  Result<Values> input_gradients(Tensors results) const {
    Values values(signature_.inputs.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const Port& port = signature_.inputs[i];
      if (!port.gradient) continue;
      at::Tensor gradient;
      if (const auto place = places_.input_gradients[i]) {
        gradient = results[*place];
      } else {
        RANNC_ASSIGN(gradient, zeros(places_.inputs[i]));
      }
      values[i] = to_value(in_format(gradient, port));
    }
    return values;
  }

  /// Completes the gradients of once-per-step tasks at the end of a step.
  void end_step() {
    if (!backward_ran_ || !programs_.has_end) return;
    const auto call = [&](Tensors, const at::Tensor*) -> Result<Tensors> {
      run_end();
      return Tensors();
    };
    recorder_.run({FunctionKind::kStepEnd, 0, 0}, symbols_, {}, sum_places_, {}, call).value();
    backward_ran_ = false;
  }

  /// E of the totals so far. Changes nothing but sums, since its recording does no more.
  void run_end() {
    if (!programs_.has_end) return;
    const bool any = std::any_of(totals_.begin(), totals_.end(), [](const at::Tensor& t) { return t.defined(); });
    if (!any && !totals_.empty()) return;
    Tensors arguments;
    for (size_t i = 0; i < totals_.size(); ++i) {
      const auto type = scalar_type(joint_.graph.type(programs_.totals[i]).dtype);
      arguments.push_back(totals_[i].defined() ? totals_[i].to(type) : zeros(programs_.totals[i]).value());
      totals_[i].reset();
    }
    run(programs_[ProgramKind::kEnd], std::move(arguments), with_fixed()).value();
  }

  Signature signature_;
  const LoadOptions options_;
  Device& device_;
  const c10::Device torch_device_;
  std::shared_ptr<const ir::StageFunctions> functions_;
  const ir::Joint& joint_;
  std::optional<std::vector<ValueId>> kept_;  ///< as `StageFunctions::kept`
  ir::FunctionTable table_;
  std::vector<TaskId> tasks_;  ///< of the plan, by task of the stage
  StagePlaces places_;
  Values parameters_, buffers_;
  Tensors fixed_;  ///< by value of the joint graph: weights, and results of P
  ParameterSums sums_;
  Tensors totals_;  ///< sums of the operands of totals
  std::vector<at::Tensor*> sum_places_;
  StageStatistics statistics_;
  std::array<at::Tensor*, 1> statistic_places_{&statistics_.place()};
  SizeTable sizes_, load_sizes_;
  SyncBatchNorm norms_;
  StagePrograms programs_;
  StepRecorder recorder_;
  std::optional<CompiledStage> compiled_;  ///< runs instead of the instructions of the programs
  ir::Bindings symbols_;                   ///< of the last call
  StageId stage_;                          ///< of the last call
  uint64_t step_ = 0;                      ///< the same
  /// A total is of a 16-bit type. Its sum would lose bits before E, so E runs after each micro-batch. It is linear.
  bool widens_ = false;
  std::vector<bool> late_;     ///< by parameter: E completes its gradient
  bool records_;               ///< steps may be recorded
  bool only_calls_ = false;    ///< no task runs above autograd
  bool stepped_ = false;       ///< P of this step ran
  bool backward_ran_ = false;  ///< since E, which is due at the end of the step
};

Result<std::unique_ptr<Program>> load_functions(const Bundle& bundle, StageId stage, const LoadOptions& options,
                                                Device& device, std::optional<CompiledStage> compiled) {
  const ir::Plan& plan = bundle.plan;
  if (plan.functions.size() != plan.stages.size()) {
    return error({.file = bundle.path},
                 "the bundle has no stage functions, which the explicit engine runs: compile the model again, or use "
                 "another engine");
  }
  RANNC_TRY(check_kernels(plan, stage, device));
  auto program =
      std::make_unique<ExplicitProgram>(bundle.signatures[stage.index()], plan.functions[stage.index()],
                                        plan.stages[stage.index()].tasks, options, device, std::move(compiled));
  RANNC_TRY(program->load(bundle.weights[stage.index()]));
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace

Result<std::unique_ptr<Program>> load_explicit_program(const Bundle& bundle, StageId stage, const LoadOptions& options,
                                                       Device& device) {
  return load_functions(bundle, stage, options, device, std::nullopt);
}

Result<std::unique_ptr<Program>> load_native_program(const Bundle& bundle, StageId stage, const LoadOptions& options,
                                                     Device& device) {
  if (bundle.form != BundleForm::kNative) {
    return error({.file = bundle.path}, "the bundle has no compiled stages: compile the model with --form native");
  }
  if (device.address() != "cpu") {
    return error({.file = bundle.path}, "compiled stages run on the processor; use --engine explicit on other devices");
  }
  RANNC_ASSIGN(CompiledStage compiled, CompiledStage::open(bundle.compiled_path(stage)));
  return load_functions(bundle, stage, options, device, std::move(compiled));
}

}  // namespace rannc::runtime
