/// load-weights: stored values take the numbers of tensors under the program's own names.
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
  bool partial = false;   ///< names may be missing, and keep their values, or unexpected, and are left out
  bool converts = false;  ///< floats of another width become those of the model
};

/// Before => after: parameters, buffers and float constants that have a part of the graph's state (`ir::full_state`)
/// hold what the tensors say; nothing else changes. Integers have decided what the graph is: they must be equal. All
/// names, shapes and types that do not fit are one error; under `partial` names that differ are a warning.
///
/// It stands behind recover-parameters, which knows the names, and set-precision, so that a tensor is converted once;
/// before fold-constants, which reads numbers. Cost: the bytes of tensors that the graph holds otherwise than the file
/// (transposed, joined, converted); the others stay in the file. Without tensors it does nothing: a reproducer has
/// none.
class LoadWeights : public Pass {
 public:
  explicit LoadWeights(std::optional<GivenWeights> given = {}) : given_(std::move(given)) {}
  std::string_view name() const override { return "load-weights"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::optional<GivenWeights> given_;
};

}  // namespace rannc::passes
