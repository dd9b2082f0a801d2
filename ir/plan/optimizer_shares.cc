#include "ir/plan/optimizer_shares.h"

#include "ir/base/diagnostic.h"

namespace rannc::ir {

namespace {

// A permitted cut near `target`, which lies in [0, total): the last one up to it, or the nearer end of a parameter that
// is not divisible.
int64_t cut_before(std::span<const ParameterExtent> parameters, int64_t target) {
  int64_t begin = 0;
  for (const ParameterExtent& each : parameters) {
    if (target < begin + each.elements) {
      if (each.divisible) return begin + (target - begin) / kShareCut * kShareCut;
      return 2 * (target - begin) <= each.elements ? begin : begin + each.elements;
    }
    begin += each.elements;
  }
  return begin;
}

}  // namespace

std::vector<ParameterSlice> optimizer_share(std::span<const ParameterExtent> parameters, size_t replica,
                                            size_t replicas) {
  RANNC_CHECK(replica < replicas);
  int64_t total = 0;
  for (const ParameterExtent& each : parameters) total += each.elements;
  // total * r / n without overflow
  const auto target = [&](size_t r) {
    const auto n = static_cast<int64_t>(replicas), i = static_cast<int64_t>(r);
    return total / n * i + total % n * i / n;
  };
  const int64_t first = cut_before(parameters, target(replica));
  const int64_t last = replica + 1 == replicas ? total : cut_before(parameters, target(replica + 1));
  std::vector<ParameterSlice> share;
  int64_t begin = 0;
  for (uint32_t i = 0; i < parameters.size(); ++i) {
    const int64_t elements = parameters[i].elements;
    const int64_t from = std::max(first, begin) - begin, to = std::min(last, begin + elements) - begin;
    if (from < to) share.push_back({i, from, to});
    begin += elements;
  }
  return share;
}

}  // namespace rannc::ir
