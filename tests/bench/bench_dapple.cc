// Benchmark f: DAPPLE's profiles on its clusters A, B, C, planner auto against all others on the simulated timeline.
//
// A line per file x cluster x devices: objective and bound of auto, the best rival, and auto without its rivals; then
// the plans of DAPPLE's Tables 4 and 6 beside ours. Exits with 1 where auto is worse than a rival.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ir/base/replacement.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/papers/dapple.h"
#include "partition/stages/papers/dapple_released.h"
#include "partition/stages/problem/profile_problem.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/auto.h"
#include "tests/bench/cpu_seconds.h"
#include "tests/partition/stages/support/judging.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
using bench::cpu_seconds;

/// Mini-batches of DAPPLE's Table 4 by the start of the file name.
uint64_t mini_batch_of(const std::string& file) {
  const std::pair<const char*, uint64_t> known[] = {
      {"vgg", 2048}, {"gnmt", 1024}, {"bert", 64}, {"xlnet", 128}, {"amoeba", 128}};
  for (const auto& [start, samples] : known) {
    if (file.starts_with(start)) return samples;
  }
  return 256;
}

struct Profile {
  std::string file;
  PipedreamProfile graph;
};

/// The problem of the sweep; `seconds` of the whole run are counted by the caller.
Result<StageProblem> problem_of(const Profile& profile, const Cluster& cluster, uint64_t mini_batch,
                                bool late_sums = false) {
  RANNC_ASSIGN(
      StageProblem problem,
      profile_problem(profile.graph, cluster, {profile_batch_of(profile.file).value_or(1), mini_batch, 2, false}));
  problem.in_flight = InFlight::kOneFOneB;
  problem.recompute = RecomputeRule::kChoose;
  problem.overlap_sums = !late_sums;
  return problem;
}

/// A plan that was found, on the timeline of `problem`; nothing where there is none.
struct Answer {
  std::optional<StagePlan> plan;
  std::string why;
  double seconds = 0;  ///< CPU
  double objective() const { return plan ? plan->objective : INFINITY; }
};

Answer ask(const StagePlanner& planner, const StageProblem& problem) {
  Answer answer;
  const double start = cpu_seconds();
  auto outcome = planner.plan(problem);
  answer.seconds = cpu_seconds() - start;
  if (!outcome.ok()) {
    answer.why = outcome.diagnostic().str();
  } else if (auto* found = std::get_if<StagePlan>(&*outcome)) {
    PlanJudge judge(problem);
    if (rannc::partition::testing::judge_as_run(judge, *found, &answer.why)) answer.plan = std::move(*found);
  } else {
    answer.why = std::get<Infeasible>(*outcome).reason;
  }
  return answer;
}

/// `8:8 at 23 1f1b x16`; long straight plans are shortened.
std::string text(const StagePlan& plan) {
  std::string shape = brief(plan);
  const bool straight =
      plan.stages.size() > 8 &&
      std::all_of(plan.stages.begin(), plan.stages.end(), [](const auto& stage) { return stage.devices.size() == 1; });
  if (straight) shape = fmt::format("straight {}", plan.stages.size());
  return fmt::format("{} {} x{}{}", shape, plan.schedule, plan.micro_batches,
                     plan.stages[0].recompute ? " recomputing" : "");
}

struct Totals {
  int cases = 0, rivalled = 0, never_worse = 0, alone_as_good = 0, alone_better = 0, infeasible = 0;
  double gain = 0, alone_gain = 0;  ///< sums of logarithms
};

struct Case {
  const Profile& profile;
  std::string preset;
  uint32_t devices = 0;
};

void print_json(const Case& one, const Answer& own, const Answer& alone, const std::string& rival, double best) {
  const auto number = [](double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); };
  fmt::print("{}\n",
             nlohmann::ordered_json{{"file", one.profile.file},
                                    {"cluster", one.preset},
                                    {"devices", one.devices},
                                    {"objective", number(own.objective())},
                                    {"lower_bound", own.plan ? number(own.plan->lower_bound) : nlohmann::json()},
                                    {"seconds", own.seconds},
                                    {"plan", own.plan ? text(*own.plan) : own.why},
                                    {"rival", rival},
                                    {"rival_objective", number(best)},
                                    {"alone_objective", number(alone.objective())},
                                    {"alone_seconds", alone.seconds}}
                 .dump());
}

void run(const Case& one, const StageProblem& problem, bool json, Totals& totals) {
  const Answer own = ask(*auto_planner(), problem);
  double best = INFINITY;
  std::string rival = "none";
  for (const std::string& name : rival_names()) {
    const Answer other = ask(*make_planner(name), problem);
    if (other.objective() >= best) continue;
    best = other.objective();
    rival = name + " " + text(*other.plan);
  }
  AutoOptions options;
  options.rivals = AutoOptions::Rivals::kExcluded;
  const Answer alone = ask(*auto_planner(options), problem);
  ++totals.cases;
  totals.infeasible += !own.plan;
  totals.never_worse += own.plan ? own.objective() <= best * (1 + 1e-9) : !std::isfinite(best);
  if (own.plan && std::isfinite(best)) {
    ++totals.rivalled;
    totals.gain += std::log(best / own.objective());
    totals.alone_as_good += alone.objective() <= best * (1 + 1e-9);
    totals.alone_better += alone.objective() < best * (1 - 1e-6);
    if (alone.plan) totals.alone_gain += std::log(best / alone.objective());
  }
  if (json) {
    print_json(one, own, alone, rival, best);
  } else if (!own.plan) {
    fmt::print("{:<22} {:<9} {:>3}  infeasible: {}\n", one.profile.file, one.preset, one.devices, own.why);
  } else {
    fmt::print(
        "{:<22} {:<9} {:>3}  {:>9.2f} ms  bound {:>9.2f} ms  gap {:>6.2f} %  {:>6.3f} s  {}  |  rival {:+.2f} % ({})  "
        "|  "
        "alone {:+.2f} % {:.3f} s\n",
        one.profile.file, one.preset, one.devices, own.objective() / 1e6, own.plan->lower_bound / 1e6,
        100 * own.plan->gap(), own.seconds, text(*own.plan), 100 * (best / own.objective() - 1), rival,
        100 * (alone.objective() / own.objective() - 1), alone.seconds);
  }
  std::fflush(stdout);
}

struct Published {
  const char *table, *start;
  uint64_t mini_batch;
  const char *preset, *paper;
  std::vector<uint32_t> replicas,
      cuts;  ///< the paper's plan in blocks; no replicas: it cannot be told from the profile
  ReleasedLinks links;
  double memory_bytes, parameter_bytes;  ///< Table 1
};

constexpr ReleasedLinks k25{1e9, 3e9, 25e9}, k10{1e9, 1.2e9, 25e9};

/// Blocks are the profile's nodes without inputs: VGG-19's 13 weighted layers are 17 blocks, BERT's 23 layers 27 and
/// XLNet's 18 layers 23 (with what feeds them), GNMT's nine layers 47.
const std::vector<Published>& published() {
  static const std::vector<uint32_t> half{8, 8}, all{16};
  static const std::vector<Published> rows{
      {"4", "vgg", 2048, "dapple-a", "DP", all, {}, k25, 5.6e9, 0.548e9},
      {"4", "vgg", 2048, "dapple-b", "DP", all, {}, k25, 5.6e9, 0.548e9},
      {"4", "vgg", 2048, "dapple-c", "15:1, 13:6", {15, 1}, {17}, k10, 5.6e9, 0.548e9},
      {"4", "gnmt", 1024, "dapple-a", "8:8, 9:7", half, {47}, k25, 3.9e9, 1.164e9},
      {"4", "gnmt", 1024, "dapple-b", "8:8, 9:7", half, {47}, k25, 3.9e9, 1.164e9},
      {"4", "gnmt", 1024, "dapple-c", "straight", {}, {}, k10, 3.9e9, 1.164e9},
      {"4", "bert", 64, "dapple-a", "8:8, 23:25", half, {27}, k25, 11.4e9, 2.56e9},
      {"4", "bert", 64, "dapple-b", "straight", {}, {}, k25, 11.4e9, 2.56e9},
      {"4", "bert", 64, "dapple-c", "straight", {}, {}, k10, 11.4e9, 2.56e9},
      {"4", "xlnet", 128, "dapple-a", "8:8, 18:18", half, {23}, k25, 12e9, 2e9},
      {"4", "xlnet", 128, "dapple-b", "8:8, 18:18", half, {23}, k25, 12e9, 2e9},
      {"4", "xlnet", 128, "dapple-c", "straight", {}, {}, k10, 12e9, 2e9},
      {"4", "amoeba", 128, "dapple-a", "8:8 (36 layers)", {}, {}, k25, 20e9, 3.732e9},
      {"4", "amoeba", 128, "dapple-b", "11:5 (36 layers)", {}, {}, k25, 20e9, 3.732e9},
      {"4", "amoeba", 128, "dapple-c", "11:5 (36 layers)", {}, {}, k10, 20e9, 3.732e9},
      {"6", "vgg", 1024, "dapple-a", "14:2, (0,16) (17,25)", {14, 2}, {16}, k25, 5.6e9, 0.548e9},
      {"6", "xlnet", 128, "dapple-a", "8:8, (0,22) (23,41)", half, {23}, k25, 12e9, 2e9},
  };
  return rows;
}

/// Stages of the paper's plan; a straight one is balanced exactly. Empty: the row is of another model.
std::vector<PlannedStage> papers_stages(const Published& row, const StageProblem& problem) {
  std::vector<PlannedStage> stages;
  if (std::string(row.paper) == "straight") {
    StageProblem straight = problem;
    straight.constraints.stages = problem.cluster.size();
    const Answer balanced = ask(*make_planner("gpipe-exact"), straight);
    if (balanced.plan) stages = balanced.plan->stages;
  }
  uint32_t device = 0;
  for (size_t s = 0; s < row.replicas.size(); ++s) {
    PlannedStage& stage = stages.emplace_back();
    stage.first = s == 0 ? 0 : row.cuts[s - 1];
    stage.end = s < row.cuts.size() ? row.cuts[s] : problem.blocks;
    for (uint32_t r = 0; r < row.replicas[s]; ++r) stage.devices.push_back(DeviceId(device++));
  }
  return stages;
}

/// The paper's plan under its best micro-batch count and warm-up policy.
Answer papers_plan(const Published& row, const StageProblem& problem) {
  Answer answer;
  answer.why = "of another model";
  StagePlan plan;
  plan.stages = papers_stages(row, problem);
  if (plan.stages.empty()) return answer;
  PlanJudge judge(problem);
  for (const uint64_t count : micro_batch_candidates(problem)) {
    for (const char* schedule : {"1f1b", "dapple-b"}) {
      for (const bool recompute : {false, true}) {
        plan.micro_batches = count;
        plan.schedule = schedule;
        for (PlannedStage& stage : plan.stages) stage.recompute = recompute;
        if (!rannc::partition::testing::judge_as_run(judge, plan, &answer.why)) continue;
        if (plan.objective < answer.objective()) answer.plan = plan;
      }
    }
  }
  return answer;
}

std::string cell(const Answer& answer) {
  return answer.plan ? fmt::format("{:.1f} ms {}", answer.objective() / 1e6, text(*answer.plan)) : answer.why;
}

/// The released program itself, over all antichain states; micro-batches as the profile's batch, VGG of 1,024 and XLNet
/// by single samples as in the published runs.
std::string released_itself(const Published& row, const Profile& profile, const Cluster& cluster) {
  const auto states = cut_states(profile.graph);
  if (!states.ok()) return states.diagnostic().str();
  ReleasedOptions options;
  for (const ClusterNode& node : cluster.nodes) options.machines.push_back(static_cast<uint32_t>(node.devices.size()));
  options.links = row.links;
  options.profile_batch = profile_batch_of(profile.file).value_or(1);
  options.mini_batch = row.mini_batch;
  const bool single = row.mini_batch == 1024 && profile.file.starts_with("vgg");
  options.micro_batch = single || profile.file.starts_with("amoeba") ? 1 : options.profile_batch;
  const ReleasedPlan best = released_plans(*states, options).front();
  std::string replicas, cuts;
  for (const ReleasedStage& stage : best.stages) {
    replicas += (replicas.empty() ? "" : ":") + std::to_string(stage.devices.size());
    if (stage.from != 0) cuts += (cuts.empty() ? " at " : ",") + std::to_string(stage.from);
  }
  if (best.stages.size() > 8) replicas = fmt::format("straight {}", best.stages.size()), cuts.clear();
  // Table 1: memory at the profile's batch, of which parameters, gradients and two states of four bytes each are four
  // copies.
  const double kept = row.memory_bytes - 4 * row.parameter_bytes;
  std::string parallel = "data parallel: Table 1 leaves no memory for activations";
  if (kept > 0) {
    const ReleasedMemory memory{16e9, 4, kept / static_cast<double>(options.profile_batch)};
    parallel = fmt::format("data parallel {:.2f}", released_data_parallel_overlapped(*states, options, memory));
  }
  return fmt::format("{}{}, speedup {:.2f}; {}", replicas, cuts, best.speedup, parallel);
}

void tables(const std::vector<Profile>& profiles) {
  for (const Published& row : published()) {
    const auto profile = std::find_if(profiles.begin(), profiles.end(),
                                      [&](const Profile& one) { return one.file.starts_with(row.start); });
    if (profile == profiles.end()) continue;
    const Cluster cluster = preset_cluster(row.preset).value();
    const auto problem = problem_of(*profile, cluster, row.mini_batch);
    if (!problem.ok()) continue;
    fmt::print("table {} {} of {} on {}\n", row.table, row.start, row.mini_batch, row.preset);
    fmt::print("  paper            {} = {}\n", row.paper, cell(papers_plan(row, *problem)));
    fmt::print("  dapple           {}\n", cell(ask(*dapple_planner(), *problem)));
    fmt::print("  released program {}\n", released_itself(row, *profile, cluster));
    fmt::print("  dapple-released  {}\n", cell(ask(*dapple_released_planner(row.links), *problem)));
    fmt::print("  auto             {}\n", cell(ask(*auto_planner(), *problem)));
    std::fflush(stdout);
  }
}

Result<std::vector<Profile>> read_all(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Profile> profiles;
  for (const auto& path : paths) {
    RANNC_ASSIGN(const std::string text, read_file(path));
    RANNC_ASSIGN(PipedreamProfile graph, read_pipedream(text, path.string()));
    profiles.push_back({path.filename().string(), std::move(graph)});
  }
  return profiles;
}

int fail(const Diagnostic& diagnostic) {
  fmt::print(stderr, "{}\n", diagnostic.str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"DAPPLE's profiles on clusters A, B and C"};
  std::string folder;
  std::vector<uint32_t> devices(15);
  std::iota(devices.begin(), devices.end(), 2);
  std::vector<std::string> presets{"dapple-a", "dapple-b", "dapple-c"};
  double seconds_limit = 1e9;
  bool json = false, no_tables = false, late_sums = false;
  app.add_option("folder", folder, "folder of PipeDream text graphs")->required()->check(CLI::ExistingDirectory);
  app.add_option("--devices", devices, "device counts, 2 to 16 unless given")->delimiter(',');
  app.add_option("--clusters", presets, "cluster presets")->delimiter(',');
  app.add_option("--seconds", seconds_limit, "start no further case after so many");
  app.add_flag("--json", json, "one object a line, without the tables");
  app.add_flag("--no-tables", no_tables, "leave Tables 4 and 6 out");
  app.add_flag("--late-sums", late_sums, "sum gradients after backward passes, not beside them (not in the tables)");
  CLI11_PARSE(app, argc, argv);
  const auto profiles = read_all(folder);
  if (!profiles.ok()) return fail(profiles.diagnostic());
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds_limit;
  };
  for (const Profile& profile : *profiles) {
    for (const std::string& preset : presets) {
      const auto cluster = preset_cluster(preset);
      if (!cluster.ok()) return fail(cluster.diagnostic());
      for (const uint32_t count : devices) {
        if (count == 0 || count > cluster->size() || late()) continue;
        const auto problem = problem_of(profile, cluster->first(count), mini_batch_of(profile.file), late_sums);
        if (!problem.ok()) return fail(problem.diagnostic());
        run({profile, preset, count}, *problem, json, totals);
      }
    }
  }
  const auto percent = [&](double sum) { return 100 * (std::exp(sum / std::max(1, totals.rivalled)) - 1); };
  if (!json) {
    if (!no_tables && !late()) tables(*profiles);
    if (totals.cases == 0) return 0;
    fmt::print(
        "{} cases ({} infeasible{}): auto never worse on {}, mean gain over the best rival {:.2f} %; its own search "
        "alone as "
        "good on {} of {}, better on {}, mean gain {:.2f} %\n",
        totals.cases, totals.infeasible, late() ? ", stopped by --seconds" : "", totals.never_worse,
        percent(totals.gain), totals.alone_as_good, totals.rivalled, totals.alone_better, percent(totals.alone_gain));
  }
  return totals.never_worse == totals.cases ? 0 : 1;
}
