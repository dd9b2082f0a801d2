#include "partition/cost/size_curve.h"

#include <iterator>
#include <vector>

namespace rannc::partition {
namespace {

TaskCost blend(const TaskCost& a, double wa, const TaskCost& b, double wb) {
  TaskCost c;
  const auto mix = [&](double TaskCost::*field) {
    const double value = wa * a.*field + wb * b.*field;
    c.*field = value > 0 ? value : 0;
  };
  for (double TaskCost::*field :
       {&TaskCost::forward_ns, &TaskCost::input_gradient_ns, &TaskCost::weight_gradient_ns, &TaskCost::recompute_ns,
        &TaskCost::together_ns, &TaskCost::saved_bytes, &TaskCost::temporary_bytes}) {
    mix(field);
  }
  c.pending_bytes = wa * a.pending_bytes + wb * b.pending_bytes;
  return c;
}

void make_monotone(SizeCurve& curve, double TaskCost::*field) {
  struct Pool {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const auto& [samples, cost] : curve) {
    pools.push_back({cost.*field, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  auto entry = curve.begin();
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.count; ++i, ++entry) {
      if (pool.count > 1) entry->second.*field = pool.mean();
    }
  }
}

}  // namespace

void make_monotone(SizeCurve& curve) {
  for (double TaskCost::*field : {&TaskCost::forward_ns, &TaskCost::input_gradient_ns, &TaskCost::weight_gradient_ns,
                                  &TaskCost::recompute_ns, &TaskCost::together_ns}) {
    make_monotone(curve, field);
  }
}

TaskCost at_samples(const SizeCurve& curve, uint64_t samples) {
  RANNC_CHECK(!curve.empty());
  const double n = static_cast<double>(samples);
  auto high = curve.lower_bound(samples);
  if (high != curve.end() && high->first == samples) return high->second;
  if (high == curve.begin() || curve.size() == 1) {
    const auto& [size, cost] = *curve.begin();
    return blend(cost, n / static_cast<double>(size), cost, 0);
  }
  if (high == curve.end()) --high;
  const auto low = std::prev(high);
  const double x0 = static_cast<double>(low->first), x1 = static_cast<double>(high->first);
  return blend(low->second, (x1 - n) / (x1 - x0), high->second, (n - x0) / (x1 - x0));
}

}  // namespace rannc::partition
