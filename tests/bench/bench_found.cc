/// Prints schedules found by search beside the best named ones and their bounds, and the speed of search and simulator.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "partition/schedule/found/find_rows.h"
#include "partition/schedule/found/list_rows.h"
#include "partition/schedule/found/named_rows.h"
#include "partition/schedule/found/order_model.h"
#include "partition/schedule/found/policies.h"
#include "partition/schedule/found/row_judge.h"
#include "tests/bench/cpu_seconds.h"
#include "tests/partition/schedule/found/cuts.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
using bench::cpu_seconds;

class Printer {
 public:
  explicit Printer(bool json) : json_(json) {
    if (!json) {
      fmt::print("{:<44} {:>9} {:>12} {:>9} {:>7} {:>9} {:>7} {:>7}  {}\n", "case", "named", "", "found", "gain",
                 "bound", "gap", "seconds", "made by");
    }
  }

  void print(const found_cuts::Cut& cut, const FoundSchedule& found, double seconds) const {
    const double gap = found.makespan / found.bound.value - 1;
    if (json_) {
      const nlohmann::ordered_json object = {{"file", cut.name},
                                             {"devices", cut.shape.devices},
                                             {"objective", found.makespan},
                                             {"lower_bound", found.bound.value},
                                             {"argument", found.bound.argument},
                                             {"gap", gap},
                                             {"named", found.named_makespan},
                                             {"best_named", found.best_named},
                                             {"seconds", seconds},
                                             {"actions", found.actions},
                                             {"evaluations", found.evaluations}};
      fmt::print("{}\n", object.dump());
      return;
    }
    fmt::print(
        "{:<44} {:>9.4f} {:>12} {:>9.4f} {:>6.2f}% {:>9.4f} {:>6.2f}% {:>7.2f}  {}, {} of {:.1f} M, period {:.4f}\n",
        cut.name, found.named_makespan, found.best_named, found.makespan,
        100 * (found.named_makespan / found.makespan - 1), found.bound.value, 100 * gap, seconds, found.origin,
        found.evaluations, static_cast<double>(found.actions) * 1e-6, found.pattern_period);
  }

 private:
  const bool json_;
};

/// Actions per second of the model, of list scheduling and of the judge.
void print_speed(uint32_t devices, uint32_t m) {
  const auto cut = found_cuts::chain("speed", devices, m, {1, 1.2, 0.8, 0.5}, 0.1, 2 * devices);
  const auto problem = found::make_row_problem(cut.shape, cut.costs, found::BackwardParts::kSplit, {});
  const auto policy = found::first_policies(problem)[0];
  const auto listed = found::list_rows(problem, policy);
  found::OrderModel model(problem);
  found::RowJudge judge(cut.shape, cut.costs, cut.options);
  const auto rows = found::schedule_of(problem, listed.rows, "speed");
  const auto lowered = ir::lower_schedule(cut.shape, rows).value();
  SimulationOptions options = cut.options;
  options.memory = options.spans = false;
  const auto speed = [&](const char* what, auto&& once) {
    const double start = cpu_seconds();
    double times = 0;
    for (; cpu_seconds() < start + 0.3; ++times) once();
    fmt::print("speed, {} devices x {} micro-batches: {:<28} {:>6.1f} M actions/s\n", devices, m, what,
               times * static_cast<double>(problem.actions()) / (cpu_seconds() - start) * 1e-6);
  };
  speed("longest-path model", [&] { model.run(listed.rows); });
  speed("list scheduling", [&] { found::list_rows(problem, policy); });
  speed("simulator, computations", [&] { (void)simulate(cut.shape, rows, cut.costs, options); });
  speed("simulator, lowered", [&] { (void)simulate(cut.shape, lowered, cut.costs, options); });
  speed("lowering", [&] { (void)ir::lower_schedule(cut.shape, rows); });
  speed("judge: all of these", [&] { judge.judge(rows); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Schedules found by search, beside named ones and bounds"};
  bool json = false;
  FoundOptions options;
  std::string only;
  app.add_flag("--json", json, "one object a line");
  app.add_option("--actions", options.actions, "budget of each search");
  app.add_option("--only", only, "cases with this in their name");
  CLI11_PARSE(app, argc, argv);
  if (!json && only.empty()) {
    print_speed(8, 24);
    print_speed(64, 256);
  }
  const Printer printer(json);
  int worse = 0;
  for (const auto& cut : found_cuts::table()) {
    if (cut.name.find(only) == std::string::npos) continue;
    const double start = cpu_seconds();
    const auto found = find_schedule_rows({cut.shape, cut.costs, cut.options}, options).value();
    printer.print(cut, found, cpu_seconds() - start);
    worse += !(found.makespan < found.named_makespan) && !found.best_named.empty();
  }
  if (worse > 0 && !json) fmt::print("{} cases without a strict improvement\n", worse);
  return 0;
}
