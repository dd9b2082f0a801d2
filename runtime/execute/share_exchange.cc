#include "runtime/internal/share_exchange.h"

#include <algorithm>

namespace rannc::runtime {

namespace {

/// Splits a share into parts of `size` elements; the last may be smaller.
std::vector<std::vector<ir::ParameterSlice>> parts_of(const std::vector<ir::ParameterSlice>& share, int64_t size) {
  std::vector<std::vector<ir::ParameterSlice>> rounds;
  int64_t left = 0;  // elements that the last round still takes
  for (const ir::ParameterSlice& slice : share) {
    for (int64_t first = slice.first; first < slice.last;) {
      if (left == 0) {
        rounds.emplace_back();
        left = size;
      }
      const int64_t last = std::min(slice.last, first + left);
      rounds.back().push_back({slice.parameter, first, last});
      left -= last - first;
      first = last;
    }
  }
  return rounds;
}

}  // namespace

std::vector<int64_t> parameter_elements(const Program& program) {
  std::vector<int64_t> elements;
  for (const Value& parameter : program.parameters()) {
    int64_t count = 1;
    for (const int64_t extent : parameter->spec().shape) count *= extent;
    elements.push_back(count);
  }
  return elements;
}

ShareExchange::ShareExchange(StageId stage, const std::vector<DeviceId>& members,
                             const std::vector<std::vector<ir::ParameterSlice>>& shares, Program& program,
                             Transport& transport)
    : stage_(stage),
      members_(members),
      program_(program),
      transport_(transport),
      replica_(position_in(members, transport.device())) {
  for (const auto& share : shares) rounds_.push_back(parts_of(share, ir::elements_per_round(members.size())));
}

template <class Visit>
Result<void> ShareExchange::each_round(Visit&& visit) const {
  size_t count = 0;
  for (const auto& rounds : rounds_) count = std::max(count, rounds.size());
  for (size_t round = 0; round < count; ++round) RANNC_TRY(visit(round));
  return {};
}

std::vector<Values> ShareExchange::parts(const Values& whole, size_t round, const std::set<uint32_t>& without) const {
  std::vector<Values> parts(members_.size());
  for (size_t r = 0; r < members_.size(); ++r) {
    if (round >= rounds_[r].size()) continue;
    for (const ir::ParameterSlice& slice : rounds_[r][round]) {
      if (!without.contains(slice.parameter))
        parts[r].push_back(whole[slice.parameter]->elements(slice.first, slice.last));
    }
  }
  return parts;
}

Result<void> ShareExchange::reduce_scatter(uint64_t step, const std::set<uint32_t>& summed) {
  Values gradients(program_.parameters().size());
  for (uint32_t i = 0; i < gradients.size(); ++i) {
    if (summed.contains(i)) continue;
    gradients[i] = program_.gradients({&i, 1}).front()->contiguous();
    program_.set_gradients({&i, 1}, {gradients[i]});
  }
  CollectiveKey key{step, CollectiveKey::Kind::kReduceScatter, stage_.index()};
  return each_round([&](size_t round) -> Result<void> {
    const std::vector<Values> terms = parts(gradients, round, summed);
    key.part = static_cast<uint32_t>(round);
    RANNC_ASSIGN(const Values sums, transport_.reduce_scatter(key, members_, terms));
    for (size_t i = 0; i < sums.size(); ++i) terms[replica_][i]->overwrite(*sums[i]);
    return {};
  });
}

Result<void> ShareExchange::all_gather(uint64_t step) {
  CollectiveKey key{step, CollectiveKey::Kind::kAllGather, stage_.index()};
  return each_round([&](size_t round) {
    key.part = static_cast<uint32_t>(round);
    return transport_.all_gather(key, members_, parts(program_.parameters(), round, {}));
  });
}

}  // namespace rannc::runtime
