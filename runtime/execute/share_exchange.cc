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

ShareExchange::ShareExchange(StageId stage, const std::vector<DeviceId>& members, const ir::OptimizerShares& shares,
                             Program& program, Transport& transport)
    : stage_(stage), members_(members), program_(program), transport_(transport) {
  const int64_t size = ir::elements_per_round(members.size());
  for (const auto& by_replica : shares) {
    std::vector<Round>& rounds = rounds_.emplace_back();
    for (size_t r = 0; r < by_replica.size(); ++r) {
      const auto own = parts_of(by_replica[r], size);
      if (rounds.size() < own.size()) rounds.resize(own.size(), Round(by_replica.size()));
      for (size_t i = 0; i < own.size(); ++i) rounds[i][r] = own[i];
    }
  }
}

std::vector<Values> ShareExchange::parts(const Values& whole, const Round& round) {
  std::vector<Values> parts(round.size());
  for (size_t r = 0; r < round.size(); ++r) {
    for (const ir::ParameterSlice& slice : round[r])
      parts[r].push_back(whole[slice.parameter]->elements(slice.first, slice.last));
  }
  return parts;
}

Result<std::vector<std::unique_ptr<PendingSum>>> ShareExchange::begin_reduce_scatter(
    uint64_t step, size_t bucket, const ir::ParameterBucket& parameters) {
  Values gradients(program_.parameters().size());
  for (const uint32_t i : parameters) {
    gradients[i] = program_.gradients({&i, 1}).front()->contiguous();
    program_.set_gradients({&i, 1}, {gradients[i]});
  }
  CollectiveKey key{step, CollectiveKey::Kind::kReduceScatter, stage_.index()};
  for (size_t before = 0; before < bucket; ++before) key.part += static_cast<uint32_t>(rounds_[before].size());
  std::vector<std::unique_ptr<PendingSum>> begun;
  for (const Round& round : rounds_[bucket]) {
    RANNC_ASSIGN(begun.emplace_back(), transport_.begin_reduce_scatter(key, members_, parts(gradients, round)));
    ++key.part;
  }
  return begun;
}

Result<void> ShareExchange::all_gather(uint64_t step) {
  CollectiveKey key{step, CollectiveKey::Kind::kAllGather, stage_.index()};
  for (const std::vector<Round>& rounds : rounds_) {
    for (const Round& round : rounds) {
      RANNC_TRY(transport_.all_gather(key, members_, parts(program_.parameters(), round)));
      ++key.part;
    }
  }
  return {};
}

}  // namespace rannc::runtime
