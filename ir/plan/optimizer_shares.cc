#include "ir/plan/optimizer_shares.h"

#include "ir/base/diagnostic.h"

namespace rannc::ir {

namespace {

// A permitted cut of a bucket near `target`: the last one up to it, or the nearer end of a parameter that is not
// divisible.
int64_t cut_before(std::span<const ParameterExtent> parameters, const ParameterBucket& bucket, int64_t target) {
  int64_t begin = 0;
  for (const uint32_t parameter : bucket) {
    const ParameterExtent& each = parameters[parameter];
    if (target < begin + each.elements) {
      if (target < begin) return begin;
      if (each.divisible) return begin + (target - begin) / kShareCut * kShareCut;
      return 2 * (target - begin) <= each.elements ? begin : begin + each.elements;
    }
    begin += each.elements;
  }
  return begin;
}

// The slices of elements [first, last) of a bucket.
std::vector<ParameterSlice> slices_between(std::span<const ParameterExtent> parameters, const ParameterBucket& bucket,
                                           int64_t first, int64_t last) {
  std::vector<ParameterSlice> slices;
  int64_t begin = 0;
  for (const uint32_t parameter : bucket) {
    const int64_t elements = parameters[parameter].elements;
    const int64_t from = std::max(first, begin) - begin, to = std::min(last, begin + elements) - begin;
    if (from < to) slices.push_back({parameter, from, to});
    begin += elements;
  }
  return slices;
}

void add_rest(std::vector<ParameterBucket>& buckets, size_t parameters) {
  std::vector<bool> listed(parameters);
  for (const ParameterBucket& bucket : buckets) {
    for (const uint32_t parameter : bucket) listed[parameter] = true;
  }
  ParameterBucket& rest = buckets.emplace_back();
  for (uint32_t i = 0; i < parameters; ++i) {
    if (!listed[i]) rest.push_back(i);
  }
}

}  // namespace

OptimizerShares optimizer_shares(std::span<const ParameterExtent> parameters, std::vector<ParameterBucket> buckets,
                                 size_t replicas) {
  RANNC_CHECK(replicas > 0);
  add_rest(buckets, parameters.size());
  const auto n = static_cast<int64_t>(replicas);
  std::vector<int64_t> given(replicas);  // by replica: elements of the buckets so far that it and those before it have
  OptimizerShares shares;
  int64_t total = 0;
  for (const ParameterBucket& bucket : buckets) {
    int64_t size = 0, cut = 0;
    for (const uint32_t parameter : bucket) size += parameters[parameter].elements;
    total += size;
    auto& by_replica = shares.emplace_back();
    for (int64_t r = 0; r < n; ++r) {
      // total * (r + 1) / n without overflow
      const int64_t even = total / n * (r + 1) + total % n * (r + 1) / n;
      int64_t& before = given[static_cast<size_t>(r)];
      const int64_t end = r + 1 == n ? size : std::max(cut, cut_before(parameters, bucket, even - before));
      by_replica.push_back(slices_between(parameters, bucket, cut, end));
      before += end;
      cut = end;
    }
  }
  return shares;
}

std::vector<ParameterSlice> share_of_replica(const OptimizerShares& shares, size_t replica) {
  std::vector<ParameterSlice> slices;
  for (const auto& by_replica : shares)
    slices.insert(slices.end(), by_replica[replica].begin(), by_replica[replica].end());
  std::sort(slices.begin(), slices.end(),
            [](const ParameterSlice& a, const ParameterSlice& b) { return a.parameter < b.parameter; });
  return slices;
}

}  // namespace rannc::ir
