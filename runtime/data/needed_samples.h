/// The part of a mini-batch that a process of a run reads.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::runtime {

/// Inputs that a process reads, and the samples of the mini-batch that it reads of them.
struct NeededSamples {
  std::set<std::string> inputs;         ///< names of graph inputs; those without samples are read as a whole
  std::vector<ir::SampleRange> ranges;  ///< ascending, separate; of the samples of a mini-batch

  uint64_t samples() const;
  /// Numbers of the samples in the mini-batch, ascending.
  std::vector<uint64_t> numbers() const;
  /// Where the range lies among these samples. It must lie within one of `ranges`.
  ir::SampleRange place_of(ir::SampleRange range) const;
};

/// Samples of a mini-batch that a replica of a stage computes.
std::vector<ir::SampleRange> replica_ranges(const ir::PipelineShape& shape, StageId stage, size_t replica);

/// Returns the same samples as separate, ascending ranges.
std::vector<ir::SampleRange> merged(std::vector<ir::SampleRange> ranges);

}  // namespace rannc::runtime
