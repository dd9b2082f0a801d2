#include "runtime/measure/measure_tasks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/graph/memory_format.h"
#include "ir/plan/plan.h"
#include "runtime/aten/torch_types.h"
#include "runtime/engine/allocation_meter.h"
#include "runtime/measure/internal/pass_clock.h"
#include "runtime/measure/internal/task_run.h"

namespace rannc::runtime {

namespace {

/// Returns the lower quartile, because other programs that share the caches can only add time.
double typical(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto at = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 4);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

/// Bytes that a run allocates, since the construction of the meter.
class RunMeter {
 public:
  explicit RunMeter(Device* device) : device_(device) {
    if (device_ == nullptr) {
      thread_.emplace();
      return;
    }
    before_ = device_->live_bytes();
    restart();
  }
  int64_t live_bytes() const { return device_ != nullptr ? since(device_->live_bytes()) : thread_->live_bytes(); }
  /// Since the last `restart`.
  int64_t peak_bytes() const { return device_ != nullptr ? since(device_->peak_bytes()) : thread_->peak_bytes(); }
  void restart() { device_ != nullptr ? device_->restart_peak() : thread_->restart(); }

 private:
  int64_t since(uint64_t bytes) const { return static_cast<int64_t>(bytes) - static_cast<int64_t>(before_); }

  Device* const device_;
  std::optional<AllocationMeter> thread_;
  uint64_t before_ = 0;
};

/// Measures bytes with one additional pass of each kind.
Result<void> weigh(TaskRun& run, Device* device, TaskTimes& times) {
  RunMeter meter(device);
  RANNC_ASSIGN(TaskRun::Forward made, run.forward());
  times.temporary_bytes = static_cast<double>(meter.peak_bytes() - meter.live_bytes());
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    if (!run.seeded()[i]) made.outputs[i] = at::Tensor();
  }
  times.held_bytes = static_cast<double>(std::max<int64_t>(0, meter.live_bytes()));
  if (!run.has_backward()) return {};
  meter.restart();
  const int64_t before = meter.live_bytes();
  RANNC_TRY(run.backward(std::move(made.saved)));
  RANNC_TRY(run.end());
  times.temporary_bytes = std::max(times.temporary_bytes, static_cast<double>(meter.peak_bytes() - before));
  return {};
}

/// Runs all functions once. If `apart`, I and W also run separately.
Result<void> run_pass(TaskRun& run, bool apart, bool first, PassClock& clock) {
  Result<void> done;
  if (run.has_begin()) {
    clock.time(PassPart::kBegin, [&] { done = run.begin(); });
    RANNC_TRY(done);
  }
  Result<TaskRun::Forward> made = TaskRun::Forward{};
  clock.time(PassPart::kForward, [&] { made = run.forward(); });
  RANNC_TRY(made);
  if (!run.has_backward()) return {};
  if (first) run.prepare(*made);
  if (!apart && run.has_rebuild()) {
    clock.time(PassPart::kRebuild, [&] { done = run.rebuild(); });
    RANNC_TRY(done);
  }
  if (apart && run.has_input() && run.has_weight()) {
    Result<TaskRun::Tensors> pending = TaskRun::Tensors{};
    clock.time(PassPart::kInput, [&] { pending = run.input(made->saved); });
    RANNC_TRY(pending);
    clock.time(PassPart::kWeight, [&] { done = run.weight(*std::move(pending)); });
    RANNC_TRY(done);
    RANNC_TRY(run.end());
  }
  clock.time(PassPart::kBackward, [&] { done = run.backward(std::move(made->saved)); });
  RANNC_TRY(done);
  if (!run.has_end()) return {};
  clock.time(PassPart::kEnd, [&] { done = run.end(); });
  return done;
}

Result<TaskTimes> run_all(TaskRun& run, bool apart, const TaskRunOptions& options) {
  const auto clock =
      options.device != nullptr ? device_timer(*options.device, options.repeat) : processor_clock(options.repeat);
  bool first = true;
  while (clock->next_pass()) RANNC_TRY(run_pass(run, apart, std::exchange(first, false), *clock));
  PartTimes counted = clock->times();
  const auto of = [&](PassPart part) { return typical(std::move(counted[static_cast<size_t>(part)])); };
  TaskTimes times;
  times.begin_ns = of(PassPart::kBegin);
  times.gradients_ns = of(PassPart::kEnd);
  times.rebuild_ns = of(PassPart::kRebuild);
  if (!apart) times.rebuilt = run.rebuilt();
  times.forward_ns = of(PassPart::kForward);
  times.backward_ns = of(PassPart::kBackward);
  times.input_gradient_ns = of(PassPart::kInput);
  times.weight_gradient_ns = of(PassPart::kWeight);
  if (apart && times.input_gradient_ns == 0) {
    (run.has_input() ? times.input_gradient_ns : times.weight_gradient_ns) = times.backward_ns;
  }
  RANNC_TRY(weigh(run, options.device, times));
  return times;
}

}  // namespace

GraphFacts::GraphFacts(const ir::Graph& graph)
    : needs_gradient(ir::needs_gradient(graph)),
      roles(ir::gradient_roles(graph, needs_gradient)),
      channels_last(ir::channels_last(graph)) {}

Result<TaskTimes> measure_tasks(const ir::Graph& graph, std::span<const TaskId> tasks, const GraphFacts& facts,
                                const ir::Bindings& bindings, const TaskRunOptions& options) {
  const auto refused = [&](const char* what) {
    return error(graph.location(tasks.front()), std::string("cannot be measured: ") + what);
  };
  try {
    const auto scope = options.device != nullptr ? options.device->enter(Stream::kCompute) : nullptr;
    RANNC_ASSIGN(const auto run, TaskRun::build(graph, tasks, facts, bindings, options));
    auto times = run_all(*run, tasks.size() == 1, options);
    return times.ok() ? times : refused(times.diagnostic().message.c_str());
  } catch (const c10::Error& failure) {
    return refused(failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return refused(failure.what());
  }
}

std::string library_version() { return fmt::format("libtorch {}", TORCH_VERSION); }

}  // namespace rannc::runtime
