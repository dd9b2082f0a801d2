/// Construction of actions and pipeline shapes.
#include "ir/schedule/schedule.h"

#include <algorithm>

namespace rannc::ir {

PipelineShape chain_shape(uint32_t stages, uint32_t micro_batches) {
  PipelineShape shape;
  shape.devices = stages;
  shape.micro_batches.assign(micro_batches, 1);
  for (uint32_t s = 0; s < stages; ++s) {
    StageShape stage;
    stage.devices = {DeviceId(s)};
    stage.saved_bytes = 1;
    shape.stages.push_back(std::move(stage));
    if (s > 0) shape.routes.push_back({StageId(s - 1), StageId(s)});
  }
  return shape;
}

Action compute_action(ActionKind kind, StageId stage, uint32_t micro_batch) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.micro_batch = micro_batch;
  return action;
}

Action transfer_action(const PipelineShape& shape, ActionKind kind, uint32_t route, uint32_t micro_batch,
                       DeviceId peer) {
  const RouteShape& r = shape.routes[route];
  Action action = compute_action(kind, is_at_producer(kind) ? r.producer : r.consumer, micro_batch);
  action.route = route;
  action.peer = peer;
  return action;
}

Action stage_action(ActionKind kind, StageId stage, uint32_t bucket) { return compute_action(kind, stage, bucket); }

Action reduce_shared_action(const PipelineShape& shape, uint32_t group, DeviceId device) {
  Action action = stage_action(ActionKind::kReduceShared, {});
  action.route = group;
  for (StageId stage : shape.shared[group].stages) {
    const auto& devices = shape.stages[stage.index()].devices;
    const bool here = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (here && (!action.stage.valid() || stage < action.stage)) action.stage = stage;
  }
  return action;
}

}  // namespace rannc::ir
