/// Random cuts for tests of found schedules.
#pragma once

#include <random>

#include "tests/partition/schedule/found/cuts.h"

namespace rannc::partition::found_cuts {

/// What a random cut may have.
struct Limits {
  uint32_t ranks = 4, micro_batches = 10;
  bool replicas = true, links = true, sums = true, recompute = true, uneven_batches = true;
};

class RandomCut {
 public:
  RandomCut(uint64_t seed, Limits limits) : limits_(limits), random_(seed) {}

  Cut make() {
    const auto layout = static_cast<StageLayout>(below(4));
    const uint32_t ranks = 1 + below(limits_.ranks), m = 1 + below(limits_.micro_batches);
    cut_.shape = laid_out(layout == StageLayout::kAny ? StageLayout::kOnePerRank : layout, ranks, m);
    if (layout == StageLayout::kAny) share_devices();
    stages_ = static_cast<uint32_t>(cut_.shape.stages.size());
    if (stages_ > 2 && one_in(3)) cut_.shape.routes.push_back({StageId(0), StageId(stages_ - 1), 1, one_in(2)});
    if (limits_.replicas && one_in(4)) replicate();
    if (limits_.uneven_batches && one_in(5)) {
      for (uint32_t k = 0; k < m; k += 2) cut_.shape.micro_batches[k] = 2;
    }
    add_times();
    if (limits_.links && one_in(2)) add_links();
    if (limits_.sums && one_in(2)) add_ends();
    add_memory();
    return std::move(cut_);
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  double time() { return 0.25 * (1 + below(8)); }

  /// Each stage on any of fewer devices.
  void share_devices() {
    cut_.shape.devices = (cut_.shape.devices + 1) / 2;
    for (uint32_t s = 0; s < cut_.shape.stages.size(); ++s) {
      cut_.shape.stages[s].devices = {DeviceId(s < cut_.shape.devices ? s : below(cut_.shape.devices))};
    }
  }

  void replicate() {
    const uint32_t devices = cut_.shape.devices;
    for (ir::StageShape& stage : cut_.shape.stages) {
      if (stage.devices[0].index() == 0) stage.devices.push_back(DeviceId(devices));
    }
    cut_.shape.devices = devices + 1;
    for (uint32_t& samples : cut_.shape.micro_batches) samples = 2;
  }

  void add_times() {
    const bool equal = one_in(4);
    const ComputeTimes first{time(), time(), time(), time()};
    const bool sizes =
        cut_.shape.micro_batches.size() > 1 && cut_.shape.micro_batches[0] != cut_.shape.micro_batches[1];
    for (uint32_t s = 0; s < stages_; ++s) {
      const ComputeTimes t = equal ? first : ComputeTimes{time(), time(), time(), time()};
      cut_.costs.compute.push_back({t});
      if (sizes)
        cut_.costs.compute[s].push_back({t.forward + 0.5, t.input_gradient + 0.5, t.weight_gradient, t.recompute});
    }
    if (sizes) {
      for (const uint32_t samples : cut_.shape.micro_batches) cut_.costs.size_class.push_back(samples - 1);
    }
  }

  void add_links() {
    const double latency = 0.25 * below(4), per_byte = 0.125 * below(4);
    cut_.costs.link = [=](DeviceId, DeviceId) { return LinkCost{latency, per_byte}; };
    for (ir::RouteShape& route : cut_.shape.routes) route.bytes_per_sample = below(3);
    cut_.options.contention = one_in(2);
  }

  void add_ends() {
    for (uint32_t s = 0; s < stages_; ++s) {
      cut_.costs.step.push_back(0.25 * below(3));
      cut_.costs.gradients.push_back(0.25 * below(2));
      cut_.costs.begin.push_back(0.25 * below(2));
      const double duration = 0.5 * below(4);
      cut_.costs.all_reduce.push_back({{duration, 0.25 * below(4)}});
    }
    cut_.options.step_barrier = one_in(4);
  }

  void add_memory() {
    for (ir::StageShape& stage : cut_.shape.stages) {
      stage.saved_bytes = 4 + below(5);
      stage.fixed_bytes = below(10);
      stage.gradient_bytes = below(3);
      stage.pending_bytes = static_cast<int64_t>(below(4)) - 1;
      stage.temporary_bytes = below(2);
      if (limits_.recompute && one_in(4)) {
        stage.recompute = true;
        stage.kept_bytes = 1;
      }
    }
    if (one_in(4)) return;
    const uint32_t room = 1 + below(2 * stages_);
    for (uint32_t d = 0; d < cut_.shape.devices; ++d) {
      int64_t limit = 12;
      for (const ir::StageShape& stage : cut_.shape.stages) {
        if (std::find(stage.devices.begin(), stage.devices.end(), DeviceId(d)) == stage.devices.end()) continue;
        limit += stage.fixed_bytes + stage.gradient_bytes + 8 * static_cast<int64_t>(room) + below(8);
      }
      cut_.shape.memory_bytes.push_back(limit);
    }
  }

  const Limits limits_;
  std::mt19937_64 random_;
  uint32_t stages_ = 0;
  Cut cut_;
};

inline Cut random_cut(uint64_t seed, Limits limits = {}) {
  Cut cut = RandomCut(seed, limits).make();
  cut.name = fmt::format("seed {}", seed);
  return cut;
}

}  // namespace rannc::partition::found_cuts
