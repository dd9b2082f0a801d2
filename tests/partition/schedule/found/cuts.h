/// Cuts on which found schedules are compared with named ones, for tests and benchmark.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition::found_cuts {

struct Cut {
  std::string name;
  ir::PipelineShape shape;
  ScheduleCosts costs;
  SimulationOptions options = {};
};

/// Equal stages on a chain with `limit` forward passes per device.
inline Cut chain(std::string name, uint32_t devices, uint32_t m, ComputeTimes times, double latency, int64_t limit) {
  Cut cut{std::move(name), ir::chain_shape(devices, m), {}, {}};
  cut.shape.memory_bytes.assign(devices, limit);
  cut.costs = uniform_costs(cut.shape, times, latency);
  return cut;
}

/// Two stages per device in a V. `limit` counts stages' forward passes, twice those of a device.
inline Cut v_shape(std::string name, uint32_t devices, uint32_t m, ComputeTimes times, double latency, int64_t limit) {
  Cut cut{std::move(name), laid_out(StageLayout::kV, devices, m), {}, {}};
  cut.shape.memory_bytes.assign(devices, limit);
  const ComputeTimes half{times.forward / 2, times.input_gradient / 2, times.weight_gradient / 2, times.recompute / 2};
  cut.costs = uniform_costs(cut.shape, half, latency);
  return cut;
}

/// Factors for the times of stages, which repeat.
inline Cut uneven(Cut cut, const std::vector<double>& factors) {
  for (size_t s = 0; s < cut.costs.compute.size(); ++s) {
    for (ComputeTimes& t : cut.costs.compute[s]) {
      const double f = factors[s % factors.size()];
      t = {t.forward * f, t.input_gradient * f, t.weight_gradient * f, t.recompute * f};
    }
  }
  return cut;
}

/// Links on which a message takes `wire`, and messages wait for ports. A message has a twentieth of the bytes that its
/// sender saves, which include it.
inline Cut slow_links(Cut cut, double wire) {
  for (ir::RouteShape& route : cut.shape.routes) {
    route.bytes_per_sample = 1;
    route.saved = route.consumer_saves = true;
  }
  for (ir::StageShape& stage : cut.shape.stages) stage.saved_bytes = 20;
  cut.costs.link = [wire](DeviceId, DeviceId) { return LinkCost{0, wire}; };
  cut.options.contention = true;
  for (int64_t& limit : cut.shape.memory_bytes) limit = 20 * limit + 8;
  return cut;
}

inline std::vector<Cut> table() {
  const ComputeTimes equal{1, 1, 1, 1}, skewed{1, 1.2, 0.8, 1}, heavy{1, 1.1, 0.6, 1};
  std::vector<Cut> cuts;
  for (const auto& [name, times] : {std::pair("1/1/1", equal), {"1/1.2/0.8", skewed}, {"1/1.1/0.6", heavy}}) {
    for (const int64_t limit : {8, 10, 12, 15}) {
      cuts.push_back(chain(fmt::format("chain 8, m=24, {}, memory {}", name, limit), 8, 24, times, 0, limit));
    }
    for (const int64_t limit : {8, 10, 12, 16}) {
      cuts.push_back(v_shape(fmt::format("V 8, m=24, {}, memory {}", name, limit / 2), 8, 24, times, 0, limit));
    }
  }
  for (const int64_t limit : {8, 11, 15}) {
    cuts.push_back(uneven(chain(fmt::format("chain 8, m=24, uneven, memory {}", limit), 8, 24, skewed, 0, limit),
                          {1, 0.8, 1.1, 0.9, 1, 0.7, 1.2}));
    cuts.push_back(uneven(v_shape(fmt::format("V 8, m=24, uneven, memory {}", limit), 8, 24, skewed, 0, 2 * limit),
                          {1, 0.8, 1.1, 0.9, 1, 0.7, 1.2}));
    cuts.push_back(chain(fmt::format("chain 8, m=24, latency 0.5, memory {}", limit), 8, 24, skewed, 0.5, limit));
    cuts.push_back(
        slow_links(chain(fmt::format("chain 8, m=24, ports 0.6, memory {}", limit), 8, 24, skewed, 0, limit), 0.6));
    cuts.push_back(
        slow_links(v_shape(fmt::format("V 8, m=24, ports 0.4, memory {}", limit), 8, 24, skewed, 0, 2 * limit), 0.4));
  }
  for (const uint32_t m : {128, 512}) {
    for (const int64_t limit : {8, 12})
      cuts.push_back(v_shape(fmt::format("V 8, m={}, 1/1.2/0.8, memory {}", m, limit / 2), 8, m, skewed, 0, limit));
    cuts.push_back(uneven(chain(fmt::format("chain 8, m={}, uneven, memory 8", m), 8, m, skewed, 0.25, 8),
                          {1, 0.8, 1.1, 0.9, 1, 0.7, 1.2}));
    cuts.push_back(chain(fmt::format("chain 16, m={}, 1/1.2/0.8, memory 20", m), 16, m, skewed, 0.1, 20));
  }
  cuts.push_back(chain("chain 4, m=8, 1/1.2/0.8, memory 4", 4, 8, skewed, 0, 4));
  cuts.push_back(chain("chain 4, m=64, 1/1.2/0.8, memory 5", 4, 64, skewed, 0, 5));
  return cuts;
}

}  // namespace rannc::partition::found_cuts
