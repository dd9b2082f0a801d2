/// Shares of a stage's parameters, of which each replica keeps the optimizer state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace rannc::ir {

/// Shares begin and end at multiples of so many elements of a parameter, or at its ends. It is a multiple of all vector
/// lengths, so kernels compute the same bits for a slice as for the whole parameter.
inline constexpr int64_t kShareCut = 4096;

/// Elements [first, last) of a parameter in memory order; never empty.
struct ParameterSlice {
  uint32_t parameter = 0;  ///< index among those of the stage
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first; }
  bool operator==(const ParameterSlice&) const = default;
};

/// A parameter to share out.
struct ParameterExtent {
  int64_t elements = 0;
  bool divisible = true;  ///< false: it has one owner (`StoredUpdate::divisible`)
};

/// Indices of parameters whose gradients are summed together.
using ParameterBucket = std::vector<uint32_t>;

/// Shares of a stage's parameters: by bucket, then by replica, slices in the order of the bucket.
using OptimizerShares = std::vector<std::vector<std::vector<ParameterSlice>>>;

/// Cuts each bucket for the replicas. The buckets and one more of the parameters that are in none of them, which may be
/// empty, cover each parameter once.
///
/// The parameters are laid end to end, bucket by bucket. Replica r of n has in each bucket what lies behind the last
/// permitted cut up to total * r / n elements of this bucket and all before it, or behind the nearer end of a parameter
/// that is not divisible. So all slices of a replica differ from its even part by less than a cut and one such
/// parameter, however small the buckets are. A parameter of less than `kShareCut` elements has one owner.
OptimizerShares optimizer_shares(std::span<const ParameterExtent> parameters, std::vector<ParameterBucket> buckets,
                                 size_t replicas);

/// All slices of a replica, by ascending parameter.
std::vector<ParameterSlice> share_of_replica(const OptimizerShares& shares, size_t replica);

/// Elements of each share that one round of messages between `replicas` replicas moves. Limits the memory of a round to
/// 2^20 elements, and at least `kShareCut` of each share.
inline int64_t elements_per_round(size_t replicas) {
  const int64_t even = (int64_t{1} << 20) / static_cast<int64_t>(replicas);
  return std::max(even / kShareCut, int64_t{1}) * kShareCut;
}

}  // namespace rannc::ir
