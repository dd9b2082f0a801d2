// Sums operators per thread while an action runs, then adds the sums to the action's device.
#include "tools/measure/step_profile.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/base/stopwatch.h"
#include "ir/op/op.h"
#include "runtime/engine/operator_origin.h"
#include "tools/measure/memory_gauge.h"
#include "tools/measure/product_work.h"
#include "tools/measure/timed_calls.h"

namespace rannc::tools {

namespace {

using ir::ActionKind;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Times are ns.
struct TaskTime {
  double forward = 0, backward = 0, flops = 0;
  TaskTime& operator+=(const TaskTime& other) {
    forward += other.forward, backward += other.backward, flops += other.flops;
    return *this;
  }
};

// Sums of one thread during one action.
struct Operators {
  double products = 0, others = 0, nodes = 0;  // self times of operators, and of the backward nodes around them
  double counting = 0, outer = 0, outer_allocation = 0;
  double flops = 0, at_full_rate = 0;  // of products; their time at the machine's rate
  std::map<TaskId, TaskTime> tasks;
  double without_task = 0;
  double calls = 0, calls_without_task = 0;
};

// Operations per second by element type; 0: not measured. Written before any thread is profiled.
std::array<double, static_cast<size_t>(at::ScalarType::NumOptions)> rates{};

// The current position of a thread.
struct Place {
  Operators operators;
  uint32_t nodes = 0, calls = 0;  // nesting depth in backward nodes; in operators
  std::optional<TaskId> forward, backward;
  bool explicit_backward = false;                        // a task of a backward function runs
  std::unordered_map<int64_t, TaskId> task_of_sequence;  // by the sequence number that a node shares with its operator
  uint64_t step = 0;                                     // step that `task_of_sequence` belongs to
  int64_t start_allocation_ns = 0;
  int64_t own_ns = 0;  // overhead of `started`
  int64_t start_faults = 0;
  uint64_t start_allocations = 0, start_bytes = 0;

  void note(const std::optional<runtime::RunningTask>& running) {
    explicit_backward = running && running->backward;
    forward = running && !running->backward ? std::optional(running->task) : std::nullopt;
    if (explicit_backward) backward = running->task;
  }
  bool in_backward() const { return nodes > 0 || explicit_backward; }
};
thread_local Place place;
std::atomic<uint64_t> step_number{0};

struct Sink {
  struct Note {
    bool node = false, product = false;
    double flops = 0, rate = 0;
  };

  static void begin(const at::RecordFunction& function, Note& note) {
    const std::string_view name = function.name();
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      // Nodes that accumulate gradients have no operator's number. They follow the node whose gradient they add.
      const auto found = place.task_of_sequence.find(function.seqNr());
      if (found != place.task_of_sequence.end()) {
        place.backward = found->second;
      } else if (name.find("AccumulateGrad") == name.npos) {
        place.backward.reset();
      }
    }
    note.node = function.scope() == at::RecordScope::BACKWARD_FUNCTION || name.starts_with("autograd::");
    if (note.node) {
      ++place.nodes;
      return;
    }
    if (place.calls++ == 0 && place.nodes == 0) place.note(runtime::running_task());
    // Operators without a node have the number of the next operator with one, which runs later.
    if (place.nodes == 0 && place.forward && function.seqNr() >= 0)
      place.task_of_sequence.insert_or_assign(function.seqNr(), *place.forward);
    note.product = is_product(name);
    if (!note.product) return;
    note.flops = product_flops(function);
    if (note.flops > 0) note.rate = rates[static_cast<size_t>(function.inputs()[0].toTensor().scalar_type())];
  }

  static int64_t aside_ns() { return MemoryGauge::effort().ns; }

  static void end(const at::RecordFunction&, const Note& note, int64_t own_ns) {
    const auto own = static_cast<double>(own_ns);
    if (note.node) {
      --place.nodes;
      place.operators.nodes += own;
      return;
    }
    --place.calls;
    (note.product ? place.operators.products : place.operators.others) += own;
    place.operators.flops += note.flops;
    if (note.rate > 0) place.operators.at_full_rate += note.flops / note.rate * 1e9;
    ++place.operators.calls;
    const std::optional<TaskId>& task = place.in_backward() ? place.backward : place.forward;
    if (!task) {
      place.operators.without_task += own;
      ++place.operators.calls_without_task;
      return;
    }
    TaskTime& time = place.operators.tasks[*task];
    (place.in_backward() ? time.backward : time.forward) += own;
    time.flops += note.flops;
  }

  static void counted(const CountedCall& call) {
    place.operators.counting += static_cast<double>(call.counting_ns);
    place.operators.outer += static_cast<double>(call.outer_ns);
    place.operators.outer_allocation += static_cast<double>(call.outer_aside_ns);
  }
};

// Page faults of this thread.
int64_t page_faults() {
#ifdef RUSAGE_THREAD
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
#else
  return 0;
#endif
}

struct DeviceTime {
  std::map<std::string, double> parts;
  double flops = 0, at_full_rate = 0, allocations = 0, allocated_bytes = 0, page_faults = 0;
  int64_t last_ns = 0;     // time of its last event in this step
  bool ended_row = false;  // the next action waits for the norm of all devices

  void add(const DeviceTime& other) {
    for (const auto& [name, ns] : other.parts) parts[name] += ns;
    flops += other.flops, at_full_rate += other.at_full_rate;
    allocations += other.allocations, allocated_bytes += other.allocated_bytes, page_faults += other.page_faults;
  }
};

struct Counted {
  std::map<DeviceId, DeviceTime> devices;
  std::map<TaskId, TaskTime> tasks;
  double without_task = 0;
  double calls = 0, calls_without_task = 0;  // number of operator calls
};

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// Like profiles of tasks: with one thread the processor time, which excludes other programs.
double ran_ns() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

void measure_rate(at::ScalarType type) {
  const int64_t side = at::elementSize(type) < 4 ? 512 : 1024;
  const at::Tensor square = at::ones({side, side}, type);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double start_ns = ran_ns();
    at::mm(square, square);
    const double ns = ran_ns() - start_ns;
    best = i == 0 ? ns : std::min(best, ns);
  }
  const auto edge = static_cast<double>(side);
  rates[static_cast<size_t>(type)] = 2 * edge * edge * edge / best * 1e9;
}

}  // namespace

struct StepProfile::State {
  State(const ir::Plan& plan, runtime::Observer& next) : plan(plan), next(next) {}

  const ir::Plan& plan;
  runtime::Observer& next;
  std::optional<TimedCalls<Sink>> calls;  // set while a step is profiled
  std::mutex mutex;
  Counted now, all;  // of the current step; of all profiled steps
  uint64_t seen = 0;
  int64_t start_ns = 0;
  std::vector<double> followed_ns, plain_ns;

  bool follows() const { return calls.has_value(); }

  // Books the time since the device's last event as interpreting its row or as waiting for other devices.
  // `own_ns` is the overhead of the profile in it.
  void pass(DeviceTime& time, int64_t until_ns, int64_t own_ns, bool within_row) {
    const int64_t since = (time.last_ns == 0 ? start_ns : time.last_ns) + own_ns;
    time.parts["profiling"] += static_cast<double>(own_ns);
    const bool waits = time.last_ns != 0 && !within_row && plan.devices.size() > 1;
    time.parts[waits ? "waiting" : "around"] += static_cast<double>(until_ns - since);
  }

  // Books what a sum takes behind the device's last event; before that, it ran while the device computed.
  void pass_sum(DeviceTime& time, const runtime::ActionRecord& sum, const Stopwatch& booking) {
    const int64_t last = time.last_ns == 0 ? start_ns : time.last_ns;
    if (sum.end_ns <= last) return;
    const int64_t since = std::max(sum.start_ns, last), waited = std::min(sum.end_ns - since, sum.waited_ns);
    pass(time, since, 0, /*within_row=*/!time.ended_row);
    time.ended_row = false;
    time.parts["waiting"] += static_cast<double>(waited);
    time.parts["messages"] += static_cast<double>(sum.end_ns - since - waited);
    leave(time, sum.end_ns, booking);
  }

  // Ends the booking; the device continues from here.
  static void leave(DeviceTime& time, int64_t end_ns, const Stopwatch& booking) {
    const int64_t own_ns = booking.nanoseconds();
    time.parts["profiling"] += static_cast<double>(own_ns);
    time.last_ns = end_ns + own_ns;
  }

  // Books this thread's allocations and profiling overhead since `started`. Returns the allocation time.
  double book_asides(DeviceTime& time) {
    const MemoryGauge::Effort effort = MemoryGauge::effort();
    const auto allocation = static_cast<double>(effort.ns - place.start_allocation_ns);
    time.allocations += static_cast<double>(effort.allocations - place.start_allocations);
    time.allocated_bytes += static_cast<double>(effort.bytes - place.start_bytes);
    time.page_faults += static_cast<double>(page_faults() - place.start_faults);
    time.parts["allocation"] += allocation;
    time.parts["profiling"] += place.operators.counting;
    return allocation;
  }

  void book_pass(DeviceTime& time, ActionKind kind, double ran) {
    const Operators& own = place.operators;
    const double allocation = book_asides(time);
    const bool forward = !ir::computes_input_gradient(kind) && !ir::adds_weight_gradient(kind);
    time.parts["products"] += own.products;
    time.parts["operators"] += own.others;
    time.parts[forward ? "tape_forward" : "tape_backward"] +=
        own.nodes + ran - own.outer - (allocation - own.outer_allocation);
    time.flops += own.flops, time.at_full_rate += own.at_full_rate;
    for (const auto& [task, spent] : own.tasks) now.tasks[task] += spent;
    now.without_task += own.without_task;
    now.calls += own.calls, now.calls_without_task += own.calls_without_task;
  }
};

StepProfile::StepProfile(const ir::Plan& plan, runtime::Observer& next) : state_(new State(plan, next)) {
  measure_rate(at::kFloat);
  for (const ValueId value : plan.graph.values()) {
    if (plan.graph.kind(value) != ir::ValueKind::kParameter) continue;
    const ir::DType type = plan.graph.type(value).dtype;
    const at::ScalarType found = type == ir::DType::kF64    ? at::kDouble
                                 : type == ir::DType::kBF16 ? at::kBFloat16
                                 : type == ir::DType::kF16  ? at::kHalf
                                                            : at::kFloat;
    if (rates[static_cast<size_t>(found)] == 0) measure_rate(found);
  }
}
StepProfile::~StepProfile() = default;

void StepProfile::begin_step() {
  state_->now = {};
  ++step_number;
  if (state_->seen >= kWarmUp && (state_->seen - kWarmUp) % 2 == 0) {
    MemoryGauge::count_efforts(true);
    state_->calls.emplace();
  }
  state_->start_ns = now_ns();
}

void StepProfile::end_step() {
  const int64_t end_ns = now_ns();
  const auto wall = static_cast<double>(end_ns - state_->start_ns);
  const bool followed = state_->follows();
  state_->calls.reset();
  MemoryGauge::count_efforts(false);
  if (state_->seen++ < kWarmUp) return;
  (followed ? state_->followed_ns : state_->plain_ns).push_back(wall);
  if (!followed) return;
  const std::lock_guard lock(state_->mutex);
  for (auto& [device, time] : state_->now.devices) {
    state_->pass(time, end_ns, 0, /*within_row=*/false);
    state_->all.devices[device].add(time);
  }
  for (const auto& [task, time] : state_->now.tasks) state_->all.tasks[task] += time;
  state_->all.without_task += state_->now.without_task;
  state_->all.calls += state_->now.calls, state_->all.calls_without_task += state_->now.calls_without_task;
}

void StepProfile::started(DeviceId device) {
  state_->next.started(device);
  if (!state_->follows()) return;
  const Stopwatch watch;
  const uint64_t step = step_number.load();
  if (place.step != step) place.task_of_sequence.clear();
  place.step = step;
  place.operators = {};
  const MemoryGauge::Effort effort = MemoryGauge::effort();
  place.start_allocation_ns = effort.ns;
  place.start_allocations = effort.allocations, place.start_bytes = effort.bytes;
  place.start_faults = page_faults();
  place.own_ns = watch.nanoseconds();
}

void StepProfile::finished(const runtime::ActionRecord& record) {
  if (state_->follows()) {
    const Stopwatch watch;
    const std::lock_guard lock(state_->mutex);
    DeviceTime& time = state_->now.devices[record.device];
    if (ir::is_reduction(record.action.kind)) {
      state_->pass_sum(time, record, watch);
      return state_->next.finished(record);
    }
    state_->pass(time, record.start_ns, place.own_ns, /*within_row=*/!time.ended_row);
    time.ended_row = false;
    time.parts["waiting"] += static_cast<double>(record.waited_ns);
    const auto ran = static_cast<double>(record.end_ns - record.start_ns - record.waited_ns);
    const ActionKind kind = record.action.kind;
    if (ir::is_compute(kind)) {
      state_->book_pass(time, kind, ran);
    } else {
      const double allocation = state_->book_asides(time);
      time.parts[ir::is_update(kind) ? "optimizer" : "messages"] += ran - allocation - place.operators.counting;
    }
    state_->leave(time, record.end_ns, watch);
  }
  state_->next.finished(record);
}

void StepProfile::clipped(DeviceId device, int64_t start_ns, int64_t end_ns) {
  if (state_->follows()) {
    const Stopwatch watch;
    const std::lock_guard lock(state_->mutex);
    DeviceTime& time = state_->now.devices[device];
    state_->pass(time, start_ns, place.own_ns, /*within_row=*/false);
    time.ended_row = true;
    const double allocation = state_->book_asides(time);
    time.parts["optimizer"] += static_cast<double>(end_ns - start_ns) - allocation - place.operators.counting;
    state_->leave(time, end_ns, watch);
  }
  state_->next.clipped(device, start_ns, end_ns);
}

nlohmann::json StepProfile::part() const {
  const std::lock_guard lock(state_->mutex);
  const auto steps = static_cast<double>(std::max<size_t>(1, state_->followed_ns.size()));
  double wall = 0;
  for (const double ns : state_->followed_ns) wall += ns / steps;
  nlohmann::json devices = nlohmann::json::array(), tasks = nlohmann::json::array();
  for (const auto& [device, time] : state_->all.devices) {
    nlohmann::json parts = nlohmann::json::object();
    for (const auto& [name, ns] : time.parts) parts[name] = ns / steps;
    devices.push_back({{"device", device.index()},
                       {"wall_ns", wall},
                       {"parts", parts},
                       {"product_flops", time.flops / steps},
                       {"products_at_full_rate_ns", time.at_full_rate / steps},
                       {"allocations", time.allocations / steps},
                       {"allocated_bytes", time.allocated_bytes / steps},
                       {"page_faults", time.page_faults / steps}});
  }
  const ir::Graph& graph = state_->plan.graph;
  for (const auto& [task, time] : state_->all.tasks) {
    const Location where = graph.location(task);
    tasks.push_back({{"task", task.index()},
                     {"name", where.node.empty() ? where.str() : where.node},
                     {"operator", graph.op(task).name},
                     {"forward_ns", time.forward / steps},
                     {"backward_ns", time.backward / steps},
                     {"flops", time.flops / steps}});
  }
  return {{"steps", state_->followed_ns.size()},
          {"step_ns", median(state_->followed_ns)},
          {"step_without_profile_ns", median(state_->plain_ns)},
          {"flops_per_second", rates[static_cast<size_t>(at::kFloat)]},
          {"devices", devices},
          {"tasks", tasks},
          {"without_task_ns", state_->all.without_task / steps},
          {"operators", state_->all.calls / steps},
          {"operators_without_task", state_->all.calls_without_task / steps}};
}

}  // namespace rannc::tools
