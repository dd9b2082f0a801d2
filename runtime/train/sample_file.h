/// The samples of a file, in its order, as a plan's model takes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/batch.h"

namespace rannc::runtime {

/// What the samples of a file are read for.
enum class SampleUse : uint8_t {
  kEvaluation,  ///< labels may be missing, or be unknown to the model; the last mini-batch may be smaller
  kTraining,    ///< every input that the model reads is there; a trailing partial mini-batch is dropped
};

/// Number of samples in a mini-batch of tensors that belong to inputs of `graph`, by the inputs' names. Each input has
/// its samples on the axis that its type says, an input without samples has none. Where no symbol counts the samples,
/// the number is that of the graph (`ir::fixed_samples`). Errors are those of `SampleFile::open`, located in `path`.
Result<uint64_t> count_samples(const ir::Graph& graph, const std::map<std::string, TensorSpec>& tensors,
                               const std::string& path);

/// The one reader of samples, for training, evaluation and checks: a .safetensors file with a tensor `x/<input>` per
/// input of the model and, where there are labels, `labels/<name>`. All of it is read at once.
class SampleFile {
 public:
  /// Errors name the file and the tensor: one that the model does not know, has another rank or element type (floats of
  /// any width fit), counts other samples than those before it (the error names both tensors), or none; an input that
  /// is needed and not there; for training, fewer samples than a mini-batch. In evaluation labels that the model does
  /// not read are left out, and named by `unread`.
  ///
  /// Samples are cut along the axis that the type of each input says. An input without samples goes whole to every
  /// mini-batch. A model exported for a fixed batch does not say which axis counts samples: its tensors may be as
  /// exported, or a multiple of that along axis 0, if every output has that many samples in front.
  static Result<SampleFile> open(const std::string& path, const ir::Plan& plan, SampleUse use = SampleUse::kEvaluation);

  uint64_t samples() const { return samples_; }
  /// Most samples of a mini-batch, the plan's.
  uint64_t mini_batch() const { return mini_batch_; }
  uint64_t whole_mini_batches() const { return samples_ / mini_batch_; }
  /// Samples behind the last whole mini-batch.
  uint64_t left_over() const { return samples_ % mini_batch_; }
  const std::vector<std::string>& unread() const { return unread_; }
  /// Whether samples come in whole mini-batches only.
  bool fixed() const { return fixed_; }
  /// Samples [first, last): at most a mini-batch of them; of a fixed batch exactly one.
  Batch batch(uint64_t first, uint64_t last) const;

 private:
  struct Input {
    Value whole;
    SampleAxis axis;  ///< not present: every mini-batch gets the whole value
  };
  Result<void> check_fixed(const ir::Graph& graph) const;

  std::string path_;
  std::map<std::string, Input> inputs_;
  std::vector<std::string> unread_;
  uint64_t samples_ = 0, mini_batch_ = 0;
  bool fixed_ = false;
};

}  // namespace rannc::runtime
