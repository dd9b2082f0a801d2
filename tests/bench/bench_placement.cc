// Measures the contiguous split on a folder of placement JSON files and PipeDream profiles.
//
//   bench-placement FOLDER [--devices N,M] [--seconds S] [--exact] [--json]
// One line per file and device count: file, devices, objective, lower bound, gap, seconds (without parsing).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"
#include "partition/formats/pipedream_text.h"
#include "partition/formats/placement_json.h"
#include "partition/reference/contiguous_split.h"

namespace {

using namespace rannc;
using namespace rannc::partition;
namespace fs = std::filesystem;

constexpr double kProfileBytesPerSecond = 25e9;
constexpr double kTransfers = 2;  // the value, and its gradient back

struct Case {
  std::string file;
  SplitProblem problem;
  uint32_t devices = 4;
};

Result<Case> load(const fs::path& path, const std::string& name) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  Case out;
  out.file = name;
  if (path.extension() == ".json") {
    RANNC_ASSIGN(PlacementInput input, read_placement(text, name));
    out.devices = input.devices;
    RANNC_ASSIGN(out.problem, make_split_problem(input.source));
    return out;
  }
  RANNC_ASSIGN(const PipedreamProfile profile, read_pipedream(text, name));
  RANNC_ASSIGN(out.problem, split_problem_of(dag_of_profile(profile, kProfileBytesPerSecond, kTransfers)));
  return out;
}

void report(const Case& item, uint32_t devices, const SplitResult& result, double seconds, bool json) {
  if (json) {
    nlohmann::ordered_json line{{"file", item.file}, {"devices", devices}};
    if (result.device_of) {
      line["objective"] = result.largest_load;
      line["lower_bound"] = result.lower_bound;
      line["gap"] = result.gap();
      line["bound"] = result.bound;
    } else {
      line["objective"] = nullptr;
      line["reason"] = result.reason;
    }
    line["seconds"] = seconds;
    std::cout << line.dump() << std::endl;
  } else if (result.device_of) {
    std::cout << fmt::format("{:40} {:4} {:14.7f} {:14.7f} {:6.2f}% {:8.3f}s {}", item.file, devices,
                             result.largest_load, result.lower_bound, 100 * result.gap(), seconds, result.bound)
              << std::endl;
  } else {
    std::cout << fmt::format("{:40} {:4} {}", item.file, devices, result.reason) << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Largest load of a contiguous split over devices, with a lower bound"};
  std::string folder;
  std::vector<uint32_t> devices;
  SplitOptions options;
  bool json = false;
  app.add_option("folder", folder, "folder of .json placement inputs and .txt profiles")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--devices", devices, "device counts, comma separated")->delimiter(',')->allow_extra_args(false);
  app.add_option("--seconds", options.seconds, "wall-clock limit of each case; 0 = none");
  app.add_flag("--exact", options.exact, "search until the gap is closed");
  app.add_flag("--json", json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);

  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".json" || extension == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  int failures = 0;
  for (const fs::path& path : files) {
    const auto item = load(path, fs::relative(path, folder).string());
    if (!item.ok()) {
      std::cerr << item.diagnostic().str() << '\n';
      ++failures;
      continue;
    }
    for (uint32_t count : devices.empty() ? std::vector<uint32_t>{item->devices} : devices) {
      options.devices = count;
      const auto start = std::chrono::steady_clock::now();
      const SplitResult result = solve_split(item->problem, options);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      report(*item, count, result, spent.count(), json);
    }
  }
  return failures == 0 ? 0 : 1;
}
