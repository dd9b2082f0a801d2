// Steps of a trainer whose results are read after the next step is enqueued.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/train/internal/trainer_impl.h"

namespace rannc::runtime {

// The first step gives back memory when it has ended.
bool Trainer::Impl::can_run_ahead(size_t mini_batches) const {
  const bool decides = updates_after_norm() || options_.nonfinite != nullptr;
  const bool one_batch = mini_batches == 1 && accumulated_samples_ == 0;
  return awaited_ && one_batch && !decides && plan().training && !averages_swapped_ && devices_.whole() &&
         std::all_of(devices_.all().begin(), devices_.all().end(),
                     [](const auto& device) { return device->transport->hardware().is_asynchronous(); });
}

Result<void> Trainer::Impl::begin_parts(std::span<const Batch> batches, Accumulated how) {
  if (const auto ended = devices_.failure()) return *ended;
  if (begun_.size() > 1) return error("two steps have begun: end_step() returns the result of the first");
  if (can_run_ahead(batches.size())) return begin_ahead(batches[0]);
  RANNC_ASSIGN(StepResult result, run_parts(batches, how));
  begun_.push_back({.step = step_ - 1, .batch = nullptr, .result = std::move(result)});
  return {};
}

Result<void> Trainer::Impl::begin_ahead(const Batch& batch) {
  RANNC_ASSIGN(std::unique_ptr<Counted> counted, count(Mode::kTrain, batch, &needed_samples_));
  RANNC_ASSIGN(const std::vector<ir::TermScale> scales, use_counts(counted->counts, counted->bound));
  StepInput input = prepare(Mode::kTrain, scales, counted->bound, 1);
  seed_scale_ = loss_scale();
  input.feed = &counted->feed;
  begun_.push_back({.step = step_, .batch = std::move(counted), .result = std::nullopt});
  const Result<void> enqueued = devices_.enqueue_each([&](TrainedDevice& device) -> Result<void> {
    StepInput own = input;
    own.update = update_of(device);
    return device.executor->begin(own);
  });
  if (!enqueued.ok()) {
    static_cast<void>(devices_.for_each([](TrainedDevice&) { return Result<void>(); }));  // what is enqueued ends
    begun_.pop_back();
    if (runs_ahead()) begun_.back().result = await(begun_.back());
    return enqueued;
  }
  ++step_;
  ++updates_done_;
  return {};
}

Result<StepResult> Trainer::Impl::read_result(Begun& begun) {
  std::vector<StepOutcome> outcomes(devices_.all().size());
  RANNC_TRY(devices_.enqueue_each([&](TrainedDevice& device) -> Result<void> {
    RANNC_ASSIGN(outcomes[static_cast<size_t>(devices_.position_of(device))], device.executor->end());
    return {};
  }));
  RANNC_ASSIGN(const StepSums sums,
               sum_step(plan(), pipeline_, devices_, count_places_, outcomes, begun.batch->counts,
                        {.labelled = begun.batch->bound.labelled, .settings = rules_digest_, .step = begun.step}));
  StepResult result;
  result.samples = begun.batch->bound.samples;
  result.beyond_plan = sizes_beyond_plan(plan(), begun.batch->bound.symbols);
  RANNC_TRY(report_sums(sums, result));
  RANNC_TRY(check_loss(begun.step, result.loss));
  return result;
}

// An error of the step after this one may have closed the run.
Result<StepResult> Trainer::Impl::await(Begun& begun) {
  Result<StepResult> result = read_result(begun);
  begun.batch.reset();
  if (!result.ok()) {
    step_ = begun.step;
    devices_.close(result.diagnostic());
    return result;
  }
  for (const auto& device : devices_.all()) device->transport->hardware().drop_staged();
  if (!devices_.failure()) RANNC_TRY(finish_written());
  return result;
}

Result<void> Trainer::Impl::await_begun() {
  for (size_t i = 0; i < begun_.size(); ++i) {
    if (begun_[i].result) continue;
    Result<StepResult> result = await(begun_[i]);
    if (!result.ok()) {
      drop_failed(i);
      return result.diagnostic();
    }
    begun_[i].result = std::move(result);
  }
  return {};
}

Result<StepResult> Trainer::Impl::end_step() {
  if (begun_.empty()) return devices_.failure().value_or(error("no step has begun that lacks its end"));
  Begun& first = begun_.front();
  Result<StepResult> result = first.result ? *std::move(first.result) : await(first);
  if (!result.ok()) {
    drop_failed(0);
  } else {
    begun_.pop_front();
  }
  return result;
}

// Steps after one of which only the checkpoint failed are as good as without it.
void Trainer::Impl::drop_failed(size_t step) {
  if (devices_.failure()) {
    drop_begun(step);
  } else {
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(step));
  }
}

// Devices read the batches until their work is done.
void Trainer::Impl::drop_begun(size_t first) {
  if (runs_ahead() && devices_.is_own()) {
    static_cast<void>(devices_.for_each([](TrainedDevice& device) -> Result<void> {
      device.executor->drop_begun();
      return {};
    }));
  }
  begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(first), begun_.end());
}

}  // namespace rannc::runtime
