#include "runtime/data/samples.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "runtime/data/internal/permutation.h"

namespace rannc::runtime {

namespace {

class MiniBatches final : public Dataset {
 public:
  MiniBatches(std::unique_ptr<const Samples> samples, uint64_t mini_batch, std::optional<uint64_t> shuffle_seed)
      : samples_(std::move(samples)), mini_batch_(mini_batch), shuffle_seed_(shuffle_seed) {
    RANNC_CHECK(mini_batch > 0 && samples_->samples() >= mini_batch) << "one mini-batch";
  }

  Result<Batch> batch(uint64_t step) const override {
    std::vector<uint64_t> places(mini_batch_);
    std::iota(places.begin(), places.end(), 0);
    return samples_->read(numbers(step, std::move(places)));
  }
  Result<Batch> part(uint64_t step, const NeededSamples& needed) const override {
    if (needed.inputs.empty()) return Batch();
    return samples_->read(numbers(step, needed.numbers()), needed.inputs);
  }

  std::optional<uint64_t> steps_per_epoch() const override { return samples_->samples() / mini_batch_; }
  std::string describe() const override {
    const uint64_t left = samples_->samples() % mini_batch_;
    const std::string text = samples_->describe() + (shuffle_seed_ ? ", shuffled" : "");
    if (left == 0) return text;
    return text + fmt::format(", of which {} {} dropped{}: {} no mini-batch of {}",
                              shuffle_seed_ ? fmt::format("{}", left) : fmt::format("the last {}", left),
                              left == 1 ? "is" : "are", shuffle_seed_ ? " in each epoch" : "",
                              left == 1 ? "it fills" : "they fill", mini_batch_);
  }

 private:
  /// Numbers of the samples at these places of the step's mini-batch.
  std::vector<uint64_t> numbers(uint64_t step, std::vector<uint64_t> places) const {
    const uint64_t per_epoch = *steps_per_epoch(), first = step % per_epoch * mini_batch_;
    for (uint64_t& place : places) place += first;
    if (!shuffle_seed_) return places;
    const Permutation order(samples_->samples(), ir::split_mix(ir::split_mix(*shuffle_seed_) ^ (step / per_epoch)));
    for (uint64_t& place : places) place = order(place);
    return places;
  }

  std::unique_ptr<const Samples> samples_;
  uint64_t mini_batch_;
  std::optional<uint64_t> shuffle_seed_;
};

}  // namespace

std::unique_ptr<Dataset> mini_batches(std::unique_ptr<const Samples> samples, uint64_t mini_batch,
                                      std::optional<uint64_t> shuffle_seed) {
  return std::make_unique<MiniBatches>(std::move(samples), mini_batch, shuffle_seed);
}

}  // namespace rannc::runtime
