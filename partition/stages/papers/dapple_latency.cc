// Implements Formulas 1-3 and Algorithm 1.
#include <algorithm>

#include "partition/stages/papers/dapple.h"

namespace rannc::partition {

size_t pivot_stage(const std::vector<LatencyStage>& stages, uint64_t micro_batches) {
  const double steady = static_cast<double>(micro_batches - 1);
  size_t pivot = stages.size() - 1;
  double between = 0;  // stages after s and before the pivot
  for (size_t s = pivot; s-- > 0;) {
    const double here = stages[s].forward + stages[s].backward;
    const double there = stages[pivot].forward + stages[pivot].backward;
    if (steady * here > steady * there + between) {
      pivot = s;
      between = 0;
    } else {
      between += here;
    }
  }
  return pivot;
}

double pipeline_latency(const std::vector<LatencyStage>& stages, uint64_t micro_batches, EndingCredit credit) {
  const size_t pivot = pivot_stage(stages, micro_batches);
  double warm_up = 0;
  for (size_t s = 0; s <= pivot; ++s) warm_up += stages[s].forward;
  const double steady = static_cast<double>(micro_batches - 1) * (stages[pivot].forward + stages[pivot].backward);
  double ending = 0, rest = 0;
  for (size_t s = pivot + 1; s-- > 0;) {
    rest += stages[s].backward;
    ending = std::max(ending, stages[s].all_reduce + rest);
  }
  // Sum of the backward times from the pivot to s inclusive, or of those strictly between the two.
  double head_start = credit == EndingCredit::kPrinted ? stages[pivot].backward : 0;
  for (size_t s = pivot + 1; s < stages.size(); ++s) {
    if (credit == EndingCredit::kPrinted) head_start += stages[s].backward;
    ending = std::max(ending, stages[s].all_reduce - head_start);
    if (credit == EndingCredit::kBetween) head_start += stages[s].backward;
  }
  return warm_up + steady + ending;
}

}  // namespace rannc::partition
