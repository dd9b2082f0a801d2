// Compares block partitioners for cut quality, time and memory on generated graphs and tiled profiles.
//
//   bench-blocks [FOLDER] [--tasks 15000,100000] [--devices 32] [--partitioners a,b] [--families x,y] [--json]
// One line per graph, k and partitioner: crossing cost (each value once per receiving block), imbalance, CPU seconds,
// bytes per task beyond the graph's own. No bound is computed, so the JSON says 0. The last lines give, per graph, our
// cost over the best rival's; a rival out of balance is compared with our run at the imbalance that it took.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "partition/blocks/block_partitioner.h"
#include "partition/formats/pipedream_text.h"
#include "tests/partition/blocks/random_graphs.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
namespace fs = std::filesystem;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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
  Dag dag;
};

/// A profile repeated until it has about `tasks` tasks; each copy's sources read the last task of the copy before whose
/// value is not free.
Dag tile(const PipedreamProfile& profile, uint32_t tasks) {
  PipedreamProfile out;
  const uint32_t n = static_cast<uint32_t>(profile.nodes.size());
  const uint32_t copies = std::max(1u, tasks / n);
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
  return dag_of_profile(out, 25e9, 2);
}

struct Measured {
  double cost = 0;
  double imbalance = 0;
  double seconds = 0;
  double bytes_per_task = 0;
};

Measured run(const Case& item, const std::string& name, uint32_t blocks, double imbalance) {
  const auto partitioner = make_block_partitioner(name).value();
  BlockOptions options;
  options.blocks = blocks;
  options.imbalance = imbalance;
  peak_bytes(true);
  const double before = peak_bytes(false), start = cpu_seconds();
  const BlockOutcome outcome = partitioner->partition(item.dag, options).value();
  Measured out;
  out.seconds = cpu_seconds() - start;
  out.bytes_per_task = (peak_bytes(false) - before) / item.dag.tasks();
  if (!outcome.partition) throw std::runtime_error(outcome.reason);
  const PartitionMetrics metrics = measure(item.dag, outcome.partition->block_of, blocks);
  double total = 0;
  for (const BlockLoad& block : metrics.blocks) total += block.work;
  out.cost = metrics.crossing_cost;
  out.imbalance = total > 0 ? metrics.largest_work * blocks / total - 1 : 0;
  return out;
}

struct Report {
  bool json = false;
  void line(const Case& item, uint32_t blocks, const std::string& name, const Measured& m) const {
    if (json) {
      std::cout << nlohmann::ordered_json{{"file", item.file},
                                          {"tasks", item.dag.tasks()},
                                          {"devices", blocks},
                                          {"partitioner", name},
                                          {"objective", m.cost},
                                          {"lower_bound", 0.0},
                                          {"imbalance", m.imbalance},
                                          {"seconds", m.seconds},
                                          {"bytes_per_task", m.bytes_per_task}}
                       .dump()
                << std::endl;
      return;
    }
    std::cout << fmt::format("{:28} {:8} {:4} {:22} {:12.2f} {:7.2f}% {:8.3f}s {:6.0f} B/task", item.file,
                             item.dag.tasks(), blocks, name, m.cost, 100 * m.imbalance, m.seconds, m.bytes_per_task)
              << std::endl;
  }
};

/// Our cost over the rival's at the rival's imbalance.
double ratio_to(const Case& item, uint32_t blocks, const Measured& own, const Measured& rival) {
  Measured compared = own;
  if (rival.imbalance > own.imbalance + 0.03) compared = run(item, "multilevel", blocks, rival.imbalance);
  compared.cost = std::min(compared.cost, own.cost);
  return rival.cost > 0 ? compared.cost / rival.cost : (compared.cost > 0 ? INFINITY : 1);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Cut quality, time and memory of block partitioners"};
  std::string folder;
  std::vector<uint32_t> tasks{15'000, 100'000}, blocks{32};
  std::vector<std::string> names{"multilevel", "metis", "rannc-no-uncoarsening", "order-dp"}, families;
  std::vector<uint64_t> seeds{1};
  Report report;
  double seconds = 0;
  app.add_option("folder", folder, "folder of PipeDream profiles to tile")->check(CLI::ExistingDirectory);
  app.add_option("--tasks", tasks, "sizes")->delimiter(',')->allow_extra_args(false);
  app.add_option("--devices", blocks, "numbers of blocks")->delimiter(',')->allow_extra_args(false);
  app.add_option("--partitioners", names, "which; the first is compared with the others")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--families", families, "generated families; all by default")->delimiter(',')->allow_extra_args(false);
  app.add_option("--seeds", seeds, "seeds of the generated graphs")->delimiter(',')->allow_extra_args(false);
  app.add_option("--seconds", seconds, "end after this wall-clock time; 0 = none");
  app.add_flag("--json", report.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  if (families.empty() && folder.empty()) families = partition::testing::graph_families();

  const std::time_t begin = std::time(nullptr);
  std::vector<double> ratios;
  auto compare = [&](const Case& item) {
    for (uint32_t k : blocks) {
      if (seconds > 0 && std::difftime(std::time(nullptr), begin) > seconds) return;
      double worst = 0;
      Measured own;
      for (const std::string& name : names) {
        const Measured measured = run(item, name, k, 0.03);
        report.line(item, k, name, measured);
        if (name == names.front()) {
          own = measured;
        } else {
          worst = std::max(worst, ratio_to(item, k, own, measured));
        }
      }
      if (names.size() < 2) continue;
      ratios.push_back(worst);
      if (!report.json) std::cout << fmt::format("  -> {:.4f} of the best rival\n", worst);
    }
  };
  for (uint32_t size : tasks) {
    for (const std::string& family : families) {
      for (uint64_t seed : seeds) {
        compare({family + "-" + std::to_string(seed), partition::testing::make_graph({family, size, seed})});
      }
    }
    if (folder.empty()) continue;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& path : files) {
      std::stringstream text;
      std::ifstream in(path, std::ios::binary);
      text << in.rdbuf();
      compare({path.filename().string(), tile(read_pipedream(text.str(), path.string()).value(), size)});
    }
  }
  const auto within = [&](double limit) {
    return std::count_if(ratios.begin(), ratios.end(), [&](double r) { return r <= limit * (1 + 1e-9); });
  };
  if (!report.json && !ratios.empty()) {
    std::cout << fmt::format("{} cells: {} at most 1.00, {} at most 1.02, worst {:.4f}\n", ratios.size(), within(1.00),
                             within(1.02), *std::max_element(ratios.begin(), ratios.end()));
  }
  return 0;
}
