/// Finite collections of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace rannc::runtime {

/// Purpose of reading samples.
enum class SampleUse : uint8_t {
  kEvaluation,  ///< labels may be missing or unused by the model; the last mini-batch may be smaller
  kTraining,    ///< every input that the model reads is required; a trailing partial mini-batch is dropped
  kValidation,  ///< every input that the model reads is required; the last mini-batch may be smaller
};

/// Samples of a model's inputs, numbered from 0. Reading is thread-safe.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual uint64_t samples() const = 0;
  /// The number after the last sample of each size, ascending: samples of a mini-batch have the same sizes.
  virtual std::vector<uint64_t> ends_of_sizes() const { return {samples()}; }
  /// Returns the samples with these numbers, in this order: at most one mini-batch. The tensors are copies. `inputs`:
  /// those to read; empty: all.
  virtual Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const = 0;
  Result<Batch> read(std::span<const uint64_t> numbers) const { return read(numbers, {}); }
  /// Returns a one-line description: `5 samples`.
  virtual std::string describe() const = 0;
};

/// Number of whole mini-batches of samples of one size.
uint64_t whole_mini_batches(const Samples& samples, uint64_t mini_batch);

/// Returns a data set of mini-batches of the samples, epoch after epoch. With `shuffle_seed`, each epoch has a random
/// order of its own, which depends only on the seed and the number of the epoch: of the samples of a size, and of the
/// mini-batches. Otherwise the samples follow in the order of their numbers. A trailing partial mini-batch of a size is
/// dropped. `samples` must have at least one mini-batch.
std::unique_ptr<Dataset> mini_batches(std::unique_ptr<const Samples> samples, uint64_t mini_batch,
                                      std::optional<uint64_t> shuffle_seed);

}  // namespace rannc::runtime
