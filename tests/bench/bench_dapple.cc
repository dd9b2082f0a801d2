// Benchmark f: DAPPLE's profiles on its clusters A, B, C: planner auto against all others on the simulated timeline.
//
// A line per file x cluster x devices: objective and bound of auto, the best rival, and auto without its rivals.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "partition/stages/auto.h"
#include "partition/stages/judge.h"
#include "partition/stages/profile_problem.h"
#include "partition/stages/registry.h"

namespace {

using namespace rannc;
using namespace rannc::partition;

/// Mini-batches of DAPPLE's Table 4 by the start of the file name.
uint64_t mini_batch_of(const std::string& file) {
  const std::pair<const char*, uint64_t> known[] = {{"vgg", 2048}, {"gnmt", 1024}, {"bert", 64}, {"xlnet", 128}, {"amoeba", 128}};
  for (const auto& [start, samples] : known) {
    if (file.starts_with(start)) return samples;
  }
  return 256;
}

struct Totals {
  int cases = 0, never_worse = 0, alone_as_good = 0, alone_better = 0;
  double gain = 0;  ///< sum of logarithms
};

struct Case {
  std::string file, preset;
  uint32_t devices = 0;
  StageProblem problem;
};

double judged(const StageProblem& problem, const StagePlan& plan) {
  PlanJudge judge(problem);
  StagePlan copy = plan;
  return judge.judge(copy).value_or(INFINITY);
}

void run(const Case& one, bool json, Totals& totals) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcome = auto_planner()->plan(one.problem);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto* plan = outcome.ok() ? std::get_if<StagePlan>(&*outcome) : nullptr;
  double rival = INFINITY;
  std::string rival_name = "-";
  for (const std::string& name : rival_names()) {
    const auto other = make_planner(name)->plan(one.problem);
    const auto* found = other.ok() ? std::get_if<StagePlan>(&*other) : nullptr;
    const double time = found != nullptr ? judged(one.problem, *found) : INFINITY;
    if (time >= rival) continue;
    rival = time;
    rival_name = name + " " + brief(*found);
  }
  AutoOptions own;
  own.rivals = AutoOptions::Rivals::kExcluded;
  const auto alone_outcome = auto_planner(own)->plan(one.problem);
  const auto* alone = alone_outcome.ok() ? std::get_if<StagePlan>(&*alone_outcome) : nullptr;
  if (plan == nullptr) {
    fmt::print("{:<22} {:<9} {:>5}  infeasible: {}\n", one.file, one.preset, one.devices,
               outcome.ok() ? std::get<Infeasible>(*outcome).reason : outcome.diagnostic().str());
    return;
  }
  ++totals.cases;
  totals.never_worse += plan->objective <= rival * (1 + 1e-9);
  if (std::isfinite(rival)) totals.gain += std::log(rival / plan->objective);
  totals.alone_as_good += alone != nullptr && alone->objective <= rival * (1 + 1e-9);
  totals.alone_better += alone != nullptr && alone->objective < rival * (1 - 1e-6);
  if (json) {
    fmt::print("{{\"file\": \"{}\", \"cluster\": \"{}\", \"devices\": {}, \"objective\": {}, \"lower_bound\": {}, "
               "\"rival\": {}, \"seconds\": {:.3f}}}\n", one.file, one.preset, one.devices, plan->objective,
               plan->lower_bound, std::isfinite(rival) ? rival : -1, seconds);
  } else {
    fmt::print("{:<22} {:<9} {:>3}  {:>10.3f} ms  bound {:>10.3f} ms  gap {:>6.2f} %  {:>6.3f} s  {} {} x{}  rival {:+.2f} % ({})"
               "  alone {:+.2f} %\n", one.file, one.preset, one.devices, plan->objective / 1e6, plan->lower_bound / 1e6,
               100 * plan->gap(), seconds, brief(*plan), plan->schedule, plan->micro_batches,
               100 * (rival / plan->objective - 1), rival_name,
               alone == nullptr ? INFINITY : 100 * (alone->objective / plan->objective - 1));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"DAPPLE's profiles on clusters A, B and C"};
  std::string folder;
  std::vector<uint32_t> devices{2, 4, 8, 16};
  std::vector<std::string> presets{"dapple-a", "dapple-b", "dapple-c"};
  double seconds_limit = 600;
  bool json = false;
  app.add_option("folder", folder, "folder of PipeDream text graphs")->required();
  app.add_option("--devices", devices, "device counts")->delimiter(',');
  app.add_option("--clusters", presets, "cluster presets")->delimiter(',');
  app.add_option("--seconds", seconds_limit, "start no further case after so many");
  app.add_flag("--json", json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& path : files) {
    std::ifstream stream(path);
    std::ostringstream text;
    text << stream.rdbuf();
    const auto profile = read_pipedream(text.str(), path.string());
    if (!profile.ok()) {
      fmt::print(stderr, "{}\n", profile.diagnostic().str());
      return 1;
    }
    const std::string file = path.filename().string();
    for (const std::string& preset : presets) {
      const auto cluster = preset_cluster(preset);
      if (!cluster.ok()) {
        fmt::print(stderr, "{}\n", cluster.diagnostic().str());
        return 1;
      }
      for (const uint32_t count : devices) {
        if (count > cluster->size()) continue;
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds_limit) break;
        ProfileProblemOptions options{profile_batch_of(file), mini_batch_of(file), 2, false};
        auto problem = profile_problem(*profile, cluster->first(count), options);
        if (!problem.ok()) {
          fmt::print(stderr, "{}: {}\n", file, problem.diagnostic().str());
          return 1;
        }
        problem->in_flight = InFlight::kOneFOneB;
        problem->recompute = RecomputeRule::kChoose;
        run({file, preset, count, *std::move(problem)}, json, totals);
      }
    }
  }
  if (!json && totals.cases > 0) {
    fmt::print("{} cases: auto never worse on {}, mean gain over the best rival {:.2f} %, own search alone as good on {}, "
               "better on {}\n", totals.cases, totals.never_worse, 100 * (std::exp(totals.gain / totals.cases) - 1),
               totals.alone_as_good, totals.alone_better);
  }
  return totals.never_worse == totals.cases ? 0 : 1;
}
