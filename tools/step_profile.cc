// Sums operators per thread while an action runs, then books them on the action's device.
#include "tools/step_profile.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "ir/op.h"
#include "ir/stopwatch.h"

namespace rannc::tools {

namespace {

using ir::ActionKind;

struct TaskTime {
  double forward = 0, backward = 0;
};

// Of one thread since it was last asked. Times are ns.
struct Sums {
  double heavy = 0, rated = 0, other = 0, flops = 0;
  std::map<uint32_t, TaskTime> tasks;
};

constexpr uint32_t kNoTask = std::numeric_limits<uint32_t>::max();
constexpr std::array<std::string_view, 12> kHeavy = {"matmul", "linear", "addmm", "bmm",    "conv",     "attention",
                                                     "lstm",   "gru",    "rnn",   "einsum", "aten::mm", "aten::dot"};

double rate = 0;  // of this process, flop/s
thread_local Sums sums;
thread_local uint32_t depth = 0;  // of operators
thread_local uint32_t task_now = kNoTask, task_of_node = kNoTask;
thread_local std::map<std::pair<uint64_t, int64_t>, uint32_t> task_of_sequence;

// Programs have a comment `# #<task> …` above the statements of each task.
uint32_t task_of_call() {
  const auto stack = torch::jit::currentCallstack();
  if (stack.empty()) return kNoTask;
  const auto origin = stack.front().range.findSourceRangeThatGenerated();
  const torch::jit::SourceRange range = origin ? *origin : stack.front().range;
  if (!range.source()) return kNoTask;
  const std::string before = range.source()->text_str().str().substr(0, range.start());
  const size_t at = before.rfind("\n    # #");
  return at == std::string::npos ? kNoTask : static_cast<uint32_t>(std::strtoul(before.c_str() + at + 8, nullptr, 10));
}

struct Call : at::ObserverContext {
  Stopwatch watch;
  uint64_t flops = 0;
  bool outermost = false;
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    const auto found = task_of_sequence.find({function.forwardThreadId(), function.seqNr()});
    task_of_node = found == task_of_sequence.end() ? kNoTask : found->second;
    return nullptr;
  }
  auto call = std::make_unique<Call>();
  call->outermost = depth++ == 0;
  if (call->outermost) task_now = task_of_call();
  if (task_now != kNoTask && function.seqNr() >= 0)
    task_of_sequence[{at::RecordFunction::currentThreadId(), function.seqNr()}] = task_now;
  call->flops = torch::profiler::impl::computeFlops(function.name(), torch::profiler::impl::saveExtraArgs(function));
  call->watch = Stopwatch();
  return call;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    task_of_node = kNoTask;
    return;
  }
  auto* call = static_cast<Call*>(context);
  if (call == nullptr) return;
  --depth;
  const double ns = call->watch.seconds() * 1e9;
  if (call->flops > 0) sums.flops += static_cast<double>(call->flops), sums.rated += ns;
  if (!call->outermost) return;
  const std::string_view name = function.name();
  const bool heavy = std::any_of(kHeavy.begin(), kHeavy.end(),
                                 [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
  (heavy ? sums.heavy : sums.other) += ns;
  if (task_now != kNoTask) sums.tasks[task_now].forward += ns;
  if (task_now == kNoTask && task_of_node != kNoTask) sums.tasks[task_of_node].backward += ns;
}

struct DeviceTime {
  double heavy = 0, rated = 0, other = 0, flops = 0, tape = 0, optimizer = 0, waiting = 0, messages = 0;
};

struct Counted {
  std::map<uint32_t, DeviceTime> devices;
  std::map<uint32_t, TaskTime> tasks;
};

constexpr std::array<const char*, 7> kParts = {"heavy",   "other",    "tape",       "optimizer",
                                               "waiting", "messages", "unaccounted"};

}  // namespace

struct StepProfile::State {
  runtime::Observer& next;
  std::mutex mutex;
  Counted now, all;  // of the step that runs; of the counted ones
  uint64_t seen = 0, steps = 0;
  double wall = 0;
};

void StepProfile::install() {
  const at::Tensor square = at::rand({1024, 1024});
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    at::mm(square, square);
    best = std::min(best, watch.seconds());
  }
  rate = 2.0 * 1024 * 1024 * 1024 / best;
  at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

StepProfile::StepProfile(runtime::Observer& next) : state_(new State{.next = next}) {}
StepProfile::~StepProfile() = default;

void StepProfile::finished(const runtime::ActionRecord& record) {
  const Sums own = std::exchange(sums, {});
  {
    const std::lock_guard lock(state_->mutex);
    DeviceTime& device = state_->now.devices[record.device.index()];
    const double wall = static_cast<double>(record.end_ns - record.start_ns);
    const double waited = std::min(wall, static_cast<double>(record.waited_ns));
    device.waiting += waited;
    const ActionKind kind = record.action.kind;
    if (kind == ActionKind::kStep) {
      device.optimizer += wall - waited;
    } else if (kind <= ActionKind::kRecompute) {
      device.heavy += own.heavy, device.other += own.other, device.flops += own.flops, device.rated += own.rated;
      device.tape += wall - waited - own.heavy - own.other;
      for (const auto& [task, time] : own.tasks) {
        TaskTime& sum = state_->now.tasks[task];
        sum.forward += time.forward, sum.backward += time.backward;
      }
    } else {
      device.messages += wall - waited;
    }
  }
  state_->next.finished(record);
}

void StepProfile::end_step(double wall_ns) {
  sums = {};  // of this thread, which feeds and clips: part of what is unaccounted
  const std::lock_guard lock(state_->mutex);
  const Counted now = std::exchange(state_->now, {});
  if (state_->seen++ < kWarmUp) return;
  ++state_->steps;
  state_->wall += wall_ns;
  for (const auto& [index, time] : now.devices) {
    DeviceTime& sum = state_->all.devices[index];
    sum.heavy += time.heavy, sum.rated += time.rated, sum.other += time.other, sum.flops += time.flops;
    sum.tape += time.tape, sum.optimizer += time.optimizer, sum.waiting += time.waiting, sum.messages += time.messages;
  }
  for (const auto& [task, time] : now.tasks) {
    TaskTime& sum = state_->all.tasks[task];
    sum.forward += time.forward, sum.backward += time.backward;
  }
}

nlohmann::json StepProfile::part(const ir::Plan& plan) const {
  const std::lock_guard lock(state_->mutex);
  nlohmann::json part = {
      {"steps", state_->steps}, {"devices", nlohmann::json::array()}, {"tasks", nlohmann::json::array()}};
  const auto n = static_cast<double>(std::max<uint64_t>(1, state_->steps));
  for (const auto& [index, time] : state_->all.devices) {
    const double known = time.heavy + time.other + time.tape + time.optimizer + time.waiting + time.messages;
    part["devices"].push_back({{"device", index},
                               {"wall", state_->wall / n},
                               {"heavy", time.heavy / n},
                               {"other", time.other / n},
                               {"tape", time.tape / n},
                               {"optimizer", time.optimizer / n},
                               {"waiting", time.waiting / n},
                               {"messages", time.messages / n},
                               {"unaccounted", (state_->wall - known) / n},
                               {"machine_flops", rate},
                               {"flops", time.rated > 0 ? time.flops / time.rated * 1e9 : 0}});
  }
  for (const auto& [id, time] : state_->all.tasks) {
    const ir::Graph::Task task = plan.graph.task(TaskId(id));
    part["tasks"].push_back({{"task", id},
                             {"name", task.location.str()},
                             {"operator", task.op->name},
                             {"forward", time.forward / n},
                             {"backward", time.backward / n}});
  }
  return part;
}

std::string profile_text(const nlohmann::json& parts, size_t tasks) {
  std::string text;
  std::vector<nlohmann::json> all;
  double wall = 0;
  for (const nlohmann::json& part : parts) {
    for (const nlohmann::json& device : part.at("devices")) {
      const double whole = device.at("wall");
      wall += whole;
      text += fmt::format("device {}: {:.2f} ms a step, mean of {}\n", device.at("device").get<uint32_t>(), whole / 1e6,
                          part.at("steps").get<uint64_t>());
      for (const char* name : kParts) {
        const double ns = device.at(name);
        text += fmt::format("  {:<12}{:>10.2f} ms {:>6.1f} %", name, ns / 1e6, 100 * ns / whole);
        const double flops = device.at("flops"), machine = device.at("machine_flops");
        if (std::string_view(name) == "heavy" && flops > 0)
          text +=
              fmt::format("  products at {:.1f} Gflop/s, {:.0f} % of a large one", flops / 1e9, 100 * flops / machine);
        text += "\n";
      }
    }
    for (const nlohmann::json& task : part.at("tasks")) all.push_back(task);
  }
  if (all.empty()) return text;
  const auto sum = [](const nlohmann::json& task) {
    return task.at("forward").get<double>() + task.at("backward").get<double>();
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return sum(a) > sum(b); });
  text += fmt::format("{:>12} {:>12} {:>7}  task\n", "forward ms", "backward ms", "share");
  for (size_t i = 0; i < std::min(tasks, all.size()); ++i) {
    text += fmt::format("{:>12.3f} {:>12.3f} {:>5.1f} %  {} {}\n", all[i].at("forward").get<double>() / 1e6,
                        all[i].at("backward").get<double>() / 1e6, 100 * sum(all[i]) / wall,
                        all[i].at("operator").get<std::string>(), all[i].at("name").get<std::string>());
  }
  return text;
}

}  // namespace rannc::tools
