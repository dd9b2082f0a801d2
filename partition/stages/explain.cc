#include "partition/stages/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"

namespace rannc::partition {
namespace {

constexpr double kRounding = 1e-9;

std::string milliseconds(double ns) {
  return ns < 1e18 ? fmt::format("{:.3f} ms", ns / 1e6) : fmt::format("{:.4g} ms", ns / 1e6);
}

std::string amount_of_memory(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3f} MB", bytes / 1e6) : fmt::format("{:.3f} GB", bytes / 1e9);
}

/// Long descriptions would hide the rest of a line.
std::string shortened(const std::string& name) {
  constexpr size_t kMost = 40;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "…";
}

std::string stage_line(size_t index, const PlannedStage& stage, const std::vector<std::string>& block_names) {
  const std::string devices = stage.devices.size() == 1
                                  ? fmt::format("device {}", stage.devices[0].index())
                                  : fmt::format("{} devices from {}", stage.devices.size(), stage.devices[0].index());
  const std::string exposed = stage.exposed_ns < stage.all_reduce_ns
                                  ? fmt::format(" ({} after the last backward pass)", milliseconds(stage.exposed_ns))
                                  : "";
  return fmt::format("  stage {}: {} on {}{}\n    forward {}, backward {}, all-reduce {}{}, peak {}\n", index,
                     block_range(stage.first, stage.end, block_names), devices, stage.recompute ? ", recomputes" : "",
                     milliseconds(stage.forward_ns), milliseconds(stage.backward_ns), milliseconds(stage.all_reduce_ns),
                     exposed, amount_of_memory(stage.peak_bytes));
}

std::string remedy_lines(const std::vector<Remedy>& remedies, std::string_view name, double objective) {
  std::string text;
  for (const Remedy& remedy : remedies) {
    // The plan itself remains possible, so that a worse one only shows the limits of the search.
    if (objective > 0 && remedy.objective > objective * (1 + kRounding)) continue;
    if (remedy.objective <= 0) {
      text += fmt::format("  {}: still no plan\n", remedy.what);
    } else if (objective > 0) {
      text += fmt::format("  {}: {} ({:+.1f} %)\n", remedy.what, quantity(name, remedy.objective),
                          100 * (remedy.objective / objective - 1));
    } else {
      text += fmt::format("  {}: a plan of {}\n", remedy.what, quantity(name, remedy.objective));
    }
  }
  return text.empty() ? text : "what would help:\n" + text;
}

std::string runner_up_line(const StagePlan& plan, const RunnerUp& other) {
  if (other.objective <= 0) return fmt::format("no plan: {}: {}\n", other.what, other.why);
  const double more = plan.objective > 0 ? 100 * (other.objective / plan.objective - 1) : 0;
  return fmt::format("lost: {}, {} ({:+.1f} %): {}\n", other.what, quantity(plan.objective_name, other.objective), more,
                     other.why);
}

Remedy try_one(const StagePlanner& planner, const StageProblem& problem, std::string what) {
  const auto outcome = planner.plan(problem);
  const auto* plan = outcome.ok() ? std::get_if<StagePlan>(&*outcome) : nullptr;
  return {std::move(what), plan != nullptr ? plan->objective : 0};
}

void faster(Link& link) { link.bytes_per_second *= 2; }

}  // namespace

std::vector<Remedy> try_remedies(const StagePlanner& planner, const StageProblem& problem) {
  std::vector<Remedy> remedies;
  StageProblem memory = problem;
  for (DeviceKind& kind : memory.cluster.kinds) kind.memory_bytes *= 2;
  if (memory.constraints.memory_bytes) *memory.constraints.memory_bytes *= 2;
  remedies.push_back(try_one(planner, memory, "twice the memory"));
  StageProblem links = problem;
  faster(links.cluster.between);
  for (ClusterNode& node : links.cluster.nodes) faster(node.inside);
  for (auto& [ends, link] : links.cluster.node_links) faster(link);
  for (auto& [ends, link] : links.cluster.device_links) faster(link);
  remedies.push_back(try_one(planner, links, "links twice as fast"));
  StageProblem devices = problem;
  Cluster& cluster = devices.cluster;
  ClusterDevice more = cluster.devices.back();
  more.name += "+";
  cluster.nodes[more.node.index()].devices.push_back(DeviceId::from(cluster.devices.size()));
  cluster.devices.push_back(more);
  // A node with one device does not specify how its devices are connected.
  Link& inside = cluster.nodes[more.node.index()].inside;
  if (inside.bytes_per_second <= 0) inside = cluster.between;
  if (inside.bytes_per_second > 0) remedies.push_back(try_one(planner, devices, "one more device"));
  return remedies;
}

std::string quantity(std::string_view objective_name, double value) {
  if (objective_name.find("bytes") != std::string_view::npos) return amount_of_memory(value);
  return milliseconds(value);
}

std::string block_range(uint32_t first, uint32_t end, const std::vector<std::string>& block_names) {
  const std::string numbers =
      end == first + 1 ? fmt::format("block {}", first) : fmt::format("blocks {}-{}", first, end - 1);
  if (end > block_names.size()) return numbers;
  if (end == first + 1) return fmt::format("{} ({})", numbers, shortened(block_names[first]));
  return fmt::format("{} ({} … {})", numbers, shortened(block_names[first]), shortened(block_names[end - 1]));
}

std::string explain(const StagePlan& plan, const std::vector<Remedy>& remedies,
                    const std::vector<std::string>& block_names) {
  std::string text = fmt::format("plan by {}: {} stages {}, {} micro-batches, schedule {}\n", plan.planner,
                                 plan.stages.size(), brief(plan), plan.micro_batches, plan.schedule);
  for (size_t s = 0; s < plan.stages.size(); ++s) text += stage_line(s, plan.stages[s], block_names);
  text += fmt::format("{}: {}\n", plan.objective_name.substr(0, plan.objective_name.find(", ns")),
                      quantity(plan.objective_name, plan.objective));
  if (plan.lower_bound > 0) {
    text += fmt::format("lower bound for these blocks {} ({}), gap {:.2f} %\n",
                        quantity(plan.objective_name, plan.lower_bound), plan.bound_name, 100 * plan.gap());
  } else {
    text += "no lower bound: this planner gives none\n";
  }
  text += "bottleneck: " + plan.bottleneck + "\n";
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  for (const RunnerUp& other : plan.runners_up) text += runner_up_line(plan, other);
  return text + remedy_lines(remedies, plan.objective_name, plan.objective);
}

std::string explain(const Infeasible& none, const std::vector<Remedy>& remedies, std::string_view objective_name) {
  std::string text = "no plan: " + none.reason + "\n";
  if (none.missing_bytes > 0) text += fmt::format("missing: {:.0f} bytes on the fullest device\n", none.missing_bytes);
  text += "may help: " + none.help + "\n";
  return text + remedy_lines(remedies, objective_name, 0);
}

namespace {

/// Whether demands allow a block in the neighbouring stage, with a cut before block `cut`.
bool is_allowed(const StageConstraints& constraints, uint32_t block, size_t stage, uint32_t cut) {
  if (std::binary_search(constraints.forbidden_cuts.begin(), constraints.forbidden_cuts.end(), cut)) return false;
  return std::none_of(constraints.pins.begin(), constraints.pins.end(),
                      [&](const StagePin& pin) { return pin.block == block && pin.stage != stage; });
}

/// The stages between which values cross, and whether gradients cross back.
std::set<std::tuple<uint32_t, uint32_t, bool>> messages(const StageProblem& problem, const StagePlan& plan) {
  const auto stage_of = [&](uint32_t block) {
    const auto holds = [block](const PlannedStage& stage) { return stage.first <= block && block < stage.end; };
    return static_cast<uint32_t>(std::find_if(plan.stages.begin(), plan.stages.end(), holds) - plan.stages.begin());
  };
  std::set<std::tuple<uint32_t, uint32_t, bool>> found;
  for (const BlockValue& value : problem.values) {
    for (const uint32_t reader : value.readers) {
      if (const uint32_t from = stage_of(value.producer), to = stage_of(reader); from != to)
        found.emplace(from, to, value.gradient);
    }
  }
  return found;
}

/// What comes of moving the block before or behind the cut after stage `s` to the other side.
std::string moved_cut(PlanJudge& judge, const StageProblem& problem, const StagePlan& plan, size_t s, bool earlier) {
  StagePlan other = plan;
  PlannedStage &left = other.stages[s], &right = other.stages[s + 1];
  const uint32_t block = earlier ? left.end - 1 : left.end;
  left.end = right.first = earlier ? left.end - 1 : left.end + 1;
  if (left.first == left.end || right.first == right.end) return "leaves a stage empty";
  if (!is_allowed(problem.constraints, block, earlier ? s + 1 : s, right.first)) return "is not allowed";
  // Found rows wait for the messages of their own stages, and for ever where others arrive.
  if (!plan.pattern.empty() && messages(problem, other) != messages(problem, plan)) return "needs other rows";
  const JudgedPlan judged = judge.judge(other);
  if (!judged) return "does not hold: " + judged.why();
  return fmt::format("{:+.1f} %", 100 * (judged->objective / plan.objective - 1));
}

}  // namespace

std::vector<std::string> cut_reasons(const StageProblem& problem, const StagePlan& plan) {
  constexpr uint64_t kMostActions = 1'000'000;
  const ScheduleFamily* const family = find_schedule(plan.schedule);
  if (family == nullptr || family->needs == ScheduleFamily::Needs::kTable) return {};  // rows of these stages alone
  if (2 * plan.stages.size() * plan.stages.size() * plan.micro_batches > kMostActions) return {};
  PlanJudge judge(problem);
  const JudgedPlan here = judge.judge(plan);
  if (!here || here->objective <= 0) return {};
  std::vector<std::string> reasons;
  for (size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    reasons.push_back(fmt::format("after block {}: one block earlier {}, one block later {}", plan.stages[s].end - 1,
                                  moved_cut(judge, problem, *here, s, true),
                                  moved_cut(judge, problem, *here, s, false)));
  }
  return reasons;
}

}  // namespace rannc::partition
