/// Outputs of a model over all samples of an evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Graph outputs, assembled from mini-batches and from the parts of several processes. Not thread-safe.
class Outputs {
 public:
  /// `symbols`: bindings of a mini-batch from `bind_evaluation`. Keeps a reference to the plan.
  Outputs(const ir::Plan& plan, ir::Bindings symbols) : plan_(plan), symbols_(std::move(symbols)) {}

  /// Adds the outputs of a mini-batch that begins at sample `first`.
  void add(const StepResult& result, uint64_t first);

  /// Writes the outputs of this process to a file, which `add_part` of another process reads.
  Result<void> write_part(const std::string& path) const;
  Result<void> add_part(const std::string& path);

  /// Returns every output over [0, samples). The added outputs must cover all samples.
  std::map<std::string, Value> whole(uint64_t samples) const;

  /// Writes every output over [0, samples) under its name to a temporary sibling of `path` and renames it. The added
  /// outputs must cover all samples.
  Result<void> write(const std::string& path, uint64_t samples,
                     const std::map<std::string, std::string>& metadata = {}) const;

 private:
  struct Piece {
    ir::SampleRange samples;  ///< empty for an output without samples
    Value value;
  };
  SampleAxis axis_of(const std::string& name) const;
  Value joined(const std::string& name, const std::vector<Piece>& pieces) const;
  void add_pieces(const std::string& name, const std::vector<ir::SampleRange>& ranges, const Value& value,
                  uint64_t first);

  const ir::Plan& plan_;
  ir::Bindings symbols_;
  std::map<std::string, std::vector<Piece>> pieces_;
};

}  // namespace rannc::runtime
