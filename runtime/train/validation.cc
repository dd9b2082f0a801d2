#include "runtime/train/validation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <vector>

#include "ir/match/match.h"
#include "ir/op/op_call.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/loss_sums.h"

namespace rannc::runtime {

namespace {

/// Returns the first wanted value among `value` and those that become it by changes of type only.
ValueId find_before_casts(const ir::Graph& graph, ValueId value, const std::function<bool(ValueId)>& wanted) {
  static const ir::Ops kCasts = {"identity", "cast"};
  while (!wanted(value)) {
    const TaskId made = graph.producer(value);
    if (!made.valid() || !kCasts.contains(graph.op(made))) return {};
    value = graph.inputs(made)[0];
  }
  return value;
}

/// Correct predictions and labels that count.
struct Hits {
  int64_t correct = 0, counted = 0;

  void add(const Classification& of, const StepResult& result, const Batch& batch) {
    const auto predicted = result.outputs.find(of.output);
    if (predicted == result.outputs.end()) return;  // another process computes it
    const auto ranges = result.output_samples.find(of.output);
    Value own = batch.at(of.labels);
    if (ranges != result.output_samples.end()) {
      Values parts;
      for (const ir::SampleRange& range : ranges->second) parts.push_back(own->samples(of.label_axis, range));
      own = parts[0]->joined(parts, of.label_axis);
    }
    const at::Tensor labels = to_tensor(own).to(at::kLong), counts = labels.ne(of.ignore_index);
    correct += to_tensor(predicted->second).squeeze(of.axis).eq(labels).logical_and(counts).sum().item<int64_t>();
    counted += counts.sum().item<int64_t>();
  }
};

/// Returns the sum over all processes in that of device 0.
Result<Hits> gather_hits(Trainer& trainer, const Hits& own) {
  Hits all;
  RANNC_TRY(trainer.gather(fmt::format("{} {}", own.correct, own.counted),
                           [&](uint32_t, const std::string& text) -> Result<void> {
                             Hits part;
                             std::istringstream(text) >> part.correct >> part.counted;
                             all.correct += part.correct;
                             all.counted += part.counted;
                             return {};
                           }));
  return all;
}

}  // namespace

std::optional<Classification> find_classification(const ir::Graph& graph) {
  static const ir::Ops kCrossEntropy = {"cross_entropy_sum"};
  const auto is_output = [&outputs = graph.outputs()](ValueId value) {
    return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
  };
  const auto is_input = [&](ValueId value) { return graph.kind(value) == ir::ValueKind::kInput; };
  std::optional<Classification> found;
  for (const TaskId task : graph.tasks()) {
    const ir::OpInfo& op = graph.op(task);
    if (!kCrossEntropy.contains(op)) continue;
    if (found) return std::nullopt;  // two classifications
    const ValueId logits = find_before_casts(graph, graph.inputs(task)[0], is_output),
                  labels = find_before_casts(graph, graph.inputs(task)[1], is_input);
    if (!logits.valid() || !labels.valid() || !graph.type(logits).shape) return std::nullopt;
    const ir::OpAttributes attributes(op, graph.attributes(task));
    const auto rank = static_cast<int64_t>(graph.type(logits).shape->size());
    const int64_t axis = attributes.integer("axis");
    found = Classification{std::string(graph.value(logits).name), std::string(graph.value(labels).name),
                           axis < 0 ? axis + rank : axis, attributes.integer("ignore_index")};
    if (graph.batch_symbol().empty()) continue;
    const ir::BatchLayout &samples = graph.type(logits).batch, &labelled = graph.type(labels).batch;
    if (!samples.has_batch() || samples.axis == found->axis || !labelled.has_batch() || !labelled.outer.is_constant() ||
        !labelled.inner.is_constant()) {
      return std::nullopt;
    }
    found->label_axis = {labelled.axis, labelled.outer.constant(), labelled.inner.constant()};
  }
  return found;
}

Result<ValidationResult> validate(Trainer& trainer, const Samples& samples) {
  const ir::Plan& plan = trainer.plan();
  const std::optional<Classification> classification = find_classification(plan.graph);
  const auto predict = [&](const std::string& name, const Value& part) -> Value {
    if (!classification || name != classification->output) return nullptr;
    return to_value(to_tensor(part).argmax(classification->axis, /*keepdim=*/true));
  };
  const uint64_t mini_batch = plan.mini_batch;
  const uint64_t count =
      plan.graph.batch_symbol().empty() ? samples.samples() / mini_batch * mini_batch : samples.samples();
  LossSums losses;
  Hits hits;
  for (uint64_t first = 0; first < count; first += mini_batch) {
    std::vector<uint64_t> numbers(std::min(mini_batch, count - first));
    std::iota(numbers.begin(), numbers.end(), first);
    RANNC_ASSIGN(const Batch batch, samples.read(numbers));
    RANNC_ASSIGN(const StepResult result, trainer.evaluate(batch, predict));
    losses.add(result);
    if (classification) hits.add(*classification, result, batch);
  }
  const std::optional<double> loss = losses.loss(plan.graph);
  if (!loss) return error(fmt::format("validation: none of {} samples has a label that counts", count));
  ValidationResult result{.loss = *loss, .samples = count};
  if (!classification) return result;
  RANNC_ASSIGN(const Hits all, gather_hits(trainer, hits));
  if (all.counted > 0) result.accuracy = static_cast<double>(all.correct) / static_cast<double>(all.counted);
  return result;
}

}  // namespace rannc::runtime
