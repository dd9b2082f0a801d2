#include "runtime/measure_stages.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "runtime/engine_autograd.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

constexpr int kWarmUps = 2;
constexpr int kLeastRuns = 5;
constexpr int kMostRuns = 15;
constexpr double kEnoughNs = 1e9;

// With one thread the time that it ran: what other programs take of the processor is no cost of the stage.
double now_ns() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

// The lower quartile: neighbours on the machine, who share its caches, only ever add.
double typical(std::vector<double> values) {
  const auto at = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Result<Value> made_up(const Port& port, const ir::Bindings& symbols, bool like_noise) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : port.type.shape.value_or(ir::Shape{})) {
    const auto size = dim.evaluate(symbols);
    if (!size) return error(fmt::format("the size {} of '{}' is not known", dim.str(), port.name));
    sizes.push_back(*size);
  }
  const auto options = at::TensorOptions().dtype(to_scalar_type(port.type.dtype));
  if (!ir::is_float(port.type.dtype)) return to_value(at::zeros(sizes, options));
  return to_value(like_noise ? at::randn(sizes, options) : at::full(sizes, 1e-3, options));
}

struct Runs {
  std::vector<double> forward, backward;
  uint64_t held = 0;
  double total = 0;
};

Result<void> run_once(Program& program, const At& at, const Values& inputs, const Values& gradients, bool counted,
                      Runs& runs) {
  Held saved, pending;
  double start = now_ns();
  RANNC_ASSIGN(const Values outputs, program.forward(at, inputs, saved));
  const double forward_ns = now_ns() - start;
  if (at.training) runs.held = saved->bytes();
  start = now_ns();
  if (at.training) RANNC_TRY(program.backward_input(at, saved, gradients, pending));
  const double backward_ns = at.training ? now_ns() - start : 0;
  if (!counted) return {};
  runs.forward.push_back(forward_ns);
  runs.backward.push_back(backward_ns);
  runs.total += forward_ns + backward_ns;
  return {};
}

Result<ir::StageTime> measure(Program& program, const ir::Plan& plan, ir::StageTime entry, ir::Bindings symbols) {
  symbols[plan.graph.batch_symbol()] = entry.samples;
  const Signature& signature = program.signature();
  Values inputs, gradients;
  for (const Port& port : signature.inputs) {
    RANNC_ASSIGN(Value value, made_up(port, symbols, true));
    inputs.push_back(std::move(value));
  }
  for (const Port& port : signature.outputs) {
    const bool is_loss = std::any_of(plan.graph.losses().begin(), plan.graph.losses().end(),
                                     [&](const ir::LossTerm& term) { return term.numerator == port.value; });
    Value seed;
    if (port.gradient || is_loss) {
      RANNC_ASSIGN(seed, made_up(port, symbols, false));
    }
    gradients.push_back(std::move(seed));
  }
  ir::Bindings others = symbols;
  others.erase(plan.graph.batch_symbol());
  At at;
  at.stage = entry.stage;
  at.samples = entry.samples;
  at.training = plan.training;
  at.symbols = &others;
  at.recomputed = false;
  Runs runs;
  for (int i = 0; i < kMostRuns && (i < kWarmUps + kLeastRuns || runs.total < kEnoughNs); ++i) {
    RANNC_TRY(run_once(program, at, inputs, gradients, i >= kWarmUps, runs));
  }
  entry.forward_ns = static_cast<int64_t>(typical(std::move(runs.forward)));
  entry.backward_ns = static_cast<int64_t>(typical(std::move(runs.backward)));
  entry.stashed_bytes = runs.held;
  return entry;
}

}  // namespace

Result<std::vector<ir::StageTime>> measure_stages(const Bundle& bundle, const ir::Bindings& symbols) {
  std::vector<ir::StageTime> times;
  for (const ir::StageTime& entry : bundle.plan.stage_times) {
    RANNC_ASSIGN(const auto program, load_autograd_program(bundle, entry.stage));
    RANNC_ASSIGN(const ir::StageTime time, measure(*program, bundle.plan, entry, symbols));
    times.push_back(time);
  }
  return times;
}

}  // namespace rannc::runtime
