/// What is taken apart and put together again is what it was.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Exporters reorder stored tensors into the order of an operator of ONNX by slices and a concatenation, frontends into
/// that of ours by a split and another one: gates of recurrent layers, heads of a merged projection. A concatenation
/// whose pieces, followed through splits, slices, concatenations and unsqueezes, are all of one value along one axis,
/// in order, is that value, seen in its shape.
///
/// Before: final types. After: the same numbers, bit for bit; what nothing reads any more stays for remove-dead. Stands
/// before fusions. Linear in the pieces, of which no value is followed through more than a few hundred. Never moves
/// numbers: pieces in another order stay as they are.
class JoinPieces : public Pass {
 public:
  std::string_view name() const override { return "join-pieces"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
