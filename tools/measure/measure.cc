#include "tools/measure/measure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "ir/plan/plan.h"
#include "partition/cost/analytic.h"
#include "passes/planning/choose_kernels.h"
#include "passes/training/cut_functions.h"
#include "runtime/device/device.h"
#include "runtime/measure/measure_tasks.h"
#include "tools/measure/block_runs.h"

namespace rannc::tools {

namespace {

using partition::ProfileDatabase;
using partition::TaskCost;

/// Returns the text after the colon of the first line of `path` that starts with `name`, or an empty text.
std::string field_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':');
    const size_t text = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return text == std::string::npos ? "" : line.substr(text);
  }
  return {};
}

std::string processor() {
  const std::string name = field_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

uint64_t usable_memory(const runtime::Device* device) {
  if (device != nullptr && device->memory_bytes() > 0) return device->memory_bytes() / 2;
  const std::string text = field_of("/proc/meminfo", "MemAvailable");
  const uint64_t kib = text.empty() ? uint64_t{4} << 20 : std::strtoull(text.c_str(), nullptr, 10);
  return kib * 1024 / 2;
}

/// Common data of all measurements of one graph.
struct Bench {
  const ir::Graph& graph;
  const MeasureOptions& options;
  runtime::GraphFacts facts_of_graph{graph};
  const std::vector<ir::GradientRole>& roles() const { return facts_of_graph.roles; }
  std::vector<ir::Frequency> frequency = ir::execution_frequency(graph);
  std::string environment = environment_name(options);
  uint64_t memory = options.memory_bytes > 0 ? options.memory_bytes : usable_memory(options.device);

  Result<runtime::TaskTimes> run(std::span<const TaskId> tasks, uint64_t samples) const {
    ir::Bindings bindings = options.assume;
    if (!graph.batch_symbol().empty()) bindings[graph.batch_symbol()] = static_cast<int64_t>(samples);
    const auto cut = [](const ir::StageGraph& stage) { return passes::cut_functions(stage); };
    return runtime::measure_tasks(graph, tasks, facts_of_graph, bindings, {cut, options.repeat, options.device});
  }

  Result<partition::TaskFacts> facts(TaskId task, uint64_t samples) const {
    return partition::task_facts(graph, task, roles(), samples, options.assume);
  }
};

/// Memory estimate of a run: inputs and outputs, their gradients, and as much again for intermediate values.
constexpr double kBytesPerTraffic = 4;

/// Returns false if the task is too large.
Result<bool> measure_task(const Bench& bench, const std::string& key, TaskId task, partition::SizeCurve& curve) {
  for (const uint64_t samples : bench.options.sizes) {
    if (curve.contains(samples)) continue;
    RANNC_ASSIGN(const partition::TaskFacts facts, bench.facts(task, samples));
    RANNC_CHECK(facts.key == key);
    if (kBytesPerTraffic * facts.traffic_bytes > static_cast<double>(bench.memory)) return false;
    RANNC_ASSIGN(const runtime::TaskTimes times, bench.run({&task, 1}, samples));
    TaskCost& cost = curve[samples];
    if (times.begin_ns > 0) {
      cost.forward_ns = cost.recompute_ns = times.begin_ns;
      // The gradient of its result arrives in B, which computes what E computes from a sum.
      cost.weight_gradient_ns = cost.together_ns = times.backward_ns + times.gradients_ns;
    } else {
      cost.forward_ns = cost.recompute_ns = times.forward_ns;
      cost.input_gradient_ns = times.input_gradient_ns;
      cost.weight_gradient_ns = times.weight_gradient_ns;
      cost.together_ns = times.backward_ns;
    }
    cost.saved_bytes = facts.saved_bytes;
    cost.temporary_bytes = times.temporary_bytes;
  }
  return true;
}

bool has_all(const auto* curve, const std::vector<uint64_t>& sizes) {
  return curve != nullptr &&
         std::all_of(sizes.begin(), sizes.end(), [&](uint64_t samples) { return curve->contains(samples); });
}

/// One task per key. Of tasks with equal keys it is one of those that run most often.
std::map<std::string, TaskId> distinct_tasks(const ir::Graph& graph, const std::vector<ir::GradientRole>& roles) {
  const std::vector<ir::Frequency> frequency = ir::execution_frequency(graph);
  std::map<std::string, TaskId> distinct;
  for (const TaskId task : graph.tasks()) {
    TaskId& found = distinct.emplace(partition::structural_key(graph, task, roles), task).first->second;
    if (frequency[task.index()] > frequency[found.index()]) found = task;
  }
  return distinct;
}

/// Returns the sum of the costs per micro-batch, or nothing if one of the tasks was not measured at that size. Only
/// the tasks `rebuilt` (ascending) count in its R.
std::optional<TaskCost> summed_cost(const Bench& bench, const std::vector<TaskId>& tasks,
                                    const std::vector<TaskId>& rebuilt, uint64_t samples,
                                    const ProfileDatabase& database) {
  TaskCost sum;
  for (const TaskId task : tasks) {
    if (bench.frequency[task.index()] != ir::Frequency::kMicroBatch) continue;
    const auto* curve = database.find(bench.environment, partition::structural_key(bench.graph, task, bench.roles()));
    if (curve == nullptr || !curve->contains(samples)) return std::nullopt;
    const TaskCost& cost = curve->at(samples);
    sum.forward_ns += cost.forward_ns;
    if (std::binary_search(rebuilt.begin(), rebuilt.end(), task)) sum.recompute_ns += cost.rebuild_ns();
    sum.input_gradient_ns += cost.input_gradient_ns;
    sum.weight_gradient_ns += cost.weight_gradient_ns;
    sum.together_ns += cost.backward_ns();
    sum.saved_bytes += cost.saved_bytes;
    sum.temporary_bytes = std::max(sum.temporary_bytes, cost.temporary_bytes);
  }
  return sum;
}

/// Returns false if the block was not measured at all sizes.
bool measure_block(const Bench& bench, const BlockRun& run, ProfileDatabase& database) {
  for (const uint64_t samples : bench.options.sizes) {
    const partition::BlockCurve* known = database.find_block(bench.environment, run.key);
    if (known != nullptr && known->contains(samples)) continue;
    double traffic = 0;
    for (const TaskId task : run.tasks) {
      const auto facts = bench.facts(task, samples);
      if (!facts.ok()) return false;
      traffic += facts->traffic_bytes;
    }
    if (kBytesPerTraffic * traffic > static_cast<double>(bench.memory)) return false;
    const auto times = bench.run(run.tasks, samples);
    if (!times.ok()) return false;
    const auto summed = summed_cost(bench, run.tasks, times->rebuilt, samples, database);
    if (!summed) return false;
    TaskCost measured;
    measured.forward_ns = times->forward_ns;
    measured.recompute_ns = times->rebuild_ns;
    measured.together_ns = times->backward_ns;
    measured.saved_bytes = times->held_bytes;
    measured.temporary_bytes = times->temporary_bytes;
    database.add_block(bench.environment, run.key, samples, {measured, *summed});
  }
  return true;
}

void describe(const MeasureOptions& options, ProfileDatabase& database) {
  std::map<std::string, std::string> facts{{"library", runtime::library_version()}};
  if (options.device == nullptr) {
    facts["device"] = processor();
    facts["threads"] = std::to_string(options.threads);
  } else {
    facts["device"] = options.device->model();
    facts["clock_khz"] = std::to_string(options.device->clock_khz());
  }
  database.describe(environment_name(options), std::move(facts));
}

}  // namespace

std::string environment_name(uint32_t threads) {
  return fmt::format("{}, {}, {} thread{}", processor(), runtime::library_version(), threads, threads == 1 ? "" : "s");
}

std::string environment_name(const std::string& model) {
  return fmt::format("{}, {}", model, runtime::library_version());
}

std::string environment_name(const MeasureOptions& options) {
  return options.device == nullptr ? environment_name(options.threads) : environment_name(options.device->model());
}

std::vector<uint64_t> measured_sizes(uint64_t mini_batch) {
  const std::vector<uint64_t> sizes = partition::sample_sizes(mini_batch);
  if (sizes.size() <= 4) return sizes;
  std::vector<uint64_t> chosen;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if ((sizes.size() - 1 - i) % 2 == 0 || i == 0) chosen.push_back(sizes[i]);
  }
  return chosen;
}

namespace {

/// Measures the tasks of `distinct` that the database lacks. If `forgiving`, tasks that cannot run are skipped.
Result<MeasureCount> measure_distinct(const Bench& bench, const std::map<std::string, TaskId>& distinct,
                                      std::string_view what, bool forgiving, ProfileDatabase& database) {
  const MeasureOptions& options = bench.options;
  MeasureCount count;
  size_t done = 0;
  for (const auto& [key, task] : distinct) {
    if (options.step) options.step(fmt::format("measuring {} of {} {}", ++done, distinct.size(), what));
    const partition::SizeCurve* known = database.find(bench.environment, key);
    if (has_all(known, options.sizes)) {
      ++count.reused;
      continue;
    }
    partition::SizeCurve curve = known == nullptr ? partition::SizeCurve{} : *known;
    const size_t before = curve.size();
    const Result<bool> fits = measure_task(bench, key, task, curve);
    if (!fits.ok() && !forgiving) return fits.diagnostic();
    if (!fits.ok() || !*fits) ++count.too_large;
    ++(curve.size() > before ? count.measured : count.reused);
    partition::make_monotone(curve);
    if (!curve.empty()) database.set(bench.environment, key, std::move(curve));
  }
  return count;
}

}  // namespace

Result<MeasureCount> measure_tasks(const ir::Graph& graph, const MeasureOptions& options, ProfileDatabase& database) {
  const Bench bench{graph, options};
  describe(options, database);
  return measure_distinct(bench, distinct_tasks(graph, bench.roles()), "tasks", false, database);
}

Result<MeasureCount> measure_alternatives(const ir::Graph& graph, const MeasureOptions& options,
                                          ProfileDatabase& database) {
  if (options.device != nullptr) return MeasureCount{};
  const ir::Graph alternatives = passes::with_alternatives(graph);
  if (alternatives.task_count() == graph.task_count()) return MeasureCount{};
  const Bench bench{alternatives, options};
  describe(options, database);
  std::map<std::string, TaskId> distinct = distinct_tasks(alternatives, bench.roles());
  std::erase_if(distinct, [&](const auto& entry) {
    return entry.second.index() < graph.task_count() && !passes::has_alternatives(graph, entry.second);
  });
  return measure_distinct(bench, distinct, "kernels", true, database);
}

Result<MeasureCount> measure_blocks(const ir::Graph& graph, const ir::Atoms& atoms, size_t most,
                                    const MeasureOptions& options, ProfileDatabase& database) {
  const Bench bench{graph, options};
  describe(options, database);
  std::vector<BlockRun> runs = block_runs(graph, atoms);
  runs.resize(std::min(runs.size(), most));
  MeasureCount count;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (options.step) options.step(fmt::format("measuring {} of {} blocks", i + 1, runs.size()));
    if (has_all(database.find_block(bench.environment, runs[i].key), options.sizes)) {
      ++count.reused;
      continue;
    }
    ++count.measured;
    if (!measure_block(bench, runs[i], database)) ++count.too_large;
  }
  return count;
}

void use_measured_links(const ProfileDatabase& database, partition::Cluster& cluster) {
  const std::string environment = environment_name();
  const auto* messages = database.find_exchange(environment, "local.message");
  const auto* all_reduces = database.find_exchange(environment, "local.all-reduce");
  if (messages == nullptr && all_reduces == nullptr) return;
  const partition::Link link = partition::fit_link(messages, all_reduces);
  cluster.between = link;
  for (partition::ClusterNode& node : cluster.nodes) node.inside = link;
}

namespace {

std::string measured_environments(const ProfileDatabase& database) {
  return fmt::format("; the file has measurements for '{}'", fmt::join(database.environments(), "', '"));
}

/// Remarks on tasks of the graph without a measurement in the environment.
std::optional<std::string> missing_tasks(const ir::Graph& graph, const DatabaseCosts& costs,
                                         const std::string& environment) {
  const auto distinct = distinct_tasks(graph, ir::gradient_roles(graph, ir::needs_gradient(graph)));
  const auto missing = std::count_if(distinct.begin(), distinct.end(), [&](const auto& entry) {
    return costs.database.find(environment, entry.first) == nullptr;
  });
  if (missing == 0) return std::nullopt;
  const bool none = costs.database.entries(environment) == 0;
  return fmt::format("{}: of {} distinct tasks, {} have no measurement for '{}' and are estimated{}", costs.file,
                     distinct.size(), missing, environment, none ? measured_environments(costs.database) : "");
}

}  // namespace

std::shared_ptr<const partition::CostModel> database_costs(const ir::Graph& graph, const DatabaseCosts& costs,
                                                           const std::function<void(const std::string&)>& remark) {
  partition::KindEnvironments measured;
  std::vector<std::string> others;
  std::set<std::string> environments;
  for (const std::string& kind : costs.kinds) {
    const auto found = costs.environments.find(kind);
    if (found == costs.environments.end()) {
      others.push_back(kind);
      continue;
    }
    environments.insert(found->second);
    if (costs.database.entries(found->second) > 0) measured.insert(*found);
  }
  if (remark) {
    if (!others.empty()) {
      remark(fmt::format("{}: there are no measurements of {}, whose prices are estimated from the cluster's rates{}",
                         costs.file, fmt::join(others, ", "), measured_environments(costs.database)));
    }
    for (const std::string& environment : environments) {
      if (const auto missing = missing_tasks(graph, costs, environment)) remark(*missing);
    }
  }
  if (measured.empty()) return partition::analytic_costs(costs.estimates);
  return partition::measured_costs(costs.database, measured, partition::analytic_costs(costs.estimates));
}

}  // namespace rannc::tools
