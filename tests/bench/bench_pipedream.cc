// Benchmark g: PipeDream's profiles under its own hierarchical DP, wide graphs included.
//
// One line per file and device count: bottleneck in seconds, a lower bound, the gap, seconds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "ir/base/replacement.h"
#include "partition/reference/pipedream_bound.h"
#include "partition/stages/papers/pipedream.h"

namespace {

using namespace rannc::partition;

/// The DP is exact over all cuts of the model; beyond, cuts are bounded by classes.
double bound_of(const PipedreamProfile& profile, const CutStates& states, const PipedreamPlan& plan, uint32_t devices,
                double bandwidth) {
  return states.complete ? plan.bottleneck_s : pipedream_bound(profile, devices, bandwidth, plan.bottleneck_s);
}

std::string describe(const PipedreamPlan& plan) {
  std::string text;
  for (const PipedreamStage& stage : plan.stages) {
    text += fmt::format("{}[{},{})x{}", text.empty() ? "" : " ", stage.from, stage.to, stage.replicas);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"PipeDream's profiles under its hierarchical DP"};
  std::string folder;
  std::vector<uint32_t> devices{4, 8, 16};
  double bandwidth = 1e9, seconds_limit = 600, most_seconds = 1;
  bool json = false, straight = false, late = false;
  app.add_option("folder", folder, "folder of PipeDream text graphs")->required();
  app.add_option("--devices", devices, "device counts of one level")->delimiter(',');
  app.add_option("--bandwidth", bandwidth, "bytes per second between devices")->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds_limit, "start no further case after so many");
  app.add_option("--most-seconds", most_seconds, "exit with 1 if a case takes more processor seconds");
  app.add_flag("--straight", straight, "one device per stage");
  app.add_flag("--json", json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [](auto start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (const auto& path : files) {
    const auto profile = read_pipedream(rannc::read_file(path).value(), path.string());
    if (!profile.ok()) {
      fmt::print(stderr, "{}\n", profile.diagnostic().str());
      return 1;
    }
    for (const uint32_t count : devices) {
      if (since(begin) > seconds_limit) return 0;
      const std::clock_t start = std::clock();
      const auto states = cut_states(*profile);
      if (!states.ok()) {
        fmt::print(stderr, "{}: {}\n", path.string(), states.diagnostic().str());
        return 1;
      }
      const PipedreamPlan plan = pipedream_dp(*states, {{count, bandwidth}}, {.straight = straight});
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      late = late || seconds > most_seconds;
      const double bound = bound_of(*profile, *states, plan, count, bandwidth);
      const std::string file = path.filename().string();
      if (json) {
        fmt::print(
            "{{\"file\": \"{}\", \"devices\": {}, \"objective\": {}, \"lower_bound\": {}, \"seconds\": {:.3f}, "
            "\"states\": {}, \"all_states\": {}}}\n",
            file, count, plan.bottleneck_s, bound, seconds, states->size(), states->complete);
      } else {
        fmt::print("{:<20} {:>4}  {:.6f} s  bound {:.6f} s  gap {:>7.2f} %  {:.3f} s  {} states{}  {}\n", file, count,
                   plan.bottleneck_s, bound, 100 * (plan.bottleneck_s / bound - 1), seconds, states->size(),
                   states->complete ? "" : " (prefixes of one order)", describe(plan));
      }
      std::fflush(stdout);
    }
  }
  if (late) fmt::print(stderr, "a case took more than {} processor seconds\n", most_seconds);
  return late ? 1 : 0;
}
