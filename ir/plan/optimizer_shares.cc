#include "ir/plan/optimizer_shares.h"

#include "ir/base/diagnostic.h"

namespace rannc::ir {

namespace {

// The last permitted cut up to `target`, which lies in [0, total).
int64_t cut_before(std::span<const int64_t> elements, int64_t target) {
  int64_t begin = 0;
  for (const int64_t size : elements) {
    if (target < begin + size) return begin + (target - begin) / kShareCut * kShareCut;
    begin += size;
  }
  return begin;
}

}  // namespace

std::vector<ParameterSlice> optimizer_share(std::span<const int64_t> elements, size_t replica, size_t replicas) {
  RANNC_CHECK(replica < replicas);
  int64_t total = 0;
  for (const int64_t size : elements) total += size;
  // total * r / n without overflow
  const auto target = [&](size_t r) {
    const auto n = static_cast<int64_t>(replicas), i = static_cast<int64_t>(r);
    return total / n * i + total % n * i / n;
  };
  const int64_t first = cut_before(elements, target(replica));
  const int64_t last = replica + 1 == replicas ? total : cut_before(elements, target(replica + 1));
  std::vector<ParameterSlice> share;
  int64_t begin = 0;
  for (uint32_t i = 0; i < elements.size(); ++i) {
    const int64_t from = std::max(first, begin) - begin, to = std::min(last, begin + elements[i]) - begin;
    if (from < to) share.push_back({i, from, to});
    begin += elements[i];
  }
  return share;
}

}  // namespace rannc::ir
