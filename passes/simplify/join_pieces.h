/// Cancels slices and splits that are concatenated again.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Exporters use slices and a concatenation to bring stored tensors into the order that an ONNX operator expects.
/// Frontends use a split and a concatenation to bring them into the order of our operators. Examples are the gates of
/// recurrent layers and the heads of a merged projection. The pieces of a concatenation are followed through splits,
/// slices, concatenations and unsqueezes. If they are all pieces of one value along one axis, in order, the
/// concatenation is replaced by that value, reshaped.
///
/// Before: final types. After: the same numbers, bit for bit; values without readers are left to remove-dead. Runs
/// before fusions. Linear in the pieces; visits at most a few hundred values per concatenation. Never moves numbers:
/// pieces in another order stay as they are.
/// Example: `tests/passes/golden/join_pieces.rir`.
class JoinPieces : public Pass {
 public:
  std::string_view name() const override { return "join-pieces"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
