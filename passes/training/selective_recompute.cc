// Searches the convex hull of bytes and time by cuts at the slopes of chords.
#include "passes/training/selective_recompute.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "passes/training/internal/recompute_network.h"

namespace rannc::passes {

namespace {

/// The price at which two choices cost the same.
RecomputePrice chord(const KeptChoice& less_memory, const KeptChoice& less_time) {
  const int64_t bytes = less_time.kept_bytes - less_memory.kept_bytes;
  const int64_t ns = less_memory.recompute_ns - less_time.recompute_ns;
  const int64_t common = std::max<int64_t>(1, std::gcd(bytes, ns));
  return {ns / common, bytes / common};
}

int64_t cost(const KeptChoice& choice, RecomputePrice price) {
  return price.per_byte * choice.kept_bytes + price.per_ns * choice.recompute_ns;
}

double area(const KeptChoice& left, const KeptChoice& right) {
  return static_cast<double>(right.kept_bytes - left.kept_bytes) *
         static_cast<double>(left.recompute_ns - right.recompute_ns);
}

}  // namespace

SelectiveRecompute::SelectiveRecompute(const ir::Joint& joint, const RecomputeCosts& costs,
                                       ir::CutNetwork::Solver solver) {
  auto network = std::make_shared<RecomputeNetwork>(recompute_network(joint, costs));
  network->solver = solver;
  network_ = std::move(network);
}

KeptChoice SelectiveRecompute::cheapest(RecomputePrice price) const {
  return network_->cheapest(network_->scaled(price));
}

std::optional<KeptChoice> SelectiveRecompute::below_chord(const KeptChoice& left, const KeptChoice& right) const {
  const RecomputePrice price = network_->scaled(chord(left, right));
  KeptChoice found = cheapest(price);
  const bool is_between = found.kept_bytes > left.kept_bytes && found.kept_bytes < right.kept_bytes;
  if (!is_between || cost(found, price) >= std::min(cost(left, price), cost(right, price))) return std::nullopt;
  return found;
}

std::vector<KeptChoice> SelectiveRecompute::hull(size_t limit) const {
  std::vector<KeptChoice> points = {cheapest({network_->total_ns + 1, 1})};
  KeptChoice fastest = cheapest({1, network_->total_bytes + 1});
  if (fastest.kept_bytes <= points.front().kept_bytes) return points;
  points.push_back(std::move(fastest));
  std::vector<double> areas = {area(points[0], points[1])};  // to the next point; 0: nothing lies below the chord
  while (points.size() < limit) {
    const auto largest = std::max_element(areas.begin(), areas.end());
    if (*largest == 0) break;
    const auto at = largest - areas.begin();
    auto found = below_chord(points[static_cast<size_t>(at)], points[static_cast<size_t>(at) + 1]);
    if (!found) {
      *largest = 0;
      continue;
    }
    const auto middle = points.insert(points.begin() + at + 1, std::move(*found));
    *largest = area(*(middle - 1), *middle);
    areas.insert(largest + 1, area(*middle, *(middle + 1)));
  }
  return points;
}

}  // namespace rannc::passes
