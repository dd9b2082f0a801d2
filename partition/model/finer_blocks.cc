#include "partition/model/finer_blocks.h"

#include <algorithm>

#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

namespace {

std::vector<std::vector<uint32_t>> members_of(const BlockPartition& blocks) {
  std::vector<std::vector<uint32_t>> members(blocks.count);
  for (uint32_t task = 0; task < blocks.block_of.size(); ++task) members[blocks.block_of[task]].push_back(task);
  return members;
}

// Returns the graph of these tasks alone. Values that enter or leave cost the same wherever it is cut. `place` is
// scratch with one entry per task of the whole graph.
Dag induced(const Dag& dag, const std::vector<uint32_t>& tasks, std::vector<uint32_t>& place) {
  Dag part;
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    place[tasks[i]] = i;
    part.forward.push_back(dag.forward[tasks[i]]);
    part.backward.push_back(dag.backward[tasks[i]]);
    part.resident_bytes.push_back(dag.resident_bytes[tasks[i]]);
    part.stashed_bytes.push_back(dag.stashed_bytes[tasks[i]]);
  }
  part.value_readers.offsets.push_back(0);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    for (const uint32_t value : dag.task_outputs.row(tasks[i])) {
      const size_t before = part.value_readers.items.size();
      for (const uint32_t reader : dag.value_readers.row(value)) {
        if (place[reader] < tasks.size() && tasks[place[reader]] == reader)
          part.value_readers.items.push_back(place[reader]);
      }
      if (part.value_readers.items.size() == before) continue;
      part.value_producer.push_back(i);
      part.value_bytes.push_back(dag.value_bytes[value]);
      part.value_cost.push_back(dag.value_cost[value]);
      part.value_readers.offsets.push_back(static_cast<uint32_t>(part.value_readers.items.size()));
    }
  }
  index_tasks(part);
  return part;
}

}  // namespace

Result<FinerBlocks> split_blocks(const Dag& dag, const BlockPartition& blocks, const std::vector<uint32_t>& pieces) {
  RANNC_CHECK(pieces.size() == blocks.count) << "a number of pieces for each block";
  RANNC_ASSIGN(const auto partitioner, make_block_partitioner("multilevel"));
  FinerBlocks finer;
  finer.partition.block_of.resize(blocks.block_of.size());
  std::vector<uint32_t> place(dag.tasks(), 0);
  const auto members = members_of(blocks);
  for (uint32_t block = 0; block < blocks.count; ++block) {
    const std::vector<uint32_t>& tasks = members[block];
    const uint32_t first = finer.partition.count;
    finer.first.push_back(first);
    BlockOptions options;
    options.blocks = std::min<uint32_t>(pieces[block], static_cast<uint32_t>(tasks.size()));
    if (options.blocks < 2) {
      for (const uint32_t task : tasks) finer.partition.block_of[task] = first;
      finer.partition.count += 1;
      continue;
    }
    RANNC_ASSIGN(const BlockOutcome cut, partitioner->partition(induced(dag, tasks, place), options));
    RANNC_CHECK(cut.partition.has_value()) << "a block without a memory limit is cut: " << cut.reason;
    for (uint32_t i = 0; i < tasks.size(); ++i) finer.partition.block_of[tasks[i]] = first + cut.partition->block_of[i];
    finer.partition.count += cut.partition->count;
  }
  finer.first.push_back(finer.partition.count);
  return finer;
}

std::vector<uint32_t> pieces_at_cuts(const StagePlan& plan, uint32_t blocks, uint32_t pieces) {
  std::vector<uint32_t> wanted(blocks, 1);
  for (size_t stage = 1; stage < plan.stages.size(); ++stage) {
    const uint32_t cut = plan.stages[stage].first;
    wanted[cut - 1] = wanted[cut] = pieces;
  }
  return wanted;
}

StagePlan over_finer_blocks(StagePlan plan, const FinerBlocks& finer) {
  for (PlannedStage& stage : plan.stages) {
    stage.first = finer.first[stage.first];
    stage.end = finer.first[stage.end];
  }
  return plan;
}

}  // namespace rannc::partition
