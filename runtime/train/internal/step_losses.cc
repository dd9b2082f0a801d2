#include "runtime/train/internal/step_losses.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Denominator = ir::LossTerm::Denominator;

/// Whether the inputs determine a symbol other than the batch symbol.
bool determines_sizes(const ir::Graph& graph, ValueId input) {
  const auto& shape = graph.type(input).shape;
  return shape && std::any_of(shape->begin(), shape->end(), [&](const ir::Dim& dim) {
           std::set<std::string> symbols;
           dim.collect_symbols(symbols);
           symbols.erase(graph.batch_symbol());
           return !symbols.empty();
         });
}

bool counts_labels(const ir::LossTerm& term) {
  return term.denominator != Denominator::kOne && term.denominator != Denominator::kSamples;
}

/// Labels of the samples that a replica of the stage computes; null if it computes none.
Result<Value> labels_of(const ir::Plan& plan, const Pipeline& pipeline, Feed& labels, ValueId value, StageId stage,
                        size_t replica) {
  const Port port{.value = value, .name = std::string(plan.graph.value(value).name), .type = plan.graph.type(value)};
  Values parts;
  for (const ir::SampleRange& range : replica_ranges(pipeline.shape, stage, replica)) {
    RANNC_ASSIGN(parts.emplace_back(), labels.input(port, range));
    if (!port.type.batch.has_batch()) break;  // of one micro-batch
  }
  if (parts.empty()) return Value();
  if (parts.size() == 1) return parts[0];
  std::vector<at::Tensor> tensors;
  for (const Value& part : parts) tensors.push_back(to_tensor(part));
  return to_value(at::cat(tensors, port.type.batch.axis));
}

Result<double> own_denominator(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices, Feed& labels,
                               size_t term_index, Labels whose) {
  const ir::LossTerm& term = plan.graph.losses()[term_index];
  const StageId stage = pipeline.losses[term_index].stage;
  const std::vector<DeviceId>& homes = plan.stages[stage.index()].devices;
  double sum = 0;
  for (size_t replica = 0; replica < homes.size(); ++replica) {
    if (whose == Labels::kOwn && !devices.contains(homes[replica])) continue;
    RANNC_ASSIGN(const Value own, labels_of(plan, pipeline, labels, term.labels, stage, replica));
    if (own == nullptr) continue;
    const Batch batch = {{std::string(plan.graph.value(term.labels).name), own}};
    RANNC_ASSIGN(const double part, loss_denominator(plan, term, batch, plan.mini_batch));
    sum += part;
  }
  return sum;
}

}  // namespace

NeededSamples find_needed_samples(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                  std::set<std::string> inputs) {
  NeededSamples needed{.inputs = std::move(inputs), .ranges = {}};
  for (const ValueId input : plan.graph.inputs()) {
    if (determines_sizes(plan.graph, input)) needed.inputs.emplace(plan.graph.value(input).name);
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<DeviceId>& homes = plan.stages[s].devices;
    for (size_t replica = 0; replica < homes.size(); ++replica) {
      if (!devices.contains(homes[replica])) continue;
      const auto own = replica_ranges(pipeline.shape, StageId::from(s), replica);
      needed.ranges.insert(needed.ranges.end(), own.begin(), own.end());
    }
  }
  needed.ranges = merged(std::move(needed.ranges));
  // A replica with fewer samples than replicas may have none. One sample then shows the sizes of the batch.
  if (needed.ranges.empty()) needed.ranges = {{0, 1}};
  return needed;
}

Result<std::vector<double>> sum_denominators(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                             Feed& labels, Labels whose, uint64_t step) {
  std::vector<double> found(pipeline.losses.size(), 0);
  bool divided = false;  // whether several replicas count labels of a term
  for (size_t t = 0; t < found.size(); ++t) {
    const ir::LossTerm& term = plan.graph.losses()[t];
    divided |= counts_labels(term) && plan.stages[pipeline.losses[t].stage.index()].devices.size() > 1;
    if (!devices.has_stage(pipeline.losses[t].stage)) continue;
    RANNC_ASSIGN(found[t], counts_labels(term) ? own_denominator(plan, pipeline, devices, labels, t, whose)
                                               : loss_denominator(plan, term, {}, plan.mini_batch));
  }
  if (whose == Labels::kAll || !divided || devices.whole()) return found;
  at::Tensor own = at::zeros({static_cast<int64_t>(found.size())}, at::kDouble);
  for (size_t t = 0; t < found.size(); ++t) {
    if (counts_labels(plan.graph.losses()[t])) own[static_cast<int64_t>(t)] = found[t];
  }
  RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(own, step));
  for (size_t t = 0; t < found.size(); ++t) {
    if (counts_labels(plan.graph.losses()[t])) found[t] = all[static_cast<int64_t>(t)].item<double>();
  }
  return found;
}

Result<std::vector<double>> denominators(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                         const EvaluationBatch& bound) {
  std::vector<double> found(pipeline.losses.size(), 0);
  for (size_t t = 0; t < found.size() && bound.labelled; ++t) {
    if (!devices.has_stage(pipeline.losses[t].stage)) continue;
    RANNC_ASSIGN(found[t], loss_denominator(plan, plan.graph.losses()[t], bound.batch, bound.samples));
  }
  return found;
}

Result<std::vector<LossSum>> sum_losses(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                        const std::vector<StepOutcome>& outcomes,
                                        const std::vector<double>& denominators, bool labelled, uint64_t step) {
  const size_t terms = pipeline.losses.size();
  at::Tensor sums = at::zeros({static_cast<int64_t>(2 * terms + 1)}, at::kDouble);
  auto slots = sums.accessor<double, 1>();
  for (size_t t = 0; t < terms; ++t) {
    const auto slot = static_cast<int64_t>(2 * t);
    for (const StepOutcome& outcome : outcomes) {
      double own = 0;
      for (const OutputPart& part : outcome.numerators[t]) own += part.part->item();
      slots[slot] += own;
    }
    const StageId stage = pipeline.losses[t].stage;
    if (devices.contains(plan.stages[stage.index()].devices.front())) slots[slot + 1] = denominators[t];
  }
  slots[static_cast<int64_t>(2 * terms)] = labelled ? 0 : 1;
  RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(sums, step));
  const auto total = all.accessor<double, 1>();
  std::vector<LossSum> losses;
  if (total[static_cast<int64_t>(2 * terms)] > 0) return losses;
  for (size_t t = 0; t < terms; ++t) {
    losses.push_back({total[static_cast<int64_t>(2 * t)], total[static_cast<int64_t>(2 * t + 1)]});
  }
  return losses;
}

}  // namespace rannc::runtime
