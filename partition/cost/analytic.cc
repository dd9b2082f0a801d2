#include "partition/cost/analytic.h"

#include <algorithm>

namespace rannc::partition {
namespace {

class Analytic final : public CostModel {
 public:
  explicit Analytic(AnalyticOptions options) : options_(options) {}

  Result<TaskCost> price(const TaskFacts& facts, uint64_t, const DeviceKind& device) const override {
    const double rate = device.flops_per_second.of(facts.dtype, options_.products);
    const double pass_ns = 1e9 * std::max(facts.flops / rate, facts.traffic_bytes / device.bytes_per_second);
    TaskCost cost;
    cost.forward_ns = pass_ns + device.launch_ns;
    cost.recompute_ns = cost.forward_ns;
    if (facts.needs_input_gradient) cost.input_gradient_ns = options_.input_gradient * pass_ns + device.launch_ns;
    if (facts.parameter_bytes > 0) {
      // Adding to the accumulated gradient, once a micro-batch: reads both, writes the sum.
      const double accumulation_ns = 3 * facts.parameter_bytes * 1e9 / device.bytes_per_second;
      cost.weight_gradient_ns = options_.weight_gradient * pass_ns + accumulation_ns + device.launch_ns;
    }
    cost.saved_bytes = facts.saved_bytes;
    cost.pending_bytes = facts.parameter_bytes > 0 ? facts.saved_bytes : 0;
    return cost;
  }

  std::string fingerprint() const override { return ""; }

 private:
  AnalyticOptions options_;
};

}  // namespace

std::unique_ptr<CostModel> analytic_costs(AnalyticOptions options) { return std::make_unique<Analytic>(options); }

}  // namespace rannc::partition
