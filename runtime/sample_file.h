/// The samples of a file, in its order, as a plan's model takes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/batch.h"

namespace rannc::runtime {

/// A .safetensors file with a tensor `x/<input>` per input of the model and, where there are labels, `labels/<name>`.
/// All of it is read at once.
class SampleFile {
 public:
  /// Errors name the file and the tensor: one that the model does not know, has another rank or element type (floats of
  /// any width fit), counts other samples than those before it, or none; an input that outputs need and that is not
  /// there. Labels that the model does not read are left out, and named by `unread`.
  ///
  /// A model exported for a fixed batch does not say which axis counts samples: its tensors may be as exported, or a
  /// multiple of that along axis 0, if every output has that many samples in front.
  static Result<SampleFile> open(const std::string& path, const ir::Plan& plan);

  uint64_t samples() const { return samples_; }
  /// Most samples of a mini-batch, the plan's.
  uint64_t mini_batch() const { return mini_batch_; }
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
  Result<void> add(const ir::Graph& graph, const std::string& name, Value value, const ir::Bindings& sizes);
  Result<void> count(const std::string& name, int64_t samples);
  Result<void> check_fixed(const ir::Graph& graph) const;

  std::string path_;
  std::map<std::string, Input> inputs_;
  std::vector<std::string> unread_;
  std::string counted_;  ///< the input whose samples were counted first
  uint64_t samples_ = 0, mini_batch_ = 0;
  bool fixed_ = false;
};

}  // namespace rannc::runtime
