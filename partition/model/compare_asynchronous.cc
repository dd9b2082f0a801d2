#include "partition/model/compare_asynchronous.h"

#include <algorithm>

#include "partition/model/finish_plan.h"
#include "partition/schedule/asynchronous.h"

namespace rannc::partition {

namespace {

/// A stream of mini-batches without an end.
struct Stream {
  ir::PipelineShape shape;
  ScheduleCosts costs;
  uint32_t micro_batches = 1;    ///< of a mini-batch
  uint32_t first = 0, last = 0;  ///< micro-batches in the steady state, whole mini-batches apart
};

Stream stream_of(const ir::Plan& plan, const Cluster& cluster) {
  Stream stream{ir::pipeline_shape(plan), schedule_costs(plan, cluster), 1, 0, 0};
  const auto stages = static_cast<uint32_t>(plan.stages.size());
  const std::vector<uint32_t> sizes = stream.shape.micro_batches, classes = stream.costs.size_class;
  stream.micro_batches = static_cast<uint32_t>(sizes.size());
  const uint32_t fill = (4 * stages + stream.micro_batches - 1) / stream.micro_batches;  // mini-batches
  const uint32_t measured = 8;
  for (uint32_t i = 1; i < 2 * fill + measured; ++i) {
    stream.shape.micro_batches.insert(stream.shape.micro_batches.end(), sizes.begin(), sizes.end());
    stream.costs.size_class.insert(stream.costs.size_class.end(), classes.begin(), classes.end());
  }
  stream.shape.memory_bytes.clear();  // versions are added afterwards
  stream.first = fill * stream.micro_batches;
  stream.last = (fill + measured) * stream.micro_batches;
  // Everything that is done once per step is done once per update, sums over replicas included.
  for (ir::StageShape& stage : stream.shape.stages) stage.sums = 0, stage.sharded = false;
  for (size_t s = 0; s < stages; ++s) {
    const double begin = stream.costs.begin.empty() ? 0 : stream.costs.begin[s];
    for (const SumCost& sum : stream.costs.all_reduce[s]) stream.costs.step[s] += sum.duration;
    stream.costs.step[s] += stream.costs.gradients[s] + stream.costs.gather[s] + begin;
  }
  stream.costs.all_reduce.clear();
  stream.costs.gather.clear();
  stream.costs.gradients.clear();
  stream.costs.begin.clear();
  return stream;
}

Result<PipelineChoice> steady_state(const ir::Plan& plan, const Stream& stream, uint32_t steps_every) {
  PipelineChoice choice;
  RANNC_ASSIGN(const ir::Schedule schedule, asynchronous_schedule(stream.shape, steps_every));
  RANNC_ASSIGN(const Timeline timeline, simulate(stream.shape, schedule, stream.costs, {.contention = true}));
  choice.mini_batch_ns = period_between(schedule, timeline, stream.first, stream.last) * stream.micro_batches;
  choice.updates = stream.micro_batches / steps_every;
  choice.weight_versions = weight_versions(stream.shape, steps_every);
  const std::vector<TrainedBytes> trained = trained_bytes(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto more = static_cast<uint64_t>((choice.weight_versions[s] - 1) * trained[s].parameters);
    for (const DeviceId device : plan.stages[s].devices) {
      const int64_t held = timeline.devices[device.index()].peak_bytes;
      choice.peak_bytes = std::max(choice.peak_bytes, static_cast<uint64_t>(std::max<int64_t>(held, 0)) + more);
    }
  }
  return choice;
}

Result<void> check(const ir::Plan& plan) {
  if (!plan.training) return error("--compare asynchronous: the plan trains nothing");
  if (plan.stages.size() < 2) return error("--compare asynchronous: a plan of one stage has no bubble");
  if (!plan.shared.empty()) {
    return error("--compare asynchronous: parameter '" + std::string(plan.graph.value(plan.shared[0].parameter).name) +
                 "' is read by several stages, which asynchronous pipelines would let drift apart");
  }
  std::vector<bool> taken(plan.devices.size(), false);
  for (const ir::Stage& stage : plan.stages) {
    for (const DeviceId device : stage.devices) {
      if (taken[device.index()]) return error("--compare asynchronous: several stages share a device");
      taken[device.index()] = true;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PipelineChoice>> compare_asynchronous(const ir::Plan& plan, const Cluster& cluster) {
  RANNC_TRY(check(plan));
  const auto stages = static_cast<uint32_t>(plan.stages.size());
  PipelineChoice own;
  own.name = plan.schedule.name;
  own.mini_batch_ns = static_cast<double>(plan.step_ns);
  own.updates = 1;
  own.weight_versions.assign(stages, 1);
  for (const ir::Prediction& device : plan.predictions) own.peak_bytes = std::max(own.peak_bytes, device.peak_bytes);
  std::vector<PipelineChoice> choices = {std::move(own)};
  const Stream stream = stream_of(plan, cluster);
  RANNC_ASSIGN(PipelineChoice stashing, steady_state(plan, stream, 1));
  stashing.name = "PipeDream";
  stashing.staleness = stages - 1;
  choices.push_back(std::move(stashing));
  if (stream.micro_batches < stages) return choices;
  RANNC_ASSIGN(PipelineChoice buffered, steady_state(plan, stream, stream.micro_batches));
  buffered.name = "PipeDream-2BW";
  buffered.staleness = 1;
  choices.push_back(std::move(buffered));
  return choices;
}

}  // namespace rannc::partition
