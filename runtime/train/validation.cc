#include "runtime/train/validation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <sstream>
#include <vector>

#include "ir/match/match.h"
#include "ir/op/op_call.h"
#include "ir/plan/fixed_samples.h"
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

/// Whether the model computes a metric of that name of sums over samples.
bool is_metric(const ir::Graph& graph, std::string_view name) {
  if (!graph.totals().metrics) return false;
  const ir::Graph& body = graph.totals().metrics->graph();
  return std::any_of(body.outputs().begin(), body.outputs().end(),
                     [&](ValueId output) { return body.value(output).name == name; });
}

/// Sums and numbers of averaged values by metric.
class Means {
 public:
  /// Metrics that the model computes of sums are no means.
  Means(const ir::Graph& graph, const std::vector<std::string>& metrics) {
    for (const std::string& name : metrics) {
      if (!is_metric(graph, name)) of_[name];
    }
  }
  bool contains(const std::string& name) const { return of_.contains(name); }
  void add(const StepResult& result) {
    for (auto& [name, mean] : of_) {
      const auto found = result.outputs.find(name);
      if (found == result.outputs.end()) continue;  // another process computes it
      const at::Tensor values = to_tensor(found->second);
      mean.sum += values.sum().item<double>();
      mean.count += values.numel();
    }
  }
  /// Returns the means over all processes in that of device 0.
  Result<std::map<std::string, double>> gather(Trainer& trainer) const {
    std::string own;
    for (const auto& [name, mean] : of_) own += fmt::format("{:a} {} ", mean.sum, mean.count);
    std::map<std::string, Mean> all;
    RANNC_TRY(trainer.gather(own, [&](uint32_t, const std::string& text) -> Result<void> {
      std::istringstream parts(text);
      for (const auto& [name, mean] : of_) {
        std::string sum;
        int64_t count = 0;
        parts >> sum >> count;
        all[name].sum += std::strtod(sum.c_str(), nullptr);
        all[name].count += count;
      }
      return {};
    }));
    std::map<std::string, double> means;
    for (const auto& [name, mean] : all) means[name] = mean.sum / static_cast<double>(mean.count);
    return means;
  }

 private:
  struct Mean {
    double sum = 0;
    int64_t count = 0;
  };
  std::map<std::string, Mean> of_;
};

/// The mean of each sample, so that an output of any size takes a number per sample.
Value mean_of_samples(const ir::ValueType& type, const Value& part) {
  const at::Tensor values = to_tensor(part).to(at::kDouble);
  if (!type.batch.has_batch()) return to_value(values);
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < values.dim(); ++axis) {
    if (axis != type.batch.axis) others.push_back(axis);
  }
  return to_value(others.empty() ? values : values.mean(others, /*keepdim=*/true));
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

Result<void> check_metrics(const ir::Plan& plan, const std::vector<std::string>& metrics) {
  const ir::Graph& graph = plan.graph;
  const std::optional<Classification> classification = find_classification(graph);
  for (const std::string& name : metrics) {
    if (is_metric(graph, name)) continue;
    const ValueId value = graph.find(name);
    const auto outputs = graph.outputs();
    if (!value.valid() || std::find(outputs.begin(), outputs.end(), value) == outputs.end()) {
      std::vector<std::string_view> names;
      for (const ValueId output : outputs) names.push_back(graph.value(output).name);
      return error(fmt::format("metric {}: the model has no such output; it has {}", name, fmt::join(names, ", ")));
    }
    if (classification && classification->output == name)
      return error(fmt::format("metric {}: the accuracy is computed from this output", name));
    if (!graph.batch_symbol().empty() && !graph.type(value).batch.has_batch()) {
      return error(
          fmt::format("metric {}: the output has no axis of samples, so it cannot be averaged over micro-batches; let "
                      "the model return a number per sample",
                      name));
    }
  }
  return {};
}

Result<ValidationResult> validate(Trainer& trainer, const Samples& samples, const std::vector<std::string>& metrics) {
  const ir::Plan& plan = trainer.plan();
  RANNC_TRY(check_metrics(plan, metrics));
  const std::optional<Classification> classification = find_classification(plan.graph);
  Means means(plan.graph, metrics);
  const auto predict = [&](const std::string& name, const Value& part) -> Value {
    if (means.contains(name)) return mean_of_samples(plan.graph.type(plan.graph.find(name)), part);
    if (!classification || name != classification->output) return nullptr;
    return to_value(to_tensor(part).argmax(classification->axis, /*keepdim=*/true));
  };
  const bool whole = ir::samples_symbol(plan.graph).empty();
  LossSums losses;
  Hits hits;
  uint64_t count = 0, first = 0;
  for (const uint64_t end : samples.ends_of_sizes()) {
    while (first < end && (!whole || end - first >= plan.mini_batch)) {
      std::vector<uint64_t> numbers(std::min<uint64_t>(plan.mini_batch, end - first));
      std::iota(numbers.begin(), numbers.end(), first);
      RANNC_ASSIGN(const Batch batch, samples.read(numbers));
      RANNC_ASSIGN(const StepResult result, trainer.evaluate(batch, predict));
      losses.add(result);
      if (classification) hits.add(*classification, result, batch);
      means.add(result);
      first += numbers.size();
      count += numbers.size();
    }
    first = end;
  }
  RANNC_ASSIGN(const std::optional<double> loss, losses.loss(plan.graph));
  if (!loss) return error(fmt::format("validation: none of {} samples has a label that counts", count));
  ValidationResult result{.loss = *loss, .samples = count};
  if (!metrics.empty()) {
    RANNC_ASSIGN(result.metrics, means.gather(trainer));
  }
  RANNC_ASSIGN(const auto of_sums, losses.metrics(plan.graph));
  result.metrics.merge(scalar_metrics(of_sums));
  if (!classification) return result;
  RANNC_ASSIGN(const Hits all, gather_hits(trainer, hits));
  if (all.counted > 0) result.accuracy = static_cast<double>(all.correct) / static_cast<double>(all.counted);
  return result;
}

}  // namespace rannc::runtime
