/// Prints what schedules cost beside what was published of them, and how fast they are simulated.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/reference/contiguous_split.h"
#include "partition/schedule/asynchronous.h"
#include "partition/schedule/found/find_rows.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "tests/bench/cpu_seconds.h"
#include "tests/partition/reference/hardness.h"
#include "tests/partition/reference/period_plans.h"
#include "tests/partition/schedule/found/cuts.h"
#include "tests/partition/schedule/published.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
using bench::cpu_seconds;

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Line {
  std::string file;  ///< the case
  uint32_t devices = 0;
  double objective = 0, lower_bound = 0;
  double published = 0;  ///< 0: none
  double seconds = 0;
  std::string note;
  double rounding = 0;  ///< of the published figure
};

class Printer {
 public:
  explicit Printer(bool json) : json_(json) {
    if (!json) {
      fmt::print("{:<42} {:>7} {:>11} {:>11} {:>8} {:>11} {:>9}\n", "case", "devices", "objective", "lower bound",
                 "gap", "published", "seconds");
    }
  }

  void print(const Line& line) {
    const bool agrees = line.published == 0 ||
                        std::abs(line.objective - line.published) <= std::max(1e-6 * line.published, line.rounding);
    failures_ += !agrees;
    const double gap = line.lower_bound > 0 ? line.objective / line.lower_bound - 1 : 0;
    if (json_) {
      nlohmann::ordered_json object = {{"file", line.file},
                                       {"devices", line.devices},
                                       {"objective", line.objective},
                                       {"lower_bound", line.lower_bound},
                                       {"gap", gap},
                                       {"seconds", line.seconds}};
      if (line.published > 0) object["published"] = line.published;
      if (!line.note.empty()) object["note"] = line.note;
      fmt::print("{}\n", object.dump());
      return;
    }
    fmt::print("{:<42} {:>7} {:>11.6g} {:>11.6g} {:>7.2f}% {:>11} {:>9.4f}{}{}\n", line.file, line.devices,
               line.objective, line.lower_bound, 100 * gap,
               line.published > 0 ? fmt::format("{:.6g}", line.published) : "-", line.seconds,
               agrees ? "" : "  DIFFERS", line.note.empty() ? "" : "  " + line.note);
  }

  int failures() const { return failures_; }

 private:
  const bool json_;
  int failures_ = 0;
};

/// Simulates a named schedule whose ranks do one F, I, W per micro-batch.
Line bubble(const std::string& name, StageLayout layout, uint32_t p, uint32_t m, ComputeTimes whole, double published,
            double latency = 0) {
  const double start = cpu_seconds();
  const auto shape = laid_out(layout, p, m);
  const double chunks = static_cast<double>(shape.stages.size()) / p;
  const ComputeTimes part{whole.forward / chunks, whole.input_gradient / chunks, whole.weight_gradient / chunks, 0};
  const auto schedule = make_schedule(shape, {.name = name}).value();
  const auto timeline = simulate(shape, schedule, uniform_costs(shape, part, latency)).value();
  double peak = 0;
  for (const auto& device : timeline.devices) peak = std::max(peak, static_cast<double>(device.peak_bytes) / chunks);
  const double work = m * (whole.forward + whole.input_gradient + whole.weight_gradient);
  return {fmt::format("{} m={} F/I/W {}/{}/{} latency {}", name, m, whole.forward, whole.input_gradient,
                      whole.weight_gradient, latency),
          p,
          timeline.makespan,
          work,
          published,
          cpu_seconds() - start,
          fmt::format("peak {} bubble {:.1f}%", peak, 100 * timeline.bubble)};
}

void print_bubbles(Printer& printer) {
  for (const auto& row : published::bubbles()) {
    const ComputeTimes equal{1, 1, 1, 0}, skewed{1, 1.2, 0.8, 0};
    printer.print(bubble(row.name, row.layout, 4, 8, equal, row.p4_m8_equal));
    printer.print(bubble(row.name, row.layout, 8, 24, equal, row.p8_m24_equal));
    printer.print(bubble(row.name, row.layout, 8, 24, skewed, row.p8_m24_skewed));
  }
  for (const auto& row : published::latencies()) {
    const ComputeTimes times{1, 1, 1, 0};
    printer.print(bubble("gpipe", StageLayout::kOnePerRank, 4, 16, times, row.gpipe, row.latency));
    printer.print(bubble("1f1b", StageLayout::kOnePerRank, 4, 16, times, row.policy_a, row.latency));
    printer.print(bubble("dapple-b", StageLayout::kOnePerRank, 4, 16, times, row.policy_b, row.latency));
  }
}

/// Bubble rates by the times that Zero Bubble's authors measured, beside theirs. Our search minimises the makespan,
/// since steps wait for all gradients. ZB-2p minimises the longest span of a stage, which needs steps that can be
/// undone.
void print_zero_bubble(Printer& printer) {
  for (const published::ZeroBubble& row : published::zero_bubbles()) {
    const std::string name = fmt::format("zero bubble {} m={}: bubble rate of ", row.model, row.m);
    const std::pair<const char*, double> named[] = {
        {"1f1b", row.one_f_one_b}, {"zb-h1", row.zb_h1}, {"zb-h2", row.zb_h2}};
    for (const auto& [schedule, printed] : named) {
      const double start = cpu_seconds();
      printer.print(
          {name + schedule, row.p, published::bubble_rate(row, schedule), 0, printed, cpu_seconds() - start, "", 6e-5});
    }
    const double work = row.m * (row.forward + row.input_gradient + row.weight_gradient);
    for (const auto& [times, printed] : {std::pair{1, row.zb_1p}, {2, row.zb_2p}}) {
      const double start = cpu_seconds();
      const auto cut = found_cuts::chain("", row.p, row.m, {row.forward, row.input_gradient, row.weight_gradient, 0},
                                         row.latency, times * row.p);
      const auto found = find_schedule_rows({cut.shape, cut.costs}, {.actions = 4'000'000}).value();
      const auto timeline = simulate(cut.shape, *found.schedule, cut.costs).value();
      const std::string note =
          fmt::format("of the makespan {:.4f}, bound {:.4f}", 1 - work / found.makespan, 1 - work / found.bound.value);
      printer.print({fmt::format("{}found, {}p", name, times), row.p, published::bubble_rate(row, timeline), 0, printed,
                     cpu_seconds() - start, note, times == 1 ? 6e-5 : 1});
    }
  }
}

/// The period of a schedule in its steady part.
double period_of(const ir::PipelineShape& shape, const ScheduleSpec& spec, uint32_t first, uint32_t last) {
  ScheduleCosts costs;
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    costs.compute.push_back({{spec.times.forward[s], spec.times.backward[s], 0, 0}});
  }
  const auto schedule = make_schedule(shape, spec).value();
  return period_between(schedule, simulate(shape, schedule, costs).value(), first, last);
}

void print_beaumont(Printer& printer) {
  for (const auto& row : published::stars()) {
    const double start = cpu_seconds();
    const Pattern pattern = one_f_one_b_star(published::split(row.loads), row.period).value();
    double found = 0, expected = 0;
    std::vector<uint32_t> activations;
    for (size_t s = 0; s < row.loads.size(); ++s) {
      activations.push_back(pattern.concurrent(s));
      found += activations[s];
      expected += row.activations[s];
    }
    std::string note = fmt::format("activations ({})", fmt::join(activations, ", "));
    if (activations != row.activations) note += fmt::format(", published ({})", fmt::join(row.activations, ", "));
    printer.print({fmt::format("1f1b-star T={}: activations in all", row.period),
                   static_cast<uint32_t>(row.loads.size()), found, 0, expected, cpu_seconds() - start, note});
  }
  for (uint32_t k = 2; k <= 5; ++k) {
    const double start = cpu_seconds();
    ScheduleSpec spec{.name = "k-periodic", .k = k};
    spec.times.forward = spec.times.backward = std::vector<double>(k + 1, 1);
    const double period = period_of(ir::chain_shape(k + 1, 20 * k), spec, 4 * k, 14 * k);
    printer.print({fmt::format("theorem 4, k={}: normalised period", k),
                   k + 1,
                   period,
                   2,
                   2 * (1 + 1.0 / k),
                   cpu_seconds() - start,
                   {}});
  }
  // Section 5.2: of the p−s batches that stage s holds, every (k+1)-th is left out; 1F1B* holds 36 in all.
  for (uint32_t k = 1; k < 8; ++k) {
    const double start = cpu_seconds();
    ScheduleSpec spec{.name = "k-periodic", .times = published::split(std::vector<double>(8, 2)), .k = k};
    const double period = period_of(ir::chain_shape(8, 40 * k), spec, 4 * k, 32 * k);
    uint32_t held = 0;
    for (uint32_t depth = 1; depth <= 8; ++depth) held += depth - depth / (k + 1);
    printer.print({fmt::format("5.2, 8 stages, k={}: normalised period", k), 8, period, 2, 2 * (1 + 1.0 / k),
                   cpu_seconds() - start, fmt::format("{} of 36 activations", held)});
  }
  std::vector<published::Allocation> chains{published::three_layers()};
  for (uint32_t k = 2; k <= 5; ++k) chains.push_back(published::theorem_five(k));
  for (uint32_t k = 2; k <= 6; ++k) chains.push_back(published::theorem_six(k));
  for (const auto& chain : chains) {
    const double start = cpu_seconds();
    const auto shape = published::shape_of(chain, 400);
    const ScheduleSpec spec{.name = "periodic", .times = published::split(chain.loads)};
    const double period = period_of(shape, spec, 200, 300);
    const double contiguous = published::best_contiguous(chain);
    printer.print({chain.name + ": period", chain.devices, period, smallest_period(shape, spec.times), chain.period,
                   cpu_seconds() - start,
                   fmt::format("contiguous {:.6g}, ratio {:.3f}", contiguous, contiguous / period)});
  }
}

/// Instances of 3-partition that have a solution: what we find, against what is possible.
void print_hardness(Printer& printer) {
  for (const uint32_t parts : {4u, 16u, 64u}) {
    const double start = cpu_seconds();
    const auto problem = partition::testing::theorem_one(partition::testing::three_partition(parts, parts)).value();
    const SplitResult split = solve_split(problem, {.devices = parts});
    printer.print({fmt::format("theorem 1, {} numbers: largest load", 3 * parts), parts, split.largest_load,
                   split.lower_bound, 0, cpu_seconds() - start, "bound by " + split.bound});
  }
  for (const uint32_t parts : {2u, 4u, 8u}) {
    const double start = cpu_seconds();
    const auto hard = partition::testing::theorem_two(partition::testing::three_partition(parts, parts));
    printer.print({fmt::format("theorem 2, {} layers: period", 6 * parts), 2, partition::testing::found_period(hard),
                   hard.period, 0, cpu_seconds() - start, "fixed allocation, memory for the best schedule alone"});
  }
}

/// The formal problem on random chains, solved exactly: least period of contiguous allocations and of our plans over
/// the least of all.
void print_formal(Printer& printer) {
  constexpr uint64_t kChains = 60;
  struct Chain {
    PeriodProblem problem;
    double least = 0;
  };
  std::vector<Chain> chains;
  for (uint64_t seed = 0; seed < kChains; ++seed) {
    Chain chain{partition::testing::random_chain(seed, 7)};
    chain.problem.peak = PeriodProblem::Peak::kOfDevice;
    const ExactPeriod exact = exact_period(chain.problem).value();
    if (!exact.exists()) continue;
    chain.least = exact.normalized();
    chains.push_back(std::move(chain));
  }
  const auto print = [&](const std::string& name, const auto& period_of) {
    const double start = cpu_seconds();
    std::vector<double> ratios;
    for (const Chain& chain : chains) {
      if (const std::optional<double> period = period_of(chain.problem)) ratios.push_back(*period / chain.least);
    }
    const double sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
    const auto optimal = std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio < 1 + 1e-9; });
    printer.print({"formal problem, " + name + ": mean period over the least", 3,
                   sum / static_cast<double>(ratios.size()), 1, 0, cpu_seconds() - start,
                   fmt::format("{} of {} feasible chains solved, {} optimally, worst {:.3f}", ratios.size(),
                               chains.size(), optimal, *std::max_element(ratios.begin(), ratios.end()))});
  };
  print("contiguous", [](PeriodProblem problem) -> std::optional<double> {
    problem.allocations = PeriodProblem::Allocations::kContiguous;
    const ExactPeriod exact = exact_period(problem).value();
    return exact.exists() ? std::optional(exact.normalized()) : std::nullopt;
  });
  for (const auto& [name, schedules] : partition::testing::period_planners()) {
    print(name, [&](const PeriodProblem& problem) -> std::optional<double> {
      const auto planned = partition::testing::planned_period(problem, schedules);
      return planned ? std::optional(planned->period) : std::nullopt;
    });
  }
}

/// What staleness would buy: time per micro-batch in a long run.
void print_asynchronous(Printer& printer, uint32_t p, uint32_t m) {
  const ComputeTimes times{1, 1, 1, 0};
  const auto step = ir::chain_shape(p, m);
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    const double start = cpu_seconds();
    const auto timeline =
        simulate(step, make_schedule(step, {.name = name}).value(), uniform_costs(step, times)).value();
    printer.print({fmt::format("{} m={}: time per micro-batch", name, m), p, timeline.makespan / m, 3, 0,
                   cpu_seconds() - start, "exact"});
  }
  const auto stream = ir::chain_shape(p, 16 * m);
  for (const uint32_t every : {1u, m}) {
    const double start = cpu_seconds();
    const auto schedule = asynchronous_schedule(stream, every).value();
    const auto timeline = simulate(stream, schedule, uniform_costs(stream, times)).value();
    printer.print(
        {fmt::format("{} m={}: time per micro-batch", schedule.name, m), p, timeline.period, 3, 0,
         cpu_seconds() - start,
         fmt::format("changes the numbers; {} weight versions on stage 0", weight_versions(stream, every)[0])});
  }
}

void print_speed(Printer& printer, uint32_t devices, uint32_t m, bool contention) {
  const auto shape = ir::chain_shape(devices, m);
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 1, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0.5, 0.1}; };
  const double start = cpu_seconds();
  auto schedule = make_schedule(shape, {.name = "1f1b"}).value();
  const double made = cpu_seconds();
  if (contention) schedule = ir::lower_schedule(shape, schedule).value();
  const double lowered = cpu_seconds();
  const auto timeline = simulate(shape, schedule, costs, {.contention = contention}).value();
  const double simulated = cpu_seconds();
  std::string note = fmt::format("generate {:.3f} s, lower {:.3f} s, simulate {:.3f} s CPU, {:.0f} MB so far",
                                 made - start, lowered - made, simulated - lowered, peak_megabytes());
  if (contention) {
    const bool sound = ir::check_schedule(shape, schedule).ok();
    note += fmt::format(", verify {:.3f} s: {}", cpu_seconds() - simulated, sound ? "sound" : "UNSOUND");
  }
  printer.print({fmt::format("speed 1f1b m={} {}", m, contention ? "lowered, contention" : "no contention"), devices,
                 timeline.makespan, 3.0 * m, 0, simulated - start, note});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Published bubbles, peaks and periods of pipeline schedules, recomputed"};
  bool json = false;
  std::vector<uint32_t> devices{4096};
  uint32_t m = 1024;
  double seconds = 60;
  app.add_flag("--json", json, "one object a line");
  app.add_option("--devices", devices, "sizes of the speed cases without contention")->delimiter(',');
  app.add_option("--micro-batches", m, "of the speed cases")->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "no new speed case is begun after so much CPU time");
  CLI11_PARSE(app, argc, argv);
  Printer printer(json);
  print_bubbles(printer);
  print_zero_bubble(printer);
  print_beaumont(printer);
  print_hardness(printer);
  print_formal(printer);
  print_asynchronous(printer, 8, 24);
  for (const uint32_t d : devices) {
    if (cpu_seconds() < seconds) print_speed(printer, d, m, false);
  }
  if (cpu_seconds() < seconds) print_speed(printer, 256, m, true);
  if (printer.failures() > 0) fmt::print(stderr, "{} figures differ from what was published\n", printer.failures());
  return printer.failures() > 0;
}
