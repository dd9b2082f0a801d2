#include "partition/cost/analytic.h"

#include <algorithm>
#include <cmath>

namespace rannc::partition {
namespace {

/// The time of a product of so many operations with so many results, computed tile by tile.
double tiled_ns(double flops, double results, double rate, bool tensor_cores, uint32_t multiprocessors) {
  if (flops <= 0 || results <= 0 || multiprocessors == 0) return 1e9 * (flops / rate);
  constexpr double kLeastDepth = 512;
  const double side = tensor_cores ? 128 : 64, area = side * side, depth = flops / (2 * results);
  const double tiles = std::max(1., results / area);
  // A product with few tiles is split where its summed axis is long.
  const double wanted = std::floor(multiprocessors / tiles), possible = std::floor(depth / kLeastDepth);
  const double parts = std::max(1., std::min(wanted, possible));
  const double rounds = std::ceil(tiles * parts / multiprocessors);
  return 1e9 * rounds * (2 * area * depth / parts) / (rate / multiprocessors);
}

class Analytic final : public CostModel {
 public:
  explicit Analytic(AnalyticOptions options) : options_(options) {}

  Result<TaskCost> price(const TaskFacts& facts, uint64_t, const DeviceKind& device) const override {
    TaskCost cost;
    cost.saved_bytes = facts.saved_bytes;
    cost.pending_bytes = facts.parameter_bytes > 0 ? facts.saved_bytes : 0;
    const bool is_view = facts.flops == 0 && facts.traffic_bytes == 0;
    if (is_view && device.type == ir::DeviceType::kCuda) return cost;
    const double pass_ns = of_pass(facts, facts.flops, facts.results, device);
    cost.forward_ns = pass_ns + device.launch_ns;
    cost.recompute_ns = cost.forward_ns;
    if (facts.needs_input_gradient) {
      const bool repeats = attention(facts, device.kernels).has_value();
      const double ns = repeats ? of_pass(facts, 2.5 * facts.flops, facts.results, device) : pass_ns;
      cost.input_gradient_ns = options_.input_gradient * ns + device.launch_ns;
    }
    if (facts.parameter_bytes > 0) {
      // Adding to the accumulated gradient, once a micro-batch: reads both, writes the sum.
      const double accumulation_ns = 3 * facts.parameter_bytes * 1e9 / device.bytes_per_second;
      const double weights = facts.parameter_bytes / static_cast<double>(ir::byte_size(facts.dtype));
      const double ns = of_pass(facts, facts.flops, weights, device);
      cost.weight_gradient_ns = options_.weight_gradient * ns + accumulation_ns + device.launch_ns;
    }
    return cost;
  }

  std::string fingerprint() const override { return ""; }

 private:
  /// Rates of the kernel that computes fused attention; nothing for other tasks and where none is known.
  static const std::optional<FlopRates>& attention(const TaskFacts& facts, const KernelRates& kernels) {
    static const std::optional<FlopRates> kNone;
    if (facts.family == KernelFamily::kFlashAttention && kernels.flash_attention) return kernels.flash_attention;
    const bool fused = facts.family == KernelFamily::kFlashAttention || facts.family == KernelFamily::kAttention;
    return fused ? kernels.attention : kNone;
  }

  double of_pass(const TaskFacts& facts, double flops, double results, const DeviceKind& device) const {
    const double traffic_ns = 1e9 * (facts.traffic_bytes / device.bytes_per_second);
    return std::max({of_work(facts, flops, results, device), traffic_ns, of_batch_norm(facts, device.kernels)});
  }

  double of_work(const TaskFacts& facts, double flops, double results, const DeviceKind& device) const {
    const KernelRates& kernels = device.kernels;
    const double products = device.flops_per_second.of(facts.dtype, options_.products);
    const auto rate = [&](const std::optional<FlopRates>& of_family) {
      return of_family ? of_family->of(facts.dtype, options_.products) : products;
    };
    const bool is_f32 = facts.dtype == ir::DType::kF32 && options_.products != Tf32::kAllowed;
    const bool tensor_cores = !is_f32 && facts.dtype != ir::DType::kF64;
    switch (facts.family) {
      case KernelFamily::kAttention:
      case KernelFamily::kFlashAttention:
        return 1e9 * (flops / rate(attention(facts, kernels)));
      case KernelFamily::kProduct:
        return tiled_ns(flops, results, products, tensor_cores, kernels.multiprocessors);
      case KernelFamily::kConvolution:
        return tiled_ns(flops, results, rate(kernels.convolution), tensor_cores, kernels.multiprocessors);
      default:
        return 1e9 * (flops / products);
    }
  }

  /// Elements are read and written once, by the count of the traffic.
  static double of_batch_norm(const TaskFacts& facts, const KernelRates& kernels) {
    const bool first = facts.family == KernelFamily::kBatchNorm;
    const double rate = first ? kernels.batch_norm : kernels.batch_norm_channels_last;
    if (rate == 0 || (!first && facts.family != KernelFamily::kBatchNormChannelsLast)) return 0;
    return 1e9 * facts.traffic_bytes / (2 * static_cast<double>(ir::byte_size(facts.dtype))) / rate;
  }

  AnalyticOptions options_;
};

}  // namespace

std::unique_ptr<CostModel> analytic_costs(AnalyticOptions options) { return std::make_unique<Analytic>(options); }

}  // namespace rannc::partition
