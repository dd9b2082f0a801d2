/// Reads the samples of a file, in file order, as inputs of a plan's model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/batch.h"

namespace rannc::runtime {

/// Purpose of reading a file of samples.
enum class SampleUse : uint8_t {
  kEvaluation,  ///< labels may be missing or unused by the model; the last mini-batch may be smaller
  kTraining,    ///< every input that the model reads is required; a trailing partial mini-batch is dropped
};

/// Returns the number of samples in `tensors`, keyed by graph input. The type of an input determines its sample axis,
/// if it has one. If no symbol counts samples, the number is fixed by the graph (`ir::fixed_samples`). Errors are those
/// of `SampleFile::open`, located in `path`.
Result<uint64_t> count_samples(const ir::Graph& graph, const std::map<std::string, TensorSpec>& tensors,
                               const std::string& path);

/// Reader of samples for training, evaluation and checks. The .safetensors file has a tensor `x/<input>` per input of
/// the model and, if there are labels, `labels/<name>`. The whole file is read at once.
class SampleFile {
 public:
  /// Samples are split along the axis that the type of each input specifies. An input without samples is part of every
  /// mini-batch as a whole. A model exported with a fixed batch does not specify the sample axis. Its tensors must have
  /// the exported shape, or a multiple of it along axis 0 if axis 0 of every output counts the samples.
  /// In evaluation, labels that the model does not read are skipped and listed by `unread`.
  ///
  /// Errors name the file and the tensor:
  /// - a tensor that is no input of the model, or has another rank or element type (floats of any width are accepted);
  /// - a different number of samples than in an earlier tensor (the error names both), or none;
  /// - a required input that is missing;
  /// - for training, fewer samples than a mini-batch.
  static Result<SampleFile> open(const std::string& path, const ir::Plan& plan, SampleUse use = SampleUse::kEvaluation);

  uint64_t samples() const { return samples_; }
  /// Maximum number of samples of a mini-batch, from the plan.
  uint64_t mini_batch() const { return mini_batch_; }
  uint64_t whole_mini_batches() const { return samples_ / mini_batch_; }
  /// Samples after the last whole mini-batch.
  uint64_t left_over() const { return samples_ % mini_batch_; }
  const std::vector<std::string>& unread() const { return unread_; }
  /// Whether only whole mini-batches can be read (fixed batch).
  bool fixed() const { return fixed_; }
  /// Returns samples [first, last): at most one mini-batch, or exactly one if the batch is fixed.
  Batch batch(uint64_t first, uint64_t last) const;

 private:
  struct Input {
    Value whole;
    SampleAxis axis;  ///< if not present, every mini-batch contains the whole value
  };
  Result<void> check_fixed(const ir::Graph& graph) const;

  std::string path_;
  std::map<std::string, Input> inputs_;
  std::vector<std::string> unread_;
  uint64_t samples_ = 0, mini_batch_ = 0;
  bool fixed_ = false;
};

}  // namespace rannc::runtime
