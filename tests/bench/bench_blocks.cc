// Compares block partitioners for cut quality, time and memory on generated graphs and tiled profiles.
//
//   bench-blocks [FOLDER] [--tasks 15000,100000,1000000] [--devices 8,32] [--seeds 1] [--weights unit,random]
//                [--families x,y] [--partitioners own,rival,rival] [--seconds S] [--json]
// A case is a graph and a number of blocks; its line says what our partitioner cost (each value once per receiving
// block), the lower bound, the gap, CPU seconds (the least of up to three runs), bytes per task beyond the graph's own,
// and our cost over the best rival's. A rival out of balance is compared with our run at the imbalance that it took.
// The last lines count the cases within the bars, and fit time = c * tasks^exponent per family. Exit status 1: a ratio
// bar is missed, or a file could not be read.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"
#include "partition/blocks/block_partitioner.h"
#include "partition/blocks/interval_cut.h"
#include "partition/formats/pipedream_text.h"
#include "tests/bench/cpu_seconds.h"
#include "tests/partition/blocks/crossing_bound.h"
#include "tests/partition/blocks/random_graphs.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
using bench::cpu_seconds;
namespace fs = std::filesystem;
using partition::testing::Weights;

constexpr double kBytesPerSecond = 25e9;
constexpr double kTransfers = 2;  // a value, and its gradient back
constexpr double kImbalance = 0.03;
constexpr double kRounding = 1 + 1e-9;

/// Highest resident bytes since the last reset; Linux only, 0 elsewhere.
double peak_bytes(bool reset) {
  if (reset) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
  }
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

struct Case {
  std::string file;
  std::string family;  ///< cases of one family and different sizes are fitted together
  Dag dag;
};

/// A profile repeated until it has about `tasks` tasks, or as it is for 0; each copy's sources read the last task of
/// the copy before whose value is not free.
Dag tile(const PipedreamProfile& profile, uint32_t tasks) {
  PipedreamProfile out;
  const uint32_t n = static_cast<uint32_t>(profile.nodes.size());
  const uint32_t copies = std::max(1u, tasks / std::max(1u, n));
  std::vector<bool> has_input(n, false);
  for (const auto& [from, to] : profile.edges) has_input[to] = true;
  uint32_t last = 0;
  for (uint32_t i : topological_order(dag_of_profile(profile, 1, 1)).value()) {
    if (profile.nodes[i].activation_sum() > 0) last = i;
  }
  for (uint32_t copy = 0; copy < copies; ++copy) {
    out.nodes.insert(out.nodes.end(), profile.nodes.begin(), profile.nodes.end());
    for (const auto& [from, to] : profile.edges) out.edges.emplace_back(from + copy * n, to + copy * n);
    for (uint32_t i = 0; i < n && copy > 0; ++i) {
      if (!has_input[i]) out.edges.emplace_back(last + (copy - 1) * n, i + copy * n);
    }
  }
  return dag_of_profile(out, kBytesPerSecond, kTransfers);
}

struct Measured {
  std::string partitioner;
  double cost = 0;
  double imbalance = 0;
  double seconds = 0;
  double bytes_per_task = 0;
};

/// The first run counts the bytes; runs are repeated while they are short, and the fastest counts.
Result<Measured> run(const Dag& dag, const std::string& name, uint32_t blocks, double imbalance, uint32_t runs) {
  RANNC_ASSIGN(const auto partitioner, make_block_partitioner(name));
  BlockOptions options;
  options.blocks = blocks;
  options.imbalance = imbalance;
  Measured out{name, 0, 0, std::numeric_limits<double>::infinity(), 0};
  std::optional<BlockPartition> partition;
  for (uint32_t i = 0; i < runs && (i == 0 || out.seconds < 0.1); ++i) {
    const double before = i == 0 ? peak_bytes(true) : 0, start = cpu_seconds();
    RANNC_ASSIGN(BlockOutcome outcome, partitioner->partition(dag, options));
    out.seconds = std::min(out.seconds, cpu_seconds() - start);
    if (i == 0) out.bytes_per_task = (peak_bytes(false) - before) / dag.tasks();
    if (!outcome.partition) return error(outcome.reason);
    partition = std::move(outcome.partition);
  }
  const PartitionMetrics metrics = measure(dag, partition->block_of, blocks);
  double total = 0;
  for (const BlockLoad& block : metrics.blocks) total += block.work;
  out.cost = metrics.crossing_cost;
  out.imbalance = total > 0 ? metrics.largest_work * blocks / total - 1 : 0;
  return out;
}

/// What one case showed.
struct Comparison {
  Measured own;
  std::vector<Measured> rivals;
  double lower_bound = 0;
  double ratio = 0;  ///< our cost over the best rival's; 0 without rivals
  std::string best;  ///< that rival

  double gap() const { return own.cost > 0 ? own.cost / lower_bound - 1 : 0; }
};

Result<Comparison> compare(const Dag& dag, const std::vector<std::string>& names, uint32_t blocks) {
  Comparison out;
  RANNC_ASSIGN(out.own, run(dag, names.front(), blocks, kImbalance, 3));
  RANNC_ASSIGN(const std::vector<uint32_t> order, topological_order(dag));
  const LevelGraph graph = level_zero(dag, order, 1);
  out.lower_bound = crossing_bound(graph, blocks, work_limit(graph, blocks, kImbalance));
  for (size_t i = 1; i < names.size(); ++i) {
    RANNC_ASSIGN(Measured rival, run(dag, names[i], blocks, kImbalance, 1));
    double cost = out.own.cost;
    if (rival.imbalance > std::max(kImbalance, out.own.imbalance) * kRounding) {
      RANNC_ASSIGN(const Measured looser, run(dag, names.front(), blocks, rival.imbalance, 1));
      cost = std::min(cost, looser.cost);
    }
    const double ratio = rival.cost > 0 ? cost / rival.cost : (cost > 0 ? INFINITY : 1);
    if (ratio > out.ratio) {
      out.ratio = ratio;
      out.best = names[i];
    }
    out.rivals.push_back(std::move(rival));
  }
  return out;
}

nlohmann::ordered_json json_line(const Case& item, uint32_t blocks, const Comparison& c) {
  nlohmann::ordered_json line{{"file", item.file},
                              {"devices", blocks},
                              {"objective", c.own.cost},
                              {"lower_bound", c.lower_bound},
                              {"seconds", c.own.seconds},
                              {"tasks", item.dag.tasks()},
                              {"partitioner", c.own.partitioner},
                              {"imbalance", c.own.imbalance},
                              {"bytes_per_task", c.own.bytes_per_task},
                              {"ratio", c.ratio},
                              {"best_rival", c.best},
                              {"rivals", nlohmann::ordered_json::array()}};
  for (const Measured& rival : c.rivals) {
    line["rivals"].push_back({{"partitioner", rival.partitioner},
                              {"objective", rival.cost},
                              {"imbalance", rival.imbalance},
                              {"seconds", rival.seconds}});
  }
  return line;
}

/// Collects all cases for the last lines.
class Summary {
 public:
  void add(const Case& item, const Comparison& c) {
    if (!c.rivals.empty()) ratios_.push_back(c.ratio);
    auto& [seconds, runs] = families_[item.family][item.dag.tasks()];
    seconds += c.own.seconds;
    ++runs;
    auto& [slowest, bytes] = sizes_[item.dag.tasks()];
    slowest = std::max(slowest, c.own.seconds);
    bytes = std::max(bytes, c.own.bytes_per_task);
  }

  bool within_bars() const {
    return ratios_.empty() || (within(1.00) * 10 >= ratios_.size() * 9 && within(1.02) == ratios_.size());
  }

  void print() const {
    for (const auto& [family, points] : families_) {
      if (points.size() < 2 || points.rbegin()->first < 2 * points.begin()->first) continue;
      std::cout << fmt::format("time exponent {:5.2f} {}\n", exponent(points), family);
    }
    double most = 0;
    for (const auto& [tasks, extremes] : sizes_) {
      if (tasks >= 10'000) most = std::max(most, extremes.second);
    }
    std::cout << fmt::format("at most {:.0f} bytes per task from 10,000 tasks on\n", most);
    if (ratios_.empty()) return;
    std::cout << fmt::format("{} cells: {} at most 1.00, {} at most 1.02, worst {:.4f}\n", ratios_.size(), within(1.00),
                             within(1.02), *std::max_element(ratios_.begin(), ratios_.end()));
  }

 private:
  using Points = std::map<uint32_t, std::pair<double, uint32_t>>;  // tasks -> seconds in all, runs

  size_t within(double limit) const {
    return static_cast<size_t>(
        std::count_if(ratios_.begin(), ratios_.end(), [&](double r) { return r <= limit * kRounding; }));
  }

  /// Least squares of log(mean seconds) over log(tasks).
  static double exponent(const Points& points) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const auto& [tasks, point] : points) {
      const double lx = std::log(tasks), ly = std::log(std::max(1e-6, point.first / point.second));
      n += 1;
      x += lx;
      y += ly;
      xx += lx * lx;
      xy += lx * ly;
    }
    return (n * xy - x * y) / (n * xx - x * x);
  }

  std::vector<double> ratios_;
  std::map<std::string, Points> families_;
  std::map<uint32_t, std::pair<double, double>> sizes_;  // tasks -> slowest seconds, most bytes per task
};

struct Settings {
  std::string folder;
  std::vector<uint32_t> tasks{15'000, 100'000, 1'000'000}, blocks{8, 32};
  std::vector<std::string> names{"multilevel", "metis", "rannc-no-uncoarsening", "rannc", "order-dp"}, families;
  std::vector<std::string> weights{"unit"};
  std::vector<uint64_t> seeds{1};
  double seconds = 0;
  bool json = false;
};

/// Runs cases until the time is over.
class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {}

  void run_case(const Case& item) {
    for (uint32_t k : settings_.blocks) {
      if (settings_.seconds > 0 && std::difftime(std::time(nullptr), begin_) > settings_.seconds) {
        out_of_time_ = true;
        return;
      }
      if (k > item.dag.tasks()) continue;
      const Result<Comparison> result = compare(item.dag, settings_.names, k);
      if (!result.ok()) {
        fail(item.file + ": " + result.diagnostic().str());
        continue;
      }
      summary_.add(item, *result);
      print(item, k, *result);
    }
  }

  void fail(const std::string& message) {
    std::cerr << message << '\n';
    failed_ = true;
  }

  int finish() const {
    if (out_of_time_) std::cerr << "the time is over; cases are missing\n";
    if (!settings_.json) summary_.print();
    return failed_ || !summary_.within_bars() ? 1 : 0;
  }

 private:
  void print(const Case& item, uint32_t k, const Comparison& c) const {
    if (settings_.json) {
      std::cout << json_line(item, k, c).dump() << std::endl;
      return;
    }
    std::cout << fmt::format("{:28} {:8} {:4} {:12.2f} {:12.2f} {:7.2f}% {:8.3f}s {:4.0f} B/task", item.file,
                             item.dag.tasks(), k, c.own.cost, c.lower_bound, 100 * c.gap(), c.own.seconds,
                             c.own.bytes_per_task);
    if (!c.rivals.empty()) std::cout << fmt::format("  {:.4f} of {}", c.ratio, c.best);
    std::cout << std::endl;
  }

  const Settings& settings_;
  std::time_t begin_ = std::time(nullptr);
  Summary summary_;
  bool out_of_time_ = false, failed_ = false;
};

void run_families(const Settings& settings, uint32_t tasks, Bench& bench) {
  for (const std::string& family : settings.families) {
    for (const std::string& weights : settings.weights) {
      const bool random = weights == "random";
      const std::string label = random ? family + "-weighted" : family;
      for (uint64_t seed : settings.seeds) {
        bench.run_case(
            {label + "-" + std::to_string(seed), label,
             partition::testing::make_graph({family, tasks, seed, random ? Weights::kRandom : Weights::kUnit})});
      }
    }
  }
}

std::vector<fs::path> profiles_in(const std::string& folder) {
  std::vector<fs::path> files;
  if (folder.empty()) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void run_profile(const fs::path& path, const std::string& name, uint32_t tasks, Bench& bench) {
  const auto profile = read_pipedream(read_file(path).value(), name);
  if (!profile.ok()) return bench.fail(profile.diagnostic().str());
  const auto valid = validate(dag_of_profile(*profile, kBytesPerSecond, kTransfers));
  if (!valid.ok()) return bench.fail(name + ": " + valid.diagnostic().str());
  bench.run_case({name, name, tile(*profile, tasks)});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Cut quality, time and memory of block partitioners"};
  Settings settings;
  auto list = [&](const char* name, auto& values, const char* text) {
    return app.add_option(name, values, text)->delimiter(',')->allow_extra_args(false);
  };
  app.add_option("folder", settings.folder, "folder of PipeDream profiles to tile")->check(CLI::ExistingDirectory);
  list("--tasks", settings.tasks, "sizes; 0 = profiles as they are");
  list("--devices", settings.blocks, "numbers of blocks");
  list("--partitioners", settings.names, "which; the first is compared with the others");
  list("--families", settings.families, "generated families; all where there is no folder");
  list("--weights", settings.weights, "of generated graphs")->check(CLI::IsMember({"unit", "random"}));
  list("--seeds", settings.seeds, "of generated graphs");
  app.add_option("--seconds", settings.seconds, "end after this wall-clock time; 0 = none");
  app.add_flag("--json", settings.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  if (settings.families.empty() && settings.folder.empty()) settings.families = partition::testing::graph_families();

  Bench bench(settings);
  const std::vector<fs::path> files = profiles_in(settings.folder);
  for (uint32_t tasks : settings.tasks) {
    if (tasks > 0) run_families(settings, tasks, bench);
    for (const fs::path& path : files) {
      run_profile(path, fs::relative(path, settings.folder).string(), tasks, bench);
    }
  }
  return bench.finish();
}
