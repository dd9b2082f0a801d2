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

/// The slices of a replica's share, ascending; together the shares cover all parameters of a stage once.
///
/// The parameters are laid end to end. Share r of n begins at the last permitted cut up to total * r / n, or at the
/// nearer end of a parameter that is not divisible, so each share differs from total / n by less than one cut or one
/// such parameter. A parameter of less than `kShareCut` elements has one owner.
std::vector<ParameterSlice> optimizer_share(std::span<const ParameterExtent> parameters, size_t replica,
                                            size_t replicas);

/// Elements of each share that one round of messages between `replicas` replicas moves. Limits the memory of a round to
/// 2^20 elements, and at least `kShareCut` of each share.
inline int64_t elements_per_round(size_t replicas) {
  const int64_t even = (int64_t{1} << 20) / static_cast<int64_t>(replicas);
  return std::max(even / kShareCut, int64_t{1}) * kShareCut;
}

}  // namespace rannc::ir
