// Converts a plan to the form that executors use.
#include "runtime/execute/pipeline.h"

#include <algorithm>

#include "ir/base/diagnostic.h"
#include "ir/graph/byte_count.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"

namespace rannc::runtime {
namespace {

uint32_t port_index(int index) {
  RANNC_CHECK(index >= 0) << "a plan that verifies has every port its routes need";
  return static_cast<uint32_t>(index);
}

void add_routes(const ir::Plan& plan, Pipeline& pipeline) {
  for (const ir::Route& route : plan.routes) {
    pipeline.routes.push_back({port_index(pipeline.stages[route.from.index()].output_of(route.value)),
                               port_index(pipeline.stages[route.to.index()].input_of(route.value))});
  }
}

void add_shared(const ir::Plan& plan, Pipeline& pipeline) {
  for (size_t group = 0; group < plan.shared.size(); ++group) {
    std::vector<uint32_t> parameters;
    for (StageId stage : pipeline.shape.shared[group].stages) {
      parameters.push_back(port_index(pipeline.stages[stage.index()].parameter_of(plan.shared[group].parameter)));
    }
    pipeline.shared.push_back(std::move(parameters));
  }
}

void add_losses(const ir::Plan& plan, Pipeline& pipeline) {
  for (const ir::LossTerm& term : plan.graph.losses()) {
    for (const Signature& stage : pipeline.stages) {
      const int output = stage.output_of(term.numerator);
      if (output >= 0) {
        pipeline.losses.push_back({stage.stage, static_cast<uint32_t>(output)});
        break;
      }
    }
  }
  RANNC_CHECK(pipeline.losses.size() == plan.graph.losses().size()) << "every loss numerator comes out of a stage";
}

std::vector<ir::ParameterBucket> buckets_of(const ir::Plan& plan, const Signature& signature) {
  if (!signature.buckets.empty()) return signature.buckets;
  std::vector<ir::ParameterBucket> found;
  for (uint32_t i = 0; i < signature.parameters.size(); ++i) {
    const ValueId parameter = signature.parameters[i].value;
    const bool shared = std::any_of(plan.shared.begin(), plan.shared.end(),
                                    [&](const ir::SharedParameter& each) { return each.parameter == parameter; });
    if (!shared) found.push_back({i});
  }
  return found;
}

ir::OptimizerShares shares_of(const ir::Stage& stage, const Signature& signature,
                              const std::vector<ir::ParameterBucket>& buckets, const ir::ParameterUpdates& updates) {
  if (!stage.sharded) return {};
  std::vector<ir::ParameterExtent> extents;
  for (const Weight& parameter : signature.parameters) {
    const int64_t elements = ir::element_count(*parameter.type.shape).constant();
    extents.push_back({elements, updates.of(parameter.value).divisible()});
  }
  return ir::optimizer_shares(extents, buckets, stage.devices.size());
}

}  // namespace

Pipeline make_pipeline(const ir::Plan& plan) {
  return make_pipeline(plan, ir::ParameterUpdates::of(plan.graph, plan.optimizer).value());  // P14 holds
}

std::optional<std::vector<ir::ParameterSlice>> share_of(const Pipeline& pipeline, StageId stage, DeviceId device) {
  const auto& shares = pipeline.shares[stage.index()];
  if (shares.empty()) return std::nullopt;
  const auto& members = pipeline.shape.stages[stage.index()].devices;
  const auto place = std::find(members.begin(), members.end(), device);
  return ir::share_of_replica(shares, static_cast<size_t>(place - members.begin()));
}

Pipeline make_pipeline(const ir::Plan& plan, const ir::ParameterUpdates& updates) {
  RANNC_CHECK(plan.schedule.lowered) << "executors walk lowered schedules";
  Pipeline pipeline;
  pipeline.shape = ir::pipeline_shape(plan);
  pipeline.schedule = plan.schedule;
  pipeline.batch_symbol = plan.graph.batch_symbol();
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    pipeline.stages.push_back(signature(plan, StageId::from(stage)));
    const Signature& signature = pipeline.stages.back();
    pipeline.buckets.push_back(buckets_of(plan, signature));
    pipeline.shares.push_back(shares_of(plan.stages[stage], signature, pipeline.buckets.back(), updates));
  }
  add_routes(plan, pipeline);
  add_shared(plan, pipeline);
  add_losses(plan, pipeline);
  pipeline.graph_outputs = plan.graph.outputs();
  pipeline.sums = plan.graph.totals().sums;
  return pipeline;
}

Result<Pipeline> forward_pipeline(const Pipeline& pipeline, uint32_t samples) {
  RANNC_CHECK(samples > 0) << "a mini-batch has samples";
  Pipeline forward = pipeline;
  forward.shape.training = false;
  forward.shape.micro_batches = ir::split_mini_batch(samples, pipeline.shape.micro_batch_count());
  for (ir::RouteShape& route : forward.shape.routes) route.gradient = false;
  for (auto& row : forward.schedule.rows) {
    std::erase_if(row, [&](const ir::Action& action) {
      return action.kind != ir::ActionKind::kForward || action.micro_batch >= forward.shape.micro_batch_count();
    });
  }
  RANNC_ASSIGN(forward.schedule, ir::lower_schedule(forward.shape, forward.schedule));
  RANNC_TRY(ir::check_schedule(forward.shape, forward.schedule));
  return forward;
}

}  // namespace rannc::runtime
