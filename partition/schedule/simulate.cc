/// Simulates schedules.
#include "partition/schedule/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "ir/schedule/dependencies.h"
#include "ir/schedule/schedule_memory.h"
#include "partition/schedule/messages.h"
#include "partition/schedule/simulator_state.h"
#include "partition/schedule/steady_state.h"
#include "partition/schedule/sum_marks.h"

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;
using ir::Message;

constexpr uint32_t kNoAction = 0xffffffff;

bool alike(const std::vector<uint32_t>& samples) {
  return std::all_of(samples.begin(), samples.end(), [&](uint32_t one) { return one == samples.front(); });
}

template <class Order>
class Engine {
 public:
  Engine(const ir::PipelineShape& shape, const ir::Schedule& schedule, const ScheduleCosts& costs,
         const SimulationOptions& options)
      : shape_(shape),
        schedule_(schedule),
        costs_(costs),
        options_(options),
        dependencies_(shape),
        lowered_(schedule.lowered),
        messages_(dependencies_, costs, options),
        states_(shape.devices),
        sums_(shape.stages.size()),
        shared_(shape.shared.size()),
        gathers_(shape.stages.size()),
        watching_(options.skip_periods && alike(shape.micro_batches) && alike(costs.size_class)) {
    timeline_.devices.resize(shape.devices);
    for (DeviceTimeline& device : timeline_.devices) device.first = kUnknown;
    if (options.spans) {
      timeline_.spans.resize(shape.devices);
      for (uint32_t d = 0; d < shape.devices; ++d) timeline_.spans[d].resize(schedule.rows[d].size());
    }
    if (lowered_ && !options.blocking) marks_ = SumMarks(dependencies_, schedule, costs);
  }

  Result<Timeline> run() {
    for (uint32_t d = shape_.devices; d-- > 0;) queue(0, d);
    drain();
    if (options_.step_barrier) pass_barrier();
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      if (states_[d].next < schedule_.rows[d].size() || states_[d].held != nullptr) return stuck(d);
    }
    finish();
    return std::move(timeline_);
  }

 private:
  void drain() {
    while (!order_.empty()) {
      const Wake wake = order_.pop();
      now_ = wake.time;
      if (wake.collective != Wake::kRow) {
        --filed_;
        proceed(wake.device, wake.collective - 1, wake.time);
        continue;
      }
      states_[wake.device].wake = kUnknown;
      advance(wake.device, wake.time);
      if constexpr (Order::kTimed) {
        if (done_ != kNoAction) look_for_period(wake.time);
      }
    }
  }

  void queue(double time, uint32_t d) {
    states_[d].wake = time;
    order_.push({time, d});
  }

  /// Called when the first device has ended a backward pass. Skips repetitions of the steady state. While a device is
  /// about to join or to begin a collective, nothing repeats.
  void look_for_period(double now) {
    if (filed_ > 0) {
      done_ = kNoAction;
      return standings_.clear();
    }
    Standing& standing = standings_.fresh();
    standing.now = now;
    standing.micro_batch = std::exchange(done_, kNoAction);
    standing.devices = states_;
    standing.timelines = timeline_.devices;
    messages_.describe(standing);
    Period period;
    const Standing* earlier = standings_.keep(period);
    if (earlier == nullptr) return;
    const uint64_t times =
        std::min(periods_ahead(schedule_, *earlier, standing, period), marks_.periods_ahead(*earlier, standing));
    if (times == 0) return;
    skipped_ += move_on(*earlier, standing, period, times, states_, timeline_.devices);
    messages_.move_on(*earlier, period, times);
    standings_.clear();
    order_ = Order();
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      if (states_[d].wake != kUnknown) order_.push({states_[d].wake, d});
    }
  }

  /// Continues a row until it waits, ends or (in time order) must let others catch up.
  void advance(uint32_t d, double now) {
    DeviceState& state = states_[d];
    state.waiting = false;
    while (true) {
      if (state.unsent) send_results(d);
      if (state.held != nullptr && !leave(d)) return;
      if (state.next == schedule_.rows[d].size()) return;
      const Action& action = schedule_.rows[d][state.next];
      if (ir::is_compute(action.kind)) {
        const double inputs = messages_.arrival(DeviceId(d), action);
        if (inputs == kUnknown) return wait(state);
        const double start = std::max(state.clock, inputs);
        if (Order::kTimed && start > now) return queue(start, d);
        const std::vector<uint32_t>* early = marks_.within(d, state.next);
        messages_.take(DeviceId(d), action);
        occupy(d, start, in_grains(compute_time(d, action), options_.grain) + begin_time(d, action));
        state.unsent = true;
        if (early != nullptr) join_early(d, start, *early);
        if (watches(d, action)) done_ = action.micro_batch;
        if (Order::kTimed) return queue(state.clock, d);
      } else if (options_.blocking && ir::is_message(action.kind)) {
        if (!meet(d, action)) return wait(state);
        if (Order::kTimed && state.clock > now) return queue(state.clock, d);
      } else if (ir::is_send(action.kind)) {
        send(d, action);
        if (Order::kTimed && state.clock > now) return queue(state.clock, d);
      } else if (ir::is_receive(action.kind)) {
        note(d, state.clock, state.clock);
      } else if (ir::is_collective(action.kind)) {
        join(d, action);
      } else if (!step(d, action)) {
        return;
      }
    }
  }

  static void wait(DeviceState& state) { state.waiting = true; }

  void note(uint32_t d, double start, double end) {
    DeviceState& state = states_[d];
    if (options_.spans) timeline_.spans[d][state.next] = {start, end};
    ++state.next;
  }

  void occupy(uint32_t d, double start, double duration) {
    DeviceTimeline& device = timeline_.devices[d];
    device.first = std::min(device.first, start);
    device.last = start + duration;
    device.busy += duration;
    states_[d].clock = start + duration;
    note(d, start, start + duration);
  }

  /// Whether the device's replica has samples of the action's micro-batch.
  bool has_samples(uint32_t d, const Action& action) const {
    const size_t replicas = shape_.stages[action.stage.index()].devices.size();
    if (replicas < 2) return true;
    const auto replica = static_cast<size_t>(dependencies_.replica(action.stage, DeviceId(d)));
    return !ir::replica_samples(shape_.micro_batches[action.micro_batch], replica, replicas).empty();
  }

  /// Time of P if the action is the first forward pass of its stage on the device.
  double begin_time(uint32_t d, const Action& action) {
    const size_t stage = action.stage.index();
    if (!ir::is_forward(action.kind) || stage >= costs_.begin.size() || costs_.begin[stage] == 0) return 0;
    if (!has_samples(d, action) || !begun_.insert({d, stage}).second) return 0;
    return in_grains(costs_.begin[stage], options_.grain);
  }

  /// Runs E of a stage on a device that has not yet.
  void complete_gradients(uint32_t d, StageId stage) {
    const size_t s = stage.index();
    if (s >= costs_.gradients.size() || costs_.gradients[s] == 0 || !completed_.insert({d, s}).second) return;
    DeviceState& state = states_[d];
    DeviceTimeline& device = timeline_.devices[d];
    const double time = in_grains(costs_.gradients[s], options_.grain);
    state.clock += time;
    device.busy += time;
    device.last = state.clock;
  }

  double compute_time(uint32_t d, const Action& action) const {
    const size_t stage = action.stage.index();
    if (stage >= costs_.compute.size() || costs_.compute[stage].empty() || !has_samples(d, action)) return 0;
    const ComputeTimes& times =
        costs_.compute[stage][costs_.size_class.empty() ? 0 : costs_.size_class[action.micro_batch]];
    double time = 0;
    for (const ir::Pass pass : ir::traits(action.kind).passes) time += times.*time_of(pass);
    return time;
  }

  /// Processes the immediate effects of the computation that just ended: hand-overs on the same device, and all sends
  /// of compute-only rows.
  void send_results(uint32_t d) {
    DeviceState& state = states_[d];
    state.unsent = false;
    const Action& action = schedule_.rows[d][state.next - 1];
    const double ended = state.clock;
    dependencies_.each_result(DeviceId(d), action, [&](const Message& m, ActionKind kind) {
      if (m.peer.index() == d) {
        messages_.hand_over(m, kind, action.micro_batch, ended);
      } else if (!lowered_) {
        deliver(d, messages_.send(DeviceId(d), m, kind, action.micro_batch, state.clock), m.peer);
      }
    });
  }

  void send(uint32_t d, const Action& action) {
    DeviceState& state = states_[d];
    const double start = state.clock;
    double arrival = start;
    dependencies_.each_message(DeviceId(d), action, [&](const Message& m) {
      arrival = messages_.send(DeviceId(d), m, action.kind, action.micro_batch, start);
      deliver(d, arrival, m.peer);
    });
    note(d, start, arrival);
  }

  /// Runs a send or receive that blocks its device until the message has arrived. Returns false if the other end is not
  /// there yet.
  bool meet(uint32_t d, const Action& action) {
    DeviceState& state = states_[d];
    const bool sends = ir::is_send(action.kind);
    const uint32_t from = sends ? d : action.peer.index(), to = sends ? action.peer.index() : d;
    Meeting& meeting = meetings_[{action.route, action.micro_batch, from, to, ir::is_activation(action.kind)}];
    if (meeting.arrival == kUnknown) {
      if (meeting.offered == kUnknown) {
        meeting.offered = state.clock;
        return false;
      }
      const double start = std::max(meeting.offered, state.clock);
      dependencies_.each_message(DeviceId(d), action, [&](const Message& m) {
        Message sent = m;
        sent.peer = DeviceId(to);
        const ActionKind kind = sends ? action.kind : ir::counterpart(action.kind);
        meeting.arrival = messages_.send(DeviceId(from), sent, kind, action.micro_batch, start);
      });
      wake(action.peer.index(), meeting.arrival);
    }
    note(d, state.clock, meeting.arrival);
    state.clock = meeting.arrival;
    return true;
  }

  void deliver(uint32_t from, double arrival, DeviceId to) {
    if (!options_.overlap) states_[from].clock = std::max(states_[from].clock, arrival);
    wake(to.index(), arrival);
  }

  void wake(uint32_t d, double time) {
    if (!states_[d].waiting) return;
    states_[d].waiting = false;
    queue(std::max(time, states_[d].clock), d);
  }

  /// Whether to look for a period at the end of the action.
  bool watches(uint32_t d, const Action& action) const {
    return watching_ && d == 0 && ir::computes_input_gradient(action.kind);
  }

  Collective& collective(const Action& action) {
    if (ir::is_of_group(action.kind)) return shared_[action.route];
    if (ir::is_gather(action.kind)) return gathers_[action.stage.index()];
    return sum(action.stage, action.micro_batch);
  }

  Collective& sum(StageId stage, uint32_t bucket) {
    std::deque<Collective>& sums = sums_[stage.index()];
    if (bucket >= sums.size()) sums.resize(bucket + 1);
    return sums[bucket];
  }

  double collective_time(const Action& action) const {
    if (is_stage_sum(action)) return in_grains(sum_cost(costs_, action).duration, options_.grain);
    const bool shared = ir::is_of_group(action.kind);
    const std::vector<double>& durations = shared ? costs_.shared : costs_.gather;
    const size_t index = shared ? uint32_t{action.route} : action.stage.index();
    return index < durations.size() ? in_grains(durations[index], options_.grain) : 0;
  }

  /// Runs E of the stages whose gradients the collective reduces.
  void complete_reduced(uint32_t d, const Action& action) {
    if (ir::is_gather(action.kind)) return;
    if (!ir::is_of_group(action.kind)) return complete_gradients(d, action.stage);
    for (const StageId stage : shape_.shared[action.route].stages) {
      if (dependencies_.replica(stage, DeviceId(d)) >= 0) complete_gradients(d, stage);
    }
  }

  void join(uint32_t d, const Action& action) {
    complete_reduced(d, action);
    const uint32_t index = states_[d].next;
    const double clock = states_[d].clock;
    if (options_.blocking) states_[d].held = &collective(action);
    note(d, clock, clock);
    if (!marks_.is_early(d, index)) file(d, index, clock);
  }

  /// Joins sums within the B or W that has started, at their marks.
  void join_early(uint32_t d, double start, const std::vector<uint32_t>& sums) {
    const double end = states_[d].clock;
    for (const uint32_t sum : sums) {
      const double ahead = in_grains(sum_cost(costs_, schedule_.rows[d][sum]).ahead, options_.grain);
      file(d, sum, std::max(start, end - ahead));
    }
  }

  /// Lets a collective proceed at a time: at once, or as an event.
  void file(uint32_t d, uint32_t index, double time) {
    if (!Order::kTimed || time <= now_) return proceed(d, index, time);
    ++filed_;
    order_.push({time, d, index + 1});
  }

  /// The device joins a collective, or begins it once all have joined.
  void proceed(uint32_t d, uint32_t index, double time) {
    const Action& action = schedule_.rows[d][index];
    Collective& c = collective(action);
    if (c.members == 0) c.members = static_cast<uint32_t>(dependencies_.members(action).size());
    if (c.joined == c.members) return begin(action, c, time);
    c.last_join = std::max(c.last_join, time);
    if (++c.joined < c.members) return;
    const bool follows = is_stage_sum(action) && action.micro_batch > 0;
    const double before = follows ? sum(action.stage, action.micro_batch - 1).end : 0;
    if (before != kUnknown) return file(d, index, std::max(c.last_join, before));
    waiting_sums_[{action.stage.index(), action.micro_batch}] = {d, index};
  }

  void begin(const Action& action, Collective& c, double time) {
    const double duration = collective_time(action);
    c.begin = time;
    if (Order::kTimed && !options_.blocking && duration > 0) {
      c.begin = messages_.occupy(dependencies_.members(action), time, duration);
    }
    c.end = c.begin + duration;
    for (const uint32_t waiting : c.waiting) wake(waiting, c.end);
    if (waiting_sums_.empty() || !is_stage_sum(action)) return;
    const auto next = waiting_sums_.find({action.stage.index(), action.micro_batch + 1});
    if (next == waiting_sums_.end()) return;
    const auto [d, index] = next->second;
    waiting_sums_.erase(next);
    file(d, index, std::max(sum(action.stage, action.micro_batch + 1).last_join, c.end));
  }

  /// Under rendezvous a collective blocks its members until it ends. Returns false if it has not ended.
  bool leave(uint32_t d) {
    DeviceState& state = states_[d];
    if (state.held->end == kUnknown) {
      state.held->waiting.push_back(d);
      return wait(state), false;
    }
    state.clock = std::max(state.clock, state.held->end);
    state.held = nullptr;
    return true;
  }

  /// Returns whether the step was taken. Otherwise the device waits or is parked.
  bool step(uint32_t d, const Action& action) {
    DeviceState& state = states_[d];
    complete_gradients(d, action.stage);
    double start = std::max(state.clock, state.reduced);
    Collective* unknown = nullptr;
    dependencies_.each(DeviceId(d), action, [&](const ir::DeviceAction& needed) {
      if (!ir::is_collective(needed.action.kind)) return;
      Collective& c = collective(needed.action);
      start = std::max(start, c.end);
      if (c.end == kUnknown) unknown = &c;
    });
    if (unknown != nullptr) {  // the last one: its stage's other sums end before it
      unknown->waiting.push_back(d);
      return wait(state), false;
    }
    if (options_.step_barrier && !state.parked) {
      state.parked = true;
      return false;
    }
    const size_t stage = action.stage.index();
    occupy(d, start, stage < costs_.step.size() ? in_grains(costs_.step[stage], options_.grain) : 0);
    return true;
  }

  /// Releases the steps of all devices once every device has reached its own.
  void pass_barrier() {
    double barrier = 0;
    for (const DeviceState& state : states_) barrier = std::max(barrier, state.clock);
    barrier = std::max(barrier, last_end(false));
    for (uint32_t d = shape_.devices; d-- > 0;) {
      if (!states_[d].parked) continue;
      states_[d].reduced = barrier;
      queue(barrier, d);
    }
    drain();
  }

  Diagnostic stuck(uint32_t d) const {
    const bool held = states_[d].held != nullptr;
    const Action& action = schedule_.rows[d][states_[d].next - held];
    if (held) return error({}, fmt::format("device {} waits for ever in {}", d, ir::to_string(action)), "S6");
    Diagnostic result = error({}, fmt::format("device {} waits for ever before {}", d, ir::to_string(action)), "S6");
    dependencies_.each(DeviceId(d), action, [&](const ir::DeviceAction& needed) {
      result.notes.push_back(
          {{}, fmt::format("it needs {} on device {}", ir::to_string(needed.action), needed.device.index())});
    });
    return result;
  }

  void finish() {
    double busy = 0;
    uint32_t used = 0;
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      DeviceTimeline& device = timeline_.devices[d];
      if (device.first == kUnknown) device.first = 0;
      timeline_.makespan = std::max(timeline_.makespan, device.last);
      busy += device.busy;
      used += !schedule_.rows[d].empty();
      timeline_.simulated += schedule_.rows[d].size();
      if (options_.memory) device.peak_bytes = ir::row_peak(dependencies_, schedule_, DeviceId(d));
      if (options_.spans && lowered_) finish_spans(d);
    }
    timeline_.makespan = std::max(timeline_.makespan, last_end(true));
    const double area = timeline_.makespan * used;
    timeline_.bubble = area > 0 ? std::max(0.0, 1 - busy / area) : 0;
    timeline_.simulated -= skipped_;
    timeline_.period = middle_period();
  }

  /// End of the last collective that has begun.
  double last_end(bool with_gathers) const {
    double last = 0;
    const auto add = [&](const Collective& c) {
      if (c.end != kUnknown) last = std::max(last, c.end);
    };
    for (const auto& sums : sums_) std::for_each(sums.begin(), sums.end(), add);
    std::for_each(shared_.begin(), shared_.end(), add);
    if (with_gathers) std::for_each(gathers_.begin(), gathers_.end(), add);
    return last;
  }

  void finish_spans(uint32_t d) {
    for (size_t i = 0; i < schedule_.rows[d].size(); ++i) {
      const Action& action = schedule_.rows[d][i];
      Span& span = timeline_.spans[d][i];
      if (ir::is_receive(action.kind) && !options_.blocking) {
        dependencies_.each_message(DeviceId(d), action, [&](const Message& m) {
          span.end = std::max(span.start, messages_.arrival_of(m, action.kind, action.micro_batch));
        });
      } else if (ir::is_collective(action.kind)) {
        const Collective& c = collective(action);
        span = {c.begin, c.end};
      }
    }
  }

  double middle_period() const {
    const uint32_t m = shape_.micro_batch_count();
    if (!options_.spans || m == 0) return m == 0 ? 0 : timeline_.makespan / m;
    const uint32_t first = m / 4, last = m - 1 - m / 4;
    return first < last ? period_between(schedule_, timeline_, first, last) : timeline_.makespan / m;
  }

  const ir::PipelineShape& shape_;
  const ir::Schedule& schedule_;
  const ScheduleCosts& costs_;
  const SimulationOptions& options_;
  const ir::Dependencies dependencies_;
  const bool lowered_;
  Messages messages_;
  Order order_;
  std::vector<DeviceState> states_;
  SumMarks marks_;
  using Bucket = std::pair<uint32_t, uint32_t>;  ///< of a stage
  std::vector<std::deque<Collective>> sums_;     ///< AR or SC, by stage and bucket
  std::vector<Collective> shared_, gathers_;     ///< RS by group, AG by stage
  /// Sums that all have joined but that still wait for the one before: a member and the place in its row.
  std::map<Bucket, std::pair<uint32_t, uint32_t>> waiting_sums_;
  /// By route, micro-batch, sender, receiver, and whether it is an activation.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, bool>, Meeting> meetings_;
  std::set<std::pair<uint32_t, size_t>> begun_, completed_;  ///< device and stage: whose P ran, whose E ran
  Timeline timeline_;
  double now_ = 0;
  size_t filed_ = 0;  ///< events of collectives that are still to come
  const bool watching_;
  uint32_t done_ = kNoAction;  ///< micro-batch of the backward pass that the first device has just ended
  Standings standings_;
  uint64_t skipped_ = 0;
};

}  // namespace

Result<Timeline> simulate(const ir::PipelineShape& shape, const ir::Schedule& schedule, const ScheduleCosts& costs,
                          const SimulationOptions& options) {
  if (schedule.rows.size() != shape.devices) {
    return error({}, fmt::format("{} rows for {} devices", schedule.rows.size(), shape.devices), "S3");
  }
  if (options.blocking && !schedule.lowered) {
    return error("compute-only rows have no sends that could block; lower the schedule first");
  }
  if (options.skip_periods && (!options.contention || options.spans || options.blocking)) {
    return error("periods can only be skipped with contention, without spans and without blocking");
  }
  if (options.contention) return Engine<TimeOrder>(shape, schedule, costs, options).run();
  return Engine<AnyOrder>(shape, schedule, costs, options).run();
}

}  // namespace rannc::partition
