#include "runtime/train/internal/step_losses.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

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

/// An input of some samples; undefined if there are none.
Result<at::Tensor> input_of(const ir::Plan& plan, const CountedSamples& of, const std::string& name,
                            const std::vector<ir::SampleRange>& ranges) {
  const ValueId value = plan.graph.find(name);
  const Port port{.value = value, .name = name, .type = plan.graph.type(value)};
  std::vector<at::Tensor> parts;
  for (const ir::SampleRange& range : ranges) {
    RANNC_ASSIGN(const Value part, of.feed.input(port, range));
    parts.push_back(to_tensor(part));
    if (!port.type.batch.has_batch()) break;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, port.type.batch.axis);
}

/// Adds rows of these samples to those of the mini-batch.
Result<void> add_rows(const ir::Plan& plan, const TotalsRun& totals, size_t count, const CountedSamples& of,
                      const std::vector<ir::SampleRange>& ranges, at::Tensor& all) {
  int64_t samples = 0;
  for (const ir::SampleRange& range : ranges) samples += range.last - range.first;
  if (samples == 0) return {};
  ir::Bindings sizes = of.symbols;
  if (!plan.graph.batch_symbol().empty()) sizes[plan.graph.batch_symbol()] = samples;
  const auto input = [&](const std::string& name) { return input_of(plan, of, name, ranges); };
  RANNC_ASSIGN(const at::Tensor rows, totals.rows(count, input, sizes));
  if (plan.graph.batch_symbol().empty()) {
    all = rows;
    return {};
  }
  int64_t first = 0;
  for (const ir::SampleRange& range : ranges) {
    const int64_t length = range.last - range.first;
    all.narrow(0, range.first, length).copy_(rows.narrow(0, first, length));
    first += length;
  }
  return {};
}

/// The rows of a count that this process computes.
Result<at::Tensor> own_rows(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices, StageId owner,
                            const TotalsRun& totals, size_t count, const CountedSamples& of) {
  at::Tensor rows = totals.no_rows(count, of.samples);
  if (!devices.has_stage(owner) || !of.labelled) return rows;
  if (!of.by_replica) {
    RANNC_TRY(add_rows(plan, totals, count, of, {{0, of.samples}}, rows));
    return rows;
  }
  const std::vector<DeviceId>& homes = plan.stages[owner.index()].devices;
  for (size_t replica = 0; replica < homes.size(); ++replica) {
    if (of.whose == Labels::kOwn && !devices.contains(homes[replica])) continue;
    RANNC_TRY(add_rows(plan, totals, count, of, replica_ranges(pipeline.shape, owner, replica), rows));
  }
  return rows;
}

/// Puts tensors behind each other as doubles, and takes them back.
at::Tensor packed(const Tensors& tensors) {
  Tensors flat = {at::zeros({0}, at::kDouble)};
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.to(at::kDouble).reshape({-1}));
  return at::cat(flat);
}
Tensors unpacked(const at::Tensor& all, const Tensors& like) {
  Tensors tensors;
  int64_t first = 0;
  for (const at::Tensor& each : like) {
    tensors.push_back(all.narrow(0, first, each.numel()).reshape(each.sizes()).to(each.scalar_type()));
    first += each.numel();
  }
  return tensors;
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

CountPlaces count_places(const ir::Plan& plan, const Pipeline& pipeline) {
  const ir::Totals& totals = plan.graph.totals();
  std::vector<std::set<StageId>> readers(totals.counts.size());
  const auto reads = [&](StageId stage, std::optional<uint32_t> coefficient) {
    if (!coefficient) return;
    for (const uint32_t count : counts_of_coefficient(plan.graph, *coefficient)) readers[count].insert(stage);
  };
  for (size_t t = 0; t < pipeline.losses.size(); ++t) {
    reads(pipeline.losses[t].stage, plan.graph.losses()[t].factor);
    reads(pipeline.losses[t].stage, plan.graph.losses()[t].divisor);
  }
  for (const ir::Totals::Given& given : totals.given) {
    for (const Signature& stage : pipeline.stages) {
      if (stage.input_of(given.input) >= 0) reads(stage.stage, given.coefficient);
    }
  }
  CountPlaces places;
  for (const std::set<StageId>& stages : readers) {
    places.owners.push_back(stages.empty() ? StageId::from(0) : *stages.begin());
    places.shared |= stages.size() > 1;
  }
  return places;
}

Result<Tensors> count_samples(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                              const CountPlaces& places, const TotalsRun& totals, const CountedSamples& of) {
  Tensors rows;
  bool divided = places.shared;  // whether a process needs what others count
  for (size_t count = 0; count < places.owners.size(); ++count) {
    const std::vector<DeviceId>& homes = plan.stages[places.owners[count].index()].devices;
    divided |= of.whose == Labels::kOwn && homes.size() > 1;
    // Only one process tells what several have.
    const bool reports = of.whose == Labels::kOwn || !places.shared || devices.contains(homes.front());
    RANNC_ASSIGN(rows.emplace_back(),
                 own_rows(plan, pipeline, devices, places.owners[count], totals, count,
                          {of.feed, of.symbols, of.samples, of.whose, of.labelled && reports, of.by_replica}));
  }
  if (divided && !devices.whole()) {
    RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(packed(rows)));
    rows = unpacked(all, rows);
  }
  Tensors counts;
  for (const at::Tensor& each : rows) counts.push_back(totals.total(each));
  return counts;
}

Result<StepSums> sum_step(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices, const CountPlaces& places,
                          const std::vector<StepOutcome>& outcomes, const Tensors& counts, const OwnStep& of) {
  const auto terms = static_cast<int64_t>(pipeline.losses.size());
  at::Tensor numerators = at::zeros({terms + 2}, at::kDouble);
  auto slots = numerators.accessor<double, 1>();
  for (int64_t t = 0; t < terms; ++t) {
    for (const StepOutcome& outcome : outcomes) {
      double own = 0;
      for (const OutputPart& part : outcome.numerators[static_cast<size_t>(t)]) own += part.part->item();
      slots[t] += own;
    }
  }
  slots[terms] = of.labelled ? 0 : 1;
  // The differences to the first process add up to 0.
  const auto others = static_cast<double>(devices.plan_devices() - 1);
  if (!devices.whole()) slots[terms + 1] = devices.contains(DeviceId(0)) ? of.settings * others : -of.settings;
  Tensors all = {numerators};
  for (size_t count = 0; count < counts.size(); ++count) {
    const DeviceId home = plan.stages[places.owners[count].index()].devices.front();
    all.push_back(devices.contains(home) ? counts[count] : at::zeros_like(counts[count]));
  }
  for (const ValueId value : pipeline.sums) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : *plan.graph.type(value).shape) sizes.push_back(dim.constant());
    at::Tensor sum = at::zeros(sizes, at::kDouble);
    for (const StepOutcome& outcome : outcomes) {
      at::Tensor own = at::zeros(sizes, at::kDouble);
      for (const OutputPart& part : outcome.outputs) {
        if (part.value == value) own += to_tensor(part.part).to(at::kCPU, at::kDouble);
      }
      sum += own;
    }
    all.push_back(sum);
  }
  RANNC_ASSIGN(const at::Tensor added, devices.sum_over_processes(packed(all)));
  const Tensors found = unpacked(added, all);
  if (found[0][terms + 1].item<double>() != 0) {
    return devices.close(error(fmt::format(
        "step {}: the processes of the run have different groups, learning rates or other settings of optimizers",
        of.step)));
  }
  StepSums made;
  if (found[0][terms].item<double>() > 0) return made;
  for (int64_t t = 0; t < terms; ++t) made.numerators.push_back(found[0][t].item<double>());
  const auto first_sum = found.begin() + 1 + static_cast<std::ptrdiff_t>(counts.size());
  made.counts.assign(found.begin() + 1, first_sum);
  made.sums.assign(first_sum, found.end());
  return made;
}

}  // namespace rannc::runtime
