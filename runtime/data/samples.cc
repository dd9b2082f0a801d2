#include "runtime/data/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/data/internal/permutation.h"

namespace rannc::runtime {

namespace {

class MiniBatches final : public Dataset {
 public:
  MiniBatches(std::unique_ptr<const Samples> samples, uint64_t mini_batch, std::optional<uint64_t> shuffle_seed)
      : samples_(std::move(samples)), mini_batch_(mini_batch), shuffle_seed_(shuffle_seed) {
    RANNC_CHECK(mini_batch > 0);
    uint64_t begin = 0;
    for (const uint64_t end : samples_->ends_of_sizes()) {
      runs_.push_back({begin, end - begin, per_epoch_});
      per_epoch_ += (end - begin) / mini_batch;
      begin = end;
    }
    RANNC_CHECK(per_epoch_ > 0) << "one mini-batch";
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

  std::optional<uint64_t> steps_per_epoch() const override { return per_epoch_; }
  std::string describe() const override {
    const uint64_t left = samples_->samples() - per_epoch_ * mini_batch_;
    const std::string text = samples_->describe() + (shuffle_seed_ ? ", shuffled" : "");
    if (left == 0) return text;
    return text +
           fmt::format(", of which {} {} dropped{}: {} no mini-batch of {}",
                       shuffle_seed_ || runs_.size() > 1 ? fmt::format("{}", left) : fmt::format("the last {}", left),
                       left == 1 ? "is" : "are", shuffle_seed_ ? " in each epoch" : "",
                       left == 1 ? "it fills" : "they fill", mini_batch_) +
           (runs_.size() > 1 ? " with others of their size" : "");
  }

 private:
  /// Samples of one size.
  struct Run {
    uint64_t first = 0, samples = 0;
    uint64_t before = 0;  // mini-batches of other sizes in front
  };

  /// Numbers of the samples at these places of the step's mini-batch.
  std::vector<uint64_t> numbers(uint64_t step, std::vector<uint64_t> places) const {
    uint64_t key = 0, at = step % per_epoch_;
    if (shuffle_seed_) {
      key = ir::split_mix(ir::split_mix(*shuffle_seed_) ^ (step / per_epoch_));
      if (runs_.size() > 1) at = Permutation(per_epoch_, ir::split_mix(~key))(at);
    }
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), at,
                                        [](uint64_t wanted, const Run& run) { return wanted < run.before; });
    const Run& run = *std::prev(after);
    for (uint64_t& place : places) place += (at - run.before) * mini_batch_;
    if (shuffle_seed_) {
      const auto index = static_cast<uint64_t>(&run - runs_.data());
      const Permutation order(run.samples, index == 0 ? key : ir::split_mix(key ^ index));
      for (uint64_t& place : places) place = order(place);
    }
    for (uint64_t& place : places) place += run.first;
    return places;
  }

  std::unique_ptr<const Samples> samples_;
  uint64_t mini_batch_;
  std::optional<uint64_t> shuffle_seed_;
  std::vector<Run> runs_;
  uint64_t per_epoch_ = 0;
};

}  // namespace

uint64_t whole_mini_batches(const Samples& samples, uint64_t mini_batch) {
  uint64_t count = 0, begin = 0;
  for (const uint64_t end : samples.ends_of_sizes()) count += (end - std::exchange(begin, end)) / mini_batch;
  return count;
}

std::unique_ptr<Dataset> mini_batches(std::unique_ptr<const Samples> samples, uint64_t mini_batch,
                                      std::optional<uint64_t> shuffle_seed) {
  return std::make_unique<MiniBatches>(std::move(samples), mini_batch, shuffle_seed);
}

}  // namespace rannc::runtime
