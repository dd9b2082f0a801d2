/// Loads stored values from tensors that have the program's own names.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/graph/constant.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Tensors of a `state_dict`.
struct GivenWeights {
  std::string file;  ///< for messages
  std::map<std::string, ir::StoredTensor> tensors;
  bool partial = false;   ///< missing names keep their values; unexpected names are ignored
  bool converts = false;  ///< floats of another width are converted to those of the model
};

/// Before => after: parameters, buffers and float constants that have a part of the graph's state (`ir::full_state`)
/// get the values of the tensors; nothing else changes. Integers must be equal, because they have already determined
/// the graph. All mismatched names, shapes and types are reported in one error; with `partial`, mismatched names are a
/// warning.
///
/// Runs after recover-parameters, which determines the names, and set-precision, so that a tensor is converted once,
/// and before fold-constants, which reads numbers. Cost: the bytes of tensors that the graph stores in another form
/// than the file (transposed, concatenated, converted); the others stay in the file. Without tensors it does nothing,
/// because a reproducer has none.
///
/// Example: `tests/passes/golden/load_weights.rir`.
class LoadWeights : public Pass {
 public:
  explicit LoadWeights(std::optional<GivenWeights> given = {}) : given_(std::move(given)) {}
  std::string_view name() const override { return "load-weights"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::optional<GivenWeights> given_;
};

}  // namespace rannc::passes
