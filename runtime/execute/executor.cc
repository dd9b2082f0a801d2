// Executes a row: calls programs, moves messages, joins collectives, reports the first error.
#include "runtime/execute/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "ir/schedule/early_sums.h"
#include "ir/schedule/last_weight.h"
#include "ir/schedule/send_completion.h"
#include "runtime/execute/internal/gradient_sums.h"
#include "runtime/execute/internal/pass_sums.h"
#include "runtime/internal/reason.h"
#include "runtime/internal/router.h"

namespace rannc::runtime {
namespace {

using ir::Action;
using ir::ActionKind;

/// Returns the part of the row around `at` with that action marked.
std::string marked_row(const std::vector<Action>& row, size_t at) {
  constexpr size_t kAround = 8;
  const size_t first = at > kAround ? at - kAround : 0;
  const size_t last = std::min(row.size(), at + kAround + 1);
  std::string text = first > 0 ? "…" : "";
  for (size_t i = first; i < last; ++i) {
    text += i == at ? " >>" + to_string(row[i]) + "<<" : " " + to_string(row[i]);
  }
  return text + (last < row.size() ? " …" : "");
}

/// By stage: whether its sums over replicas may begin in the middle of its last backward pass.
std::vector<bool> early_sums_of(const Pipeline& pipeline) {
  if (!pipeline.shape.training) return std::vector<bool>(pipeline.stages.size());
  std::vector<bool> joint;
  for (size_t s = 0; s < pipeline.stages.size(); ++s)
    joint.push_back(pipeline.shape.stages[s].devices.size() > 1 && pipeline.stages[s].sums_within_passes());
  return ir::early_sums(pipeline.shape, pipeline.schedule, joint);
}

}  // namespace

class Executor::Impl {
 public:
  Impl(const Pipeline& pipeline, DeviceId device, std::vector<Program*> programs, Transport& transport,
       Observer* observer)
      : pipeline_(pipeline),
        device_(device),
        programs_(std::move(programs)),
        transport_(transport),
        hardware_(transport.hardware()),
        progress_(transport.progress()),
        observer_(observer),
        dependencies_(pipeline.shape),
        router_(pipeline, dependencies_, device, transport),
        row_(pipeline.schedule.rows[device.index()]),
        last_weight_(ir::last_weights(row_)),
        early_sums_(early_sums_of(pipeline)),
        completion_(dependencies_, pipeline.schedule, device),
        sums_(
            pipeline, dependencies_, programs_, transport, row_,
            {.stamp = [this] { return stamp(); },
             .waits = [this](size_t position) { await_sum(position); },
             .failed = [this](size_t position) { position_ = position; },
             .ended = [this](const Action& action, GradientSums::Span span) { report_sum(action, std::move(span)); }}) {
    if (observer != nullptr) router_.time_waits();
    for (const Action& action : row_) {
      if (ir::has_pass(action.kind, ir::Pass::kRebuild)) recomputed_.insert({action.stage, action.micro_batch});
    }
    for (StageId stage : dependencies_.stages_on(device_)) {
      const std::vector<DeviceId>& members = pipeline_.shape.stages[stage.index()].devices;
      if (members.size() < 2 || !pipeline_.stages[stage.index()].sums_within_passes()) continue;
      pass_sums_.try_emplace(stage, stage, members, transport_, router_);
    }
  }

  Result<void> begin(const StepInput& input) {
    RANNC_CHECK(begun_.size() <= 1) << "a step begins when at most one has not ended";
    const auto on_compute_stream = hardware_.enter(Stream::kCompute);
    begin_step(input);
    for (size_t i = 0; i < row_.size(); ++i) {
      if (skipped(row_[i])) continue;
      position_ = i;
      const Result<void> done = run_action(i);
      if (!done.ok()) return fail(describe(failed_at(position_), done.diagnostic()));
    }
    const Result<void> summed = guarded([&] { return sums_.await_all(); });
    if (!summed.ok()) return fail(describe(failed_at(position_), summed.diagnostic()));
    begin_work(progress_, {.what = "the end", .step = input.step});
    if (const Result<void> enqueued = enqueue_end(); !enqueued.ok()) return fail(enqueued.diagnostic());
    return {};
  }

  Result<StepOutcome> end() {
    RANNC_CHECK(!begun_.empty()) << "a step ends after it has begun";
    const auto on_compute_stream = hardware_.enter(Stream::kCompute);
    begin_work(progress_, {.what = "the end", .step = begun_.front().timed.step});
    if (const Result<void> ended = await_first(); !ended.ok()) return fail(ended.diagnostic());
    StepOutcome outcome = std::move(begun_.front().outcome);
    begun_.pop_front();
    sort(outcome);
    return outcome;
  }

  void drop_begun() {
    if (begun_.empty()) return;
    hardware_.synchronize();
    begun_.clear();
  }

  Result<void> update(const std::function<Result<void>(StageId)>& optimizer) {
    for (const Action& action : row_) {
      if (!is_late(action)) continue;
      const bool gathers = ir::is_gather(action.kind);
      RANNC_TRY(observed(action, [&] { return gathers ? all_gather(action.stage) : optimizer(action.stage); }));
    }
    RANNC_TRY(transport_.flush());
    try {
      if (!timed_.actions.empty()) hardware_.synchronize();
      report(timed_);
    } catch (const std::exception& failure) {
      return error(fmt::format("step {}, device {}: {}", timed_.step, device_.index(), reason_of(failure)));
    }
    return {};
  }

 private:
  using Key = std::pair<StageId, uint32_t>;
  struct Kept {
    Held saved, pending;
    uint64_t bytes() const { return (saved ? saved->bytes() : 0) + (pending ? pending->bytes() : 0); }
  };

  /// What an action began with.
  struct Running {
    int64_t start_ns = 0, waited_ns = 0;
    EventRef start;  ///< of an asynchronous device
  };
  /// An action of an asynchronous device, whose times are known at the end of the step.
  struct Stamped {
    Action action;
    EventRef start, end;
    std::vector<std::pair<EventRef, EventRef>> waits;
    uint64_t live_bytes = 0;
  };
  /// Those of a step that nobody has reported yet.
  struct Timed {
    uint64_t step = 0;
    int64_t begin_ns = 0;  ///< when the device began with it
    EventRef begin;        ///< the stamp at that time
    std::vector<Stamped> actions;
  };
  /// A step that is enqueued and has not ended.
  struct Begun {
    StepOutcome outcome;
    Timed timed;
    uint64_t mark = 0;     ///< number before its first action
    bool follows = false;  ///< another step had not ended when it began
    bool training = false;
    EventRef done;
  };
  /// An action of a step that has not ended.
  struct Place {
    uint64_t step = 0;
    size_t position = 0;
  };

  /// Whether `Executor::update` performs it after a step that `updates_later`.
  static bool is_late(const Action& action) { return ir::is_update(action.kind) || ir::is_gather(action.kind); }

  /// Performs an action by `work` and reports it.
  template <class Work>
  Result<void> observed(const Action& action, const Work& work) {
    begin_work(progress_, {.what = {}, .step = timed_.step, .action = action});
    if (observer_ != nullptr) observer_->started(device_);
    Running running{now_ns(), router_.waited_ns(), stamp()};
    const Result<void> done = work();
    if (done.ok() && observer_ != nullptr) report(action, std::move(running));
    return done;
  }

  /// Sums are reported as actions of their own, when they end.
  Result<void> run_action(size_t position) {
    const Action& action = row_[position];
    if (ir::is_reduction(action.kind)) {
      begin_work(progress_, {.what = {}, .step = timed_.step, .action = action});
      return guarded([&] { return perform(action); });
    }
    const auto work = [&] {
      return guarded([&]() -> Result<void> {
        RANNC_TRY(perform(action));
        hardware_.mark(mark_ + position + 1);
        return {};
      });
    };
    if (ir::is_update(action.kind)) RANNC_TRY(guarded([&] { return sums_.await(action.stage); }));
    position_ = position;
    return input_->updates_later && is_late(action) ? work() : observed(action, work);
  }

  /// The device begins to wait for a sum.
  void await_sum(size_t position) {
    position_ = position;
    begin_work(progress_, {.what = {}, .step = timed_.step, .action = row_[position]});
  }

  void report_sum(const Action& action, GradientSums::Span span) {
    if (observer_ == nullptr) return;
    if (hardware_.is_asynchronous()) {
      timed_.actions.push_back({action, std::move(span.start), stamp(), router_.take_waits(), live_bytes()});
      return;
    }
    observer_->finished({timed_.step, device_, action, span.start_ns, span.end_ns,
                         std::min(span.waited_ns, span.end_ns - span.start_ns), live_bytes()});
  }

  uint64_t live_bytes() const {
    uint64_t live = router_.bytes();
    for (const auto& [key, kept] : kept_) live += kept.bytes();
    return live;
  }

  EventRef stamp() { return observer_ != nullptr ? hardware_.stamp(Stream::kCompute) : nullptr; }

  void begin_step(const StepInput& input) {
    input_ = &input;
    training_ = input.training;
    recomputes_ahead_ = input.overlaps_recompute;
    position_ = 0;
    begin_marks();
    kept_.clear();
    const int64_t begin_ns = now_ns();
    timed_ = {input.step, begin_ns, stamp(), {}};
    outcome_ = {};
    outcome_.numerators.resize(pipeline_.losses.size());
    router_.begin_step(input);
    sums_.begin_step(input.step, input.overlaps_sums, static_cast<bool>(input.update));
    mark_failure_.reset();
    for (auto& [stage, sums] : pass_sums_) sums.begin_step(input.step);
    for (StageId stage : dependencies_.stages_on(device_)) {
      program(stage).begin_step(input.carry ? sums_.carried(stage) : Carried{}, kind(stage));
    }
  }

  /// Steps that keep outputs or earlier gradients free values at other points. In-pass sums run on the host.
  StepKind kind(StageId stage) {
    const bool alike = input_->training && !input_->carry && !input_->keep_outputs && replicas(stage) == nullptr;
    return alike ? StepKind::kAlike : StepKind::kOther;
  }

  /// Numbers of marks differ between the step that begins, one that runs, and the last that has ended.
  void begin_marks() {
    constexpr uint64_t kSteps = 3;
    enqueues_ = true;
    if (!begun_.empty()) {
      mark_ = (mark_ + marks()) % (kSteps * marks());
      return;
    }
    hardware_.drop_staged();
    hardware_.mark(0);
    mark_ = 0;
  }
  uint64_t marks() const { return row_.size() + 1; }

  bool skipped(const Action& action) const {
    if (!training_) return !ir::is_forward(action.kind) && !ir::is_activation(action.kind);
    return ir::has_pass(action.kind, ir::Pass::kRebuild) && !recomputes_ahead_;
  }

  template <class Work>
  Result<void> guarded(const Work& work) {
    if (auto failure = transport_.failure()) return *failure;
    try {
      return work();
    } catch (const InternalError& defect) {
      transport_.abort(error(defect.what()));
      throw;
    } catch (const std::exception& exception) {
      return error(reason_of(exception));
    }
  }

  /// The action whose work failed, when the call for the one at `called` did. An asynchronous device reports a failure
  /// in some later call, and in all calls after that.
  Place failed_at(size_t called) {
    if (!hardware_.is_asynchronous() || transport_.failure()) return {timed_.step, called};
    try {
      const EventRef end = hardware_.record(Stream::kCompute);
      const int64_t limit = now_ns() + kPatienceNs;
      while (!hardware_.is_reached(end) && now_ns() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      return first_unmarked(called);
    }
    return {timed_.step, called};
  }

  /// The first action that the device has not come to the end of, up to that at `last` of the last step.
  Place first_unmarked(size_t last) const {
    std::vector<std::pair<uint64_t, uint64_t>> steps;  // with the number before their first mark
    for (const Begun& each : begun_) steps.emplace_back(each.timed.step, each.mark);
    if (enqueues_) steps.emplace_back(timed_.step, mark_);
    const uint64_t marked = hardware_.marked();
    size_t index = 0, position = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (marked <= steps[i].second || marked >= steps[i].second + marks()) continue;
      index = i;
      position = marked - steps[i].second;
    }
    const auto skip = [&] {
      while (position < row_.size() && skipped(row_[position])) ++position;
    };
    skip();
    if (position == row_.size() && index + 1 < steps.size()) {
      ++index;
      position = 0;
      skip();
    }
    if (index + 1 == steps.size()) position = std::min(position, last);
    return {steps[index].first, std::min(position, row_.size() - 1)};
  }

  Result<void> perform(const Action& action) {
    switch (ir::traits(action.kind).action_class) {
      case ir::ActionClass::kCompute:
        return is_last_weight(action) ? compute_last(action) : compute(action);
      case ir::ActionClass::kSend:
        return router_.send(action);
      case ir::ActionClass::kReceive:
        return router_.receive(action);
      case ir::ActionClass::kReduce:
        return sums_.reach(position_);
      case ir::ActionClass::kGather:
        if (!input_->update || input_->updates_later) return {};
        return all_gather(action.stage);
      case ir::ActionClass::kUpdate:
        break;
    }
    return step(action.stage);
  }

  Result<void> all_gather(StageId stage) {
    const int64_t start = now_ns();
    const Result<void> gathered = sums_.all_gather(stage);
    router_.add_wait(now_ns() - start);
    return gathered;
  }

  /// Whether no later action of the row adds to gradients of the stage's parameters.
  bool is_last_weight(const Action& action) const {
    const auto found = last_weight_.find(action.stage);
    return found != last_weight_.end() && found->second == position_;
  }

  /// Begins the sums of buckets as their gradients become final: at once on a replica without samples.
  Result<void> compute_last(const Action& action) {
    if (!input_->overlaps_sums || !early_sums_[action.stage.index()]) return compute(action);
    if (router_.own(action.stage, action.micro_batch).empty())
      return sums_.pass_marks(action.stage, sums_.buckets(action.stage));
    const std::function<void(uint32_t)> mark = [&](uint32_t bucket) {
      if (mark_failure_) return;
      const Result<void> begun = sums_.pass_marks(action.stage, bucket + 1);
      if (!begun.ok()) mark_failure_ = begun.diagnostic();
    };
    marks_ = &mark;
    const Result<void> computed = compute(action);
    marks_ = nullptr;
    if (computed.ok() && mark_failure_) return *mark_failure_;
    return computed;
  }

  Result<void> compute(const Action& action) {
    if (router_.own(action.stage, action.micro_batch).empty()) return {};  // a replica without samples
    return compute(action, at(action));
  }

  At at(const Action& action) {
    const ir::SampleRange samples = router_.within_mini_batch(action.stage, action.micro_batch);
    return {.stage = action.stage,
            .micro_batch = action.micro_batch,
            .first_sample = input_->samples_before + static_cast<uint64_t>(samples.first),
            .samples = static_cast<uint64_t>(samples.size()),
            .step = input_->step,
            .seed = input_->seed,
            .training = input_->training,
            .recomputed = recomputed_.contains({action.stage, action.micro_batch}),
            .symbols = &input_->symbols,
            .replicas = replicas(action.stage),
            .marks = marks_};
  }

  ReplicaSums* replicas(StageId stage) {
    const auto found = pass_sums_.find(stage);
    return found == pass_sums_.end() || !input_->training ? nullptr : &found->second;
  }

  Result<void> compute(const Action& action, const At& at) {
    Kept& kept = kept_[{action.stage, action.micro_batch}];
    switch (action.kind) {
      case ActionKind::kForward:
        return forward(at, kept);
      case ActionKind::kRecompute:
        RANNC_TRY(await_completed_sends());
        return program(action.stage).recompute(at, kept.saved);
      case ActionKind::kInputGradient:
        return backward_input(at, kept);
      case ActionKind::kWeightGradient:
        RANNC_TRY(await_completed_sends());
        return backward_weight(at, kept);
      default:
        return backward(at, kept);
    }
  }

  /// Frees sends that have certainly finished at this position. Only in training are rows executed completely.
  Result<void> await_completed_sends() {
    if (!input_->training) return {};
    for (const ir::SendCompletion::Wait& wait : completion_.before(position_)) {
      const int64_t start = now_ns();
      const Result<void> taken = transport_.await_sends(wait.peer, wait.left);
      router_.add_wait(now_ns() - start);
      RANNC_TRY(taken);
    }
    return {};
  }

  Result<void> forward(const At& at, Kept& kept) {
    RANNC_ASSIGN(Values inputs, router_.inputs(at.stage, at.micro_batch));
    RANNC_TRY(await_completed_sends());
    RANNC_ASSIGN(const Values outputs, program(at.stage).forward(at, std::move(inputs), kept.saved));
    RANNC_CHECK(outputs.size() == pipeline_.stages[at.stage.index()].outputs.size());
    router_.file_outputs(at.stage, at.micro_batch, outputs);
    collect(at, outputs);
    return {};
  }

  Result<Values> output_gradients(const At& at, Kept& kept) {
    RANNC_ASSIGN(Values gradients, router_.output_gradients(at.stage, at.micro_batch));
    RANNC_TRY(await_completed_sends());
    if (at.recomputed && !input_->overlaps_recompute) RANNC_TRY(program(at.stage).recompute(at, kept.saved));
    return gradients;
  }

  Result<void> backward_input(const At& at, Kept& kept) {
    RANNC_ASSIGN(Values gradients, output_gradients(at, kept));
    RANNC_ASSIGN(const Values inputs,
                 program(at.stage).backward_input(at, kept.saved, std::move(gradients), kept.pending));
    router_.file_input_gradients(at.stage, at.micro_batch, inputs);
    return {};
  }

  Result<void> backward(const At& at, Kept& kept) {
    RANNC_ASSIGN(Values gradients, output_gradients(at, kept));
    RANNC_ASSIGN(const Values inputs, program(at.stage).backward(at, kept.saved, std::move(gradients)));
    router_.file_input_gradients(at.stage, at.micro_batch, inputs);
    kept_.erase({at.stage, at.micro_batch});
    return {};
  }

  Result<void> backward_weight(const At& at, Kept& kept) {
    RANNC_TRY(program(at.stage).backward_weight(at, kept.saved, kept.pending));
    kept_.erase({at.stage, at.micro_batch});
    return {};
  }

  void collect(const At& at, const Values& outputs) {
    const ir::SampleRange samples = router_.within_mini_batch(at.stage, at.micro_batch);
    const auto part = [&](uint32_t output) {
      return OutputPart{pipeline_.stages[at.stage.index()].outputs[output].value, at.micro_batch, samples,
                        outputs[output]};
    };
    for (size_t term = 0; term < pipeline_.losses.size(); ++term) {
      const LossPort& loss = pipeline_.losses[term];
      if (loss.stage == at.stage) outcome_.numerators[term].push_back(part(loss.output));
    }
    for (ValueId value : input_->keep_outputs ? pipeline_.graph_outputs : pipeline_.sums) {
      const int output = pipeline_.stages[at.stage.index()].output_of(value);
      if (output < 0) continue;
      OutputPart kept = part(static_cast<uint32_t>(output));
      const bool whole = std::find(pipeline_.sums.begin(), pipeline_.sums.end(), value) != pipeline_.sums.end();
      if (input_->reduce_output && !whole) kept.part = input_->reduce_output(value, kept.part);
      if (kept.part != nullptr) outcome_.outputs.push_back(std::move(kept));
    }
  }

  static void sort(StepOutcome& outcome) {
    const auto by_sample = [](const OutputPart& a, const OutputPart& b) {
      return std::tuple(a.value, a.micro_batch, a.samples.first) < std::tuple(b.value, b.micro_batch, b.samples.first);
    };
    std::stable_sort(outcome.outputs.begin(), outcome.outputs.end(), by_sample);
    for (auto& parts : outcome.numerators) std::stable_sort(parts.begin(), parts.end(), by_sample);
  }

  Result<void> step(StageId stage) {
    if (!input_->update) return {};
    RANNC_TRY(program(stage).commit_buffers(timed_.step));
    return input_->updates_later ? Result<void>() : input_->update(stage, program(stage));
  }

  /// Aborts the run and returns the first reason.
  Diagnostic fail(const Diagnostic& reason) {
    transport_.abort(reason);
    sums_.end_step();
    kept_.clear();
    enqueues_ = false;
    const auto first = transport_.failure();
    return first ? *first : reason;
  }

  Diagnostic describe(const Place& at, const Diagnostic& cause) const {
    if (transport_.failure()) return cause;  // another device's error, described there
    const Action& action = row_[at.position];
    std::string place = fmt::format("step {}, device {}, stage {}", at.step, device_.index(), action.stage.index());
    if (ir::has_micro_batch(action.kind)) place += fmt::format(", micro-batch {}", action.micro_batch);
    Diagnostic result = cause;
    result.message =
        fmt::format("{} ({}) failed: {}: {}", ir::words(action.kind), to_string(action), place, cause.message);
    result.notes.push_back({{}, fmt::format("row of device {}: {}", device_.index(), marked_row(row_, at.position))});
    return result;
  }

  void report(const Action& action, Running running) {
    if (hardware_.is_asynchronous()) {
      timed_.actions.push_back({action, std::move(running.start), stamp(), router_.take_waits(), live_bytes()});
      return;
    }
    const int64_t waited = router_.waited_ns() - running.waited_ns;
    observer_->finished({timed_.step, device_, action, running.start_ns, now_ns(), waited, live_bytes()});
  }

  /// Enqueues the copies of small results to host memory, behind the step.
  Result<void> enqueue_end() {
    try {
      for (auto* parts : small_parts()) {
        for (OutputPart& part : *parts) part.part = hardware_.fetch(part.part);
      }
      RANNC_TRY(transport_.flush());
      Timed timed{timed_.step, timed_.begin_ns, timed_.begin, std::exchange(timed_.actions, {})};
      begun_.push_back({std::move(outcome_), std::move(timed), mark_, !begun_.empty(), training_,
                        hardware_.record(Stream::kCompute)});
      enqueues_ = false;
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& failure) {
      return describe(first_unmarked(position_), error(reason_of(failure)));
    }
    return {};
  }

  /// Waits for the first step that was begun. Its results are then in host memory.
  Result<void> await_first() {
    Begun& first = begun_.front();
    try {
      if (begun_.size() > 1) {
        hardware_.synchronize(first.done);
      } else {
        hardware_.synchronize();
        // Recordings, which begin in the next step, have memory of their own. Nothing waits for other devices now.
        if (first.training && !std::exchange(gave_back_, true)) hardware_.give_back_memory();
      }
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& failure) {
      return describe(first_unmarked(position_), error(reason_of(failure)));
    }
    try {
      for (OutputPart& part : first.outcome.outputs) part.part = hardware_.download(part.part);
      if (first.follows && first.timed.begin != nullptr) {
        first.timed.begin_ns = ended_ns_ + hardware_.ns_between(ended_, first.timed.begin);
        if (begun_.size() == 1) timed_.begin_ns = first.timed.begin_ns;  // late actions are timed from there
      }
      ended_ns_ = first.timed.begin_ns;
      ended_ = first.timed.begin;
      report(first.timed);
    } catch (const std::exception& failure) {
      return error(fmt::format("step {}, device {}: {}", first.timed.step, device_.index(), reason_of(failure)));
    }
    return {};
  }

  /// Those that all steps have: loss numerators and sums of metrics. The host waits once for all of them.
  std::vector<std::vector<OutputPart>*> small_parts() {
    std::vector<std::vector<OutputPart>*> found;
    if (!input_->keep_outputs) found.push_back(&outcome_.outputs);
    for (auto& parts : outcome_.numerators) found.push_back(&parts);
    return found;
  }

  void report(Timed& timed) {
    const auto since_begin = [&](const EventRef& event) {
      return timed.begin_ns + hardware_.ns_between(timed.begin, event);
    };
    for (const Stamped& each : timed.actions) {
      int64_t waited = 0;
      for (const auto& [from, to] : each.waits) waited += hardware_.ns_between(from, to);
      observer_->finished(
          {timed.step, device_, each.action, since_begin(each.start), since_begin(each.end), waited, each.live_bytes});
    }
    timed.actions.clear();
  }

  Program& program(StageId stage) const {
    RANNC_CHECK(programs_[stage.index()] != nullptr) << "a device has a program for each of its stages";
    return *programs_[stage.index()];
  }

  /// How long a failed action waits to learn that the device works.
  static constexpr int64_t kPatienceNs = 1'000'000'000;

  const Pipeline& pipeline_;
  DeviceId device_;
  std::vector<Program*> programs_;
  Transport& transport_;
  Device& hardware_;
  Progress* progress_;  ///< may be null
  Observer* observer_;
  ir::Dependencies dependencies_;
  Router router_;
  const std::vector<Action>& row_;
  const std::map<StageId, size_t> last_weight_;
  const std::vector<bool> early_sums_;  ///< by stage
  ir::SendCompletion completion_;
  size_t position_ = 0;  ///< of the action that runs
  std::set<Key> recomputed_;
  std::map<StageId, PassSums> pass_sums_;
  GradientSums sums_;
  const std::function<void(uint32_t)>* marks_ = nullptr;  ///< of the last B or W of a stage while it runs
  std::optional<Diagnostic> mark_failure_;
  const StepInput* input_ = nullptr;                  ///< of the step that is enqueued
  bool training_ = false, recomputes_ahead_ = false;  ///< of the same input
  bool enqueues_ = false;                             ///< a step
  uint64_t mark_ = 0;                                 ///< number before the first mark of the last step
  std::map<Key, Kept> kept_;
  StepOutcome outcome_;
  bool gave_back_ = false;   // unused memory, after the first step
  Timed timed_;              // of the last step
  std::deque<Begun> begun_;  // oldest first
  int64_t ended_ns_ = 0;     // when the device began with the last step that has ended
  EventRef ended_;           // the stamp at that time
};

Executor::Executor(const Pipeline& pipeline, DeviceId device, std::vector<Program*> programs, Transport& transport,
                   Observer* observer)
    : impl_(std::make_unique<Impl>(pipeline, device, std::move(programs), transport, observer)) {}
Executor::~Executor() = default;
Result<StepOutcome> Executor::run(const StepInput& input) {
  RANNC_TRY(impl_->begin(input));
  return impl_->end();
}
Result<void> Executor::begin(const StepInput& input) { return impl_->begin(input); }
Result<StepOutcome> Executor::end() { return impl_->end(); }
void Executor::drop_begun() { impl_->drop_begun(); }
Result<void> Executor::update(const std::function<Result<void>(StageId)>& optimizer) {
  return impl_->update(optimizer);
}

}  // namespace rannc::runtime
