#include "codegen/measure.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <ctime>

#include "codegen/internal/task_run.h"
#include "ir/graph/memory_format.h"
#include "ir/plan/plan.h"
#include "runtime/aten/torch_types.h"
#include "runtime/engine/allocation_meter.h"

namespace rannc::codegen {

namespace {

constexpr uint32_t kWarmUps = 2;
constexpr uint32_t kMostRuns = 40;
constexpr double kEnoughNs = 8e6;  // total time of counted runs after which to stop

/// Returns the lower quartile, because other programs that share the caches can only add time.
double typical(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto at = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 4);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

/// Returns the thread's CPU time if there is one thread, so that other programs do not count. Otherwise wall time.
double now_ns() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

/// Calls `body` and, if `counted`, adds its time to `times`.
template <class Body>
void timed(bool counted, std::vector<double>& times, double& total, Body&& body) {
  const double start = now_ns();
  body();
  const double elapsed = now_ns() - start;
  if (!counted) return;
  times.push_back(elapsed);
  total += elapsed;
}

/// Measures bytes with one additional pass of each kind.
Result<void> weigh(TaskRun& run, RunTimes& times) {
  runtime::AllocationMeter meter;
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

Result<RunTimes> run_all(TaskRun& run, bool apart, const RunOptions& options) {
  std::vector<double> begin, forward, input_gradient, weight_gradient, together, end, rebuild;
  double total = 0;
  for (uint32_t i = 0; i < std::max(kMostRuns, kWarmUps + options.repeat); ++i) {
    if (i >= kWarmUps + options.repeat && total >= kEnoughNs) break;
    const bool counted = i >= kWarmUps;
    if (run.has_begin()) {
      Result<void> begun;
      timed(counted, begin, total, [&] { begun = run.begin(); });
      RANNC_TRY(begun);
    }
    Result<TaskRun::Forward> made = TaskRun::Forward{};
    timed(counted, forward, total, [&] { made = run.forward(); });
    RANNC_TRY(made);
    if (!run.has_backward()) continue;
    if (i == 0) run.prepare(*made);
    Result<void> done;
    if (!apart && run.has_rebuild()) {
      timed(counted, rebuild, total, [&] { done = run.rebuild(); });
      RANNC_TRY(done);
    }
    if (apart && run.has_input() && run.has_weight()) {
      Result<TaskRun::Tensors> pending = TaskRun::Tensors{};
      timed(counted, input_gradient, total, [&] { pending = run.input(made->saved); });
      RANNC_TRY(pending);
      timed(counted, weight_gradient, total, [&] { done = run.weight(*std::move(pending)); });
      RANNC_TRY(done);
      RANNC_TRY(run.end());
    }
    timed(counted, together, total, [&] { done = run.backward(std::move(made->saved)); });
    RANNC_TRY(done);
    if (!run.has_end()) continue;
    timed(counted, end, total, [&] { done = run.end(); });
    RANNC_TRY(done);
  }
  RunTimes times;
  times.begin_ns = typical(std::move(begin));
  times.gradients_ns = typical(std::move(end));
  times.rebuild_ns = typical(std::move(rebuild));
  if (!apart) times.rebuilt = run.rebuilt();
  times.forward_ns = typical(std::move(forward));
  times.backward_ns = typical(std::move(together));
  times.input_gradient_ns = typical(std::move(input_gradient));
  times.weight_gradient_ns = typical(std::move(weight_gradient));
  if (apart && times.input_gradient_ns == 0) {
    (run.has_input() ? times.input_gradient_ns : times.weight_gradient_ns) = times.backward_ns;
  }
  RANNC_TRY(weigh(run, times));
  return times;
}

}  // namespace

RunFacts::RunFacts(const ir::Graph& graph)
    : needs_gradient(ir::needs_gradient(graph)),
      roles(ir::gradient_roles(graph, needs_gradient)),
      channels_last(ir::channels_last(graph)) {}

Result<RunTimes> measure_tasks(const ir::Graph& graph, std::span<const TaskId> tasks, const RunFacts& facts,
                               const ir::Bindings& bindings, const RunOptions& options) {
  const auto refused = [&](const char* what) {
    return error(graph.location(tasks.front()), std::string("cannot be measured: ") + what);
  };
  try {
    RANNC_ASSIGN(const auto run, TaskRun::build(graph, tasks, facts, bindings, options.cut));
    auto times = run_all(*run, tasks.size() == 1, options);
    return times.ok() ? times : refused(times.diagnostic().message.c_str());
  } catch (const c10::Error& failure) {
    return refused(failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return refused(failure.what());
  }
}

std::string library_version() { return fmt::format("libtorch {}", TORCH_VERSION); }

}  // namespace rannc::codegen
