#include "codegen/measure.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
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

using Tensors = std::vector<at::Tensor>;

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

/// Start and end points of a backward pass.
class Backward {
 public:
  Backward(TaskRun& run, const Tensors& results) : run_(run) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!run.seeded()[i] || !results[i].defined() || !results[i].requires_grad()) continue;
      results_.push_back(results[i]);
      seeds_.push_back(at::full_like(results[i], 1e-3));
    }
  }
  bool possible() const { return !results_.empty() && !(run_.sources().empty() && run_.leaves().empty()); }
  bool parts() const { return possible() && !run_.sources().empty() && !run_.leaves().empty(); }

  void inputs() const { grad(run_.sources(), true); }
  void weights(Tensors& sums) const { add(grad(run_.leaves(), true), 0, sums); }
  void both(Tensors& sums) const {
    Tensors all = run_.sources();
    all.insert(all.end(), run_.leaves().begin(), run_.leaves().end());
    add(grad(all, false), run_.sources().size(), sums);
  }

 private:
  Tensors grad(const Tensors& sources, bool again) const {
    return torch::autograd::grad(results_, sources, seeds_, again, /*create_graph=*/false, /*allow_unused=*/true);
  }
  static void add(const Tensors& gradients, size_t first, Tensors& sums) {
    const c10::NoGradGuard no_grad;
    for (size_t i = first; i < gradients.size(); ++i) {
      if (gradients[i].defined()) sums[i - first].add_(gradients[i]);
    }
  }

  TaskRun& run_;
  Tensors results_, seeds_;
};

/// Measures bytes with one additional pass of each kind.
void weigh(TaskRun& run, Tensors& sums, RunTimes& times) {
  runtime::AllocationMeter meter;
  Tensors results = run.forward();
  times.temporary_bytes = static_cast<double>(meter.peak_bytes() - meter.live_bytes());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!run.seeded()[i]) results[i] = at::Tensor();
  }
  times.held_bytes = static_cast<double>(std::max<int64_t>(0, meter.live_bytes()));
  const Backward backward(run, results);
  if (!backward.possible()) return;
  meter.restart();
  const int64_t before = meter.live_bytes();
  backward.both(sums);
  times.temporary_bytes = std::max(times.temporary_bytes, static_cast<double>(meter.peak_bytes() - before));
}

RunTimes run_all(TaskRun& run, bool apart, const RunOptions& options) {
  Tensors sums;
  for (const at::Tensor& leaf : run.leaves())
    sums.push_back(at::zeros_like(leaf.detach(), runtime::sum_type(leaf.scalar_type())));
  std::vector<double> forward, input_gradient, weight_gradient, together;
  double total = 0;
  for (uint32_t i = 0; i < std::max(kMostRuns, kWarmUps + options.repeat); ++i) {
    if (i >= kWarmUps + options.repeat && total >= kEnoughNs) break;
    const bool counted = i >= kWarmUps;
    Tensors results;
    timed(counted, forward, total, [&] { results = run.forward(); });
    const Backward backward(run, results);
    if (!backward.possible()) continue;
    if (apart && backward.parts()) {
      timed(counted, input_gradient, total, [&] { backward.inputs(); });
      timed(counted, weight_gradient, total, [&] { backward.weights(sums); });
    }
    timed(counted, together, total, [&] { backward.both(sums); });
  }
  RunTimes times;
  times.forward_ns = typical(std::move(forward));
  times.backward_ns = typical(std::move(together));
  times.input_gradient_ns = typical(std::move(input_gradient));
  times.weight_gradient_ns = typical(std::move(weight_gradient));
  if (apart && times.input_gradient_ns == 0) {
    (run.leaves().empty() ? times.input_gradient_ns : times.weight_gradient_ns) = times.backward_ns;
  }
  weigh(run, sums, times);
  return times;
}

}  // namespace

RunFacts::RunFacts(const ir::Graph& graph)
    : needs_gradient(ir::needs_gradient(graph)), channels_last(ir::channels_last(graph)) {}

Result<RunTimes> measure_tasks(const ir::Graph& graph, std::span<const TaskId> tasks, const RunFacts& facts,
                               const ir::Bindings& bindings, const RunOptions& options) {
  const auto refused = [&](const char* what) {
    return error(graph.location(tasks.front()), std::string("cannot be measured: ") + what);
  };
  try {
    const c10::AutoGradMode with_grad(true);
    RANNC_ASSIGN(const auto run, TaskRun::build(graph, tasks, facts, bindings));
    return run_all(*run, tasks.size() == 1, options);
  } catch (const c10::Error& failure) {
    return refused(failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return refused(failure.what());
  }
}

std::string library_version() { return fmt::format("libtorch {}", TORCH_VERSION); }

}  // namespace rannc::codegen
