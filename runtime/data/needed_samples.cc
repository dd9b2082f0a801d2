#include "runtime/data/needed_samples.h"

#include <algorithm>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

uint64_t NeededSamples::samples() const {
  uint64_t count = 0;
  for (const ir::SampleRange& range : ranges) count += static_cast<uint64_t>(range.size());
  return count;
}

std::vector<uint64_t> NeededSamples::numbers() const {
  std::vector<uint64_t> all;
  for (const ir::SampleRange& range : ranges) {
    for (int64_t sample = range.first; sample < range.last; ++sample) all.push_back(static_cast<uint64_t>(sample));
  }
  return all;
}

ir::SampleRange NeededSamples::place_of(ir::SampleRange range) const {
  int64_t before = 0;
  for (const ir::SampleRange& own : ranges) {
    if (range.first >= own.first && range.last <= own.last)
      return {before + range.first - own.first, before + range.last - own.first};
    before += own.size();
  }
  RANNC_CHECK(false) << "samples " << range.first << " to " << range.last << " were not read";
  return {};
}

std::vector<ir::SampleRange> replica_ranges(const ir::PipelineShape& shape, StageId stage, size_t replica) {
  const size_t replicas = shape.stages[stage.index()].devices.size();
  std::vector<ir::SampleRange> ranges;
  int64_t before = 0;
  for (const uint32_t samples : shape.micro_batches) {
    const ir::SampleRange own = ir::replica_samples(samples, replica, replicas);
    ranges.push_back({before + own.first, before + own.last});
    before += samples;
  }
  return merged(std::move(ranges));
}

std::vector<ir::SampleRange> merged(std::vector<ir::SampleRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ir::SampleRange> all;
  for (const ir::SampleRange& range : ranges) {
    if (range.empty()) continue;
    if (all.empty() || all.back().last < range.first) {
      all.push_back(range);
    } else {
      all.back().last = std::max(all.back().last, range.last);
    }
  }
  return all;
}

}  // namespace rannc::runtime
