// Steps, accumulated mini-batches and evaluations of a trainer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "runtime/internal/torch_value.h"
#include "runtime/train/gradient_norms.h"
#include "runtime/train/internal/gather_outputs.h"
#include "runtime/train/internal/report_nonfinite.h"
#include "runtime/train/internal/trainer_impl.h"

namespace rannc::runtime {

namespace {

// Numbers for a message.
std::string words_of(const Tensors& counts) {
  std::vector<std::string> words;
  for (const at::Tensor& count : counts) {
    words.push_back(count.numel() == 1 ? fmt::format("{:g}", count.to(at::kDouble).item<double>())
                                       : fmt::format("{} numbers", count.numel()));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Returns the samples as tensors of no tape, in the same memory. Autograd, which computes some gradients, refuses
/// those made in inference mode.
Batch untracked(const Batch& batch) {
  Batch samples;
  for (const auto& [name, value] : batch) {
    const at::Tensor& tensor = to_tensor(value);
    if (tensor.is_inference()) {
      samples[name] = to_value(at::empty({0}, tensor.options())
                                   .set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides()));
    } else {
      samples[name] = tensor.requires_grad() ? to_value(tensor.detach()) : value;
    }
  }
  return samples;
}

}  // namespace

StepInput Trainer::Impl::prepare(Mode mode, const std::vector<ir::TermScale>& scales, const EvaluationBatch& bound,
                                 double weight) const {
  StepInput input;
  input.step = step_;
  input.seed = options_.seed;
  input.training = mode != Mode::kEvaluate;
  input.carry = accumulated_samples_ > 0;
  input.samples_before = accumulated_samples_;
  input.overlaps_sums = options_.overlaps_sums;
  input.overlaps_recompute = options_.overlaps_recompute;
  input.symbols = bound.symbols;
  input.symbols.erase(plan().graph.batch_symbol());
  for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
    const ir::LossTerm& term = plan().graph.losses()[t];
    const auto dtype = scalar_type(plan().graph.type(term.numerator).dtype);
    input.loss_seeds.push_back(
        to_value(at::scalar_tensor(term.loss(1, scales[t]) * loss_scale() * weight, at::TensorOptions().dtype(dtype))));
  }
  return input;
}

std::set<std::string> Trainer::Impl::read_by_count(size_t count) const {
  const std::vector<std::string> names = totals_->inputs(count);
  return {names.begin(), names.end()};
}

Result<std::vector<ir::TermScale>> Trainer::Impl::use_counts(const Tensors& counts, EvaluationBatch& bound) const {
  const ir::Graph& graph = plan().graph;
  RANNC_ASSIGN(const Tensors coefficients, totals_->coefficients(counts));
  std::vector<ir::TermScale> scales;
  for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    const ir::TermScale& scale = scales.emplace_back(totals_->scale(term, coefficients));
    if (!devices_.has_stage(pipeline_.losses[t].stage) || !bound.labelled) continue;
    if (std::isfinite(scale.factor) && std::isfinite(scale.divisor)) continue;
    return error(
        graph.location(graph.producer(term.numerator)),
        fmt::format("step {}: loss term %{} is multiplied by {} and divided by {}, computed from the counts {}", step_,
                    graph.value(term.numerator).name, scale.factor, scale.divisor, words_of(counts)));
  }
  for (const ir::Totals::Given& given : graph.totals().given) {
    const at::Tensor& number = coefficients[given.coefficient];
    const bool reads = std::any_of(pipeline_.stages.begin(), pipeline_.stages.end(), [&](const Signature& stage) {
      return devices_.has_stage(stage.stage) && stage.input_of(given.input) >= 0;
    });
    if (reads && bound.labelled && !at::isfinite(number).all().item<bool>()) {
      return error(fmt::format("step {}: %{} has elements that are not finite, computed from the counts {}", step_,
                               graph.value(given.input).name, words_of(counts)));
    }
    const auto dtype = scalar_type(graph.type(given.input).dtype);
    bound.batch[std::string(graph.value(given.input).name)] = to_value(number.to(dtype));
  }
  return scales;
}

Result<void> Trainer::Impl::report_sums(const StepSums& sums, StepResult& result) const {
  const ir::Graph& graph = plan().graph;
  result.sums.numerators = sums.numerators;
  if (sums.numerators.empty()) return {};
  RANNC_ASSIGN(const Tensors coefficients, totals_->coefficients(sums.counts));
  for (size_t t = 0; t < sums.numerators.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    result.loss += term.loss(sums.numerators[t], totals_->scale(term, coefficients));
  }
  for (const at::Tensor& count : sums.counts) result.sums.counts.push_back(to_value(count));
  for (const at::Tensor& sum : sums.sums) result.sums.sums.push_back(to_value(sum));
  RANNC_ASSIGN(const auto metrics, totals_->metrics(sums.sums, sums.counts));
  for (const auto& [name, metric] : metrics) result.metrics.emplace(name, to_value(metric));
  return {};
}

Result<void> Trainer::Impl::make_smaller(uint32_t samples) {
  RANNC_ASSIGN(Pipeline smaller, forward_pipeline(pipeline_, samples));
  if (smaller_ && smaller_->shape == smaller.shape) return {};
  for (const auto& device : devices_.all()) device->smaller.reset();
  smaller_ = std::make_unique<Pipeline>(std::move(smaller));
  for (const auto& device : devices_.all()) device->smaller = make_executor(*smaller_, *device);
  return {};
}

Result<std::vector<StepOutcome>> Trainer::Impl::run_devices(const StepInput& input, Mode mode, uint32_t samples) {
  const bool smaller = samples != plan().mini_batch;
  if (smaller) RANNC_TRY(make_smaller(samples));
  std::vector<StepOutcome> outcomes(devices_.all().size());
  RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
    StepInput own = input;
    if (mode == Mode::kTrain) {
      own.updates_later = updates_after_norm();
      own.update = update_of(device);
    }
    RANNC_ASSIGN(outcomes[static_cast<size_t>(devices_.position_of(device))],
                 (smaller ? device.smaller : device.executor)->run(own));
    return {};
  }));
  return outcomes;
}

Result<void> Trainer::Impl::update_after_norm(StepResult& result) {
  RANNC_ASSIGN(const double scaled, gradient_norm(plan(), owned_, devices_, options_.observer));
  const double scale = loss_scale(), norm = scaled / scale;
  const bool finite = std::isfinite(norm) && std::isfinite(result.loss);
  const bool fails = !finite && (!scales_loss_ || loss_scale_.is_least());
  if (fails && options_.nonfinite != nullptr) {
    result.gradient_norm = norm;
    return {};  // reported as a gradient
  }
  if (fails) {
    const std::string at = scales_loss_ ? fmt::format(" at a loss scale of {}, the smallest", scale) : "";
    RANNC_TRY(finish_save());  // all processes come here
    return devices_.close(
        error(fmt::format("step {}: the loss is {} and the gradient's norm {}{}", step_, result.loss, norm, at)));
  }
  if (scales_loss_) loss_scale_.count(finite);
  result.skipped = !finite;
  if (options_.clip_norm > 0) result.gradient_norm = norm;
  if (result.skipped) return {};
  const double clip = options_.clip_norm > 0 ? clip_scale(norm, options_.clip_norm) : 1;
  for (const auto& device : devices_.all()) await_saving(*device);
  return update_scaled(devices_, {updates_done_, clip / scale});
}

Result<EvaluationBatch> Trainer::Impl::bind(Mode mode, const Batch& given, const NeededSamples* part) const {
  Batch batch = untracked(given);
  if (mode == Mode::kEvaluate) return bind_evaluation(plan(), batch, needed_);
  if (!plan().training) return error("the bundle was compiled without a loss: it cannot be trained");
  RANNC_ASSIGN(ir::Bindings symbols,
               part == nullptr ? bind_batch(plan(), batch, needed_) : bind_part(plan(), batch, *part));
  return EvaluationBatch{std::move(batch), std::move(symbols), plan().mini_batch, true};
}

Result<std::unique_ptr<Trainer::Impl::Counted>> Trainer::Impl::count(Mode mode, const Batch& batch,
                                                                     const NeededSamples* part) {
  RANNC_ASSIGN(EvaluationBatch bound, bind(mode, batch, part));
  auto counted = std::make_unique<Counted>(std::move(bound), part);
  const CountedSamples of{.feed = counted->feed,
                          .symbols = counted->bound.symbols,
                          .samples = counted->bound.samples,
                          .whose = part == nullptr ? Labels::kAll : Labels::kOwn,
                          .labelled = counted->bound.labelled,
                          .by_replica = mode != Mode::kEvaluate};
  RANNC_ASSIGN(counted->counts, count_samples(plan(), pipeline_, devices_, count_places_, *totals_, of));
  return counted;
}

Result<StepSums> Trainer::Impl::run_counted(Mode mode, Counted& of, const Tensors& counts, double weight,
                                            const Reduced& outputs) {
  RANNC_ASSIGN(const std::vector<ir::TermScale> scales, use_counts(counts, of.bound));
  StepInput input = prepare(mode, scales, of.bound, weight);
  if (input.training) seed_scale_ = loss_scale();
  input.feed = &of.feed;
  input.keep_outputs = outputs.result != nullptr;
  if (outputs.reduce) {
    input.reduce_output = [&](ValueId output, const Value& part) {
      return outputs.reduce(std::string(plan().graph.value(output).name), part);
    };
  }
  RANNC_ASSIGN(const std::vector<StepOutcome> outcomes, run_devices(input, mode, of.bound.samples));
  RANNC_ASSIGN(StepSums sums, sum_step(plan(), pipeline_, devices_, count_places_, outcomes, of.counts,
                                       {.labelled = of.bound.labelled, .settings = rules_digest_, .step = step_}));
  if (outputs.result != nullptr) gather_outputs(plan(), outcomes, of.bound.symbols, *outputs.result);
  if (mode == Mode::kAccumulate) accumulated_samples_ += of.bound.samples;
  return sums;
}

namespace {

void add(const Tensors& from, Tensors& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = to[i] + from[i];
}

}  // namespace

Result<StepResult> Trainer::Impl::attempt(Mode mode, std::span<const Batch> batches, Accumulated how,
                                          const ReduceNamed& reduce, const NeededSamples* part) {
  if (averages_swapped_ && mode != Mode::kEvaluate)
    return error("parameters are exchanged with their averages: a step needs them back");
  if (batches.empty()) return error("a step needs a mini-batch");
  std::vector<std::unique_ptr<Counted>> counted;
  for (const Batch& batch : batches) {
    RANNC_ASSIGN(counted.emplace_back(), count(mode, batch, part));
  }
  Tensors all = counted[0]->counts;
  for (size_t i = 1; i < counted.size(); ++i) add(counted[i]->counts, all);
  const bool mean = how == Accumulated::kMean && batches.size() > 1;
  const double weight = mean ? 1.0 / static_cast<double>(batches.size()) : 1;
  StepResult result;
  StepSums sums;
  double losses = 0;
  const uint64_t before = accumulated_samples_;
  const auto forget = [&](const Diagnostic& failure) -> Diagnostic {
    if (before > 0) return devices_.close(failure);  // its sums are lost
    accumulated_samples_ = 0;
    return failure;
  };
  for (size_t i = 0; i < counted.size(); ++i) {
    const bool last = i + 1 == counted.size();
    Counted& own = *counted[i];
    auto run = run_counted(last ? mode : Mode::kAccumulate, own, mean ? own.counts : all, weight,
                           {mode == Mode::kTrain ? nullptr : &result, reduce});
    if (!run.ok()) return i > 0 ? forget(run.diagnostic()) : run.diagnostic();
    StepSums of = *std::move(run);
    if (mean) {
      StepResult alone;
      if (const auto reported = report_sums(of, alone); !reported.ok()) return forget(reported.diagnostic());
      losses += alone.loss * weight;
    }
    result.samples += own.bound.samples;
    if (result.beyond_plan.empty()) result.beyond_plan = sizes_beyond_plan(plan(), own.bound.symbols);
    if (i == 0) {
      sums = std::move(of);
      continue;
    }
    for (size_t t = 0; t < sums.numerators.size(); ++t) sums.numerators[t] += of.numerators[t];
    add(of.counts, sums.counts);
    add(of.sums, sums.sums);
  }
  RANNC_TRY(report_sums(sums, result));
  if (mean) result.loss = losses;
  return mode == Mode::kTrain ? finish_step(std::move(result)) : result;
}

Result<void> Trainer::Impl::check_loss(uint64_t step, double loss) {
  if (std::isfinite(loss) || scales_loss_ || options_.nonfinite != nullptr) return {};
  if (!devices_.failure()) RANNC_TRY(finish_save());  // all processes come here
  const Diagnostic reason = error(fmt::format("step {}: the loss is {}", step, loss));
  devices_.close(reason);
  return reason;
}

Result<StepResult> Trainer::Impl::finish_step(StepResult result) {
  RANNC_TRY(check_loss(step_, result.loss));
  if (updates_after_norm()) RANNC_TRY(update_after_norm(result));
  if (options_.nonfinite != nullptr) {
    RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
      report_nonfinite(device, plan(), step_, *options_.nonfinite);
      return {};
    }));
  }
  ++step_;
  if (!result.skipped) ++updates_done_;
  accumulated_samples_ = 0;
  return result;
}

}  // namespace rannc::runtime
