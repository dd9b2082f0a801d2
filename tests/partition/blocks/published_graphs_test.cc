// R5 on published profiles and placement graphs: uncoarsening lowers what crosses between the final blocks, or leaves
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ir/base/replacement.h"
#include "partition/blocks/block_partitioner.h"
#include "partition/formats/pipedream_text.h"
#include "partition/formats/placement_json.h"

namespace rannc::partition {
namespace {

namespace fs = std::filesystem;

/// A task per unit of a placement graph. Values whose reader precedes their producer only cost, and are left out.
Dag dag_of_placement(const SplitProblem& problem) {
  Dag dag;
  dag.forward = problem.work;
  dag.backward.assign(problem.units(), 0);
  dag.resident_bytes = problem.bytes;
  dag.stashed_bytes.assign(problem.units(), 0);
  dag.value_readers.offsets.push_back(0);
  for (uint32_t value = 0; value < problem.pins.rows(); ++value) {
    std::vector<uint32_t> pins(problem.pins.row(value).begin(), problem.pins.row(value).end());
    const uint32_t producer = pins.front();
    std::sort(pins.begin(), pins.end());
    if (pins.front() != producer) continue;
    dag.value_producer.push_back(producer);
    dag.value_bytes.push_back(0);
    dag.value_cost.push_back(problem.cost[value]);
    dag.value_readers.items.insert(dag.value_readers.items.end(), pins.begin() + 1, pins.end());
    dag.value_readers.offsets.push_back(static_cast<uint32_t>(dag.value_readers.items.size()));
  }
  index_tasks(dag);
  return dag;
}

Dag read_graph(const fs::path& path) {
  const std::string text = read_file(path.string()).value();
  if (path.extension() == ".txt") return dag_of_profile(read_pipedream(text, path.string()).value(), 25e9, 2);
  return dag_of_placement(make_split_problem(read_placement(text, path.string()).value().source).value());
}

std::vector<fs::path> graphs_in(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".txt" || entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

double crossing(const std::string& name, const Dag& dag, uint32_t blocks) {
  BlockOptions options;
  options.blocks = blocks;
  const auto outcome = (*make_block_partitioner(name))->partition(dag, options);
  EXPECT_TRUE(outcome.ok() && outcome->partition) << name;
  return measure(dag, outcome->partition->block_of, blocks).crossing_cost;
}

/// The number of cases in which blocks became better.
uint32_t expect_never_worse(const std::vector<fs::path>& files) {
  uint32_t lower = 0;
  for (const fs::path& file : files) {
    const Dag dag = read_graph(file);
    for (uint32_t blocks = 2; blocks <= std::min(dag.tasks(), 32u); ++blocks) {
      const double before = crossing("rannc-no-uncoarsening", dag, blocks);
      for (const std::string& name : block_partitioner_names()) {
        if (!name.starts_with("rannc")) continue;
        const double after = crossing(name, dag, blocks);
        EXPECT_LE(after, before * (1 + 1e-9)) << name << ": " << file << " in " << blocks << " blocks";
        lower += after < before * (1 - 1e-9);
      }
    }
  }
  return lower;
}

TEST(PublishedGraphs, UncoarseningNeverRaisesWhatCrosses) {
  const char* folder = std::getenv("RANNC_SHARED_DIR");
  const fs::path data = fs::path(folder != nullptr ? folder : RANNC_SOURCE_DIR "/../shared") / "data";
  std::vector<fs::path> files;
  for (const char* kind : {"dapple", "pipedream", "placement"}) {
    const std::vector<fs::path> found = graphs_in(data / kind);
    if (found.empty()) GTEST_SKIP() << "no shared data at hand";
    files.insert(files.end(), found.begin(), found.end());
  }
  EXPECT_GE(files.size(), 26u);
  EXPECT_GE(expect_never_worse(files), 200u);
}

TEST(PublishedGraphs, UncoarseningNeverRaisesWhatCrossesOnCheckedInProfiles) {
  const std::vector<fs::path> files = graphs_in(RANNC_SOURCE_DIR "/tests/data/profiles");
  ASSERT_FALSE(files.empty());
  expect_never_worse(files);
}

}  // namespace
}  // namespace rannc::partition
