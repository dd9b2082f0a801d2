/// Restores computations of an exporter on stored tensors that its file contains too.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// torch.onnx.export with dynamo=False evaluates what it can of a program's computations on its state and stores the
/// results under generated names. A parameter that is read both directly and through such a computation is then two
/// tensors, which training would make diverge.
///
/// Before => after: a tensor with a generated name is computed by tasks without a node if its numbers follow in exactly
/// one way from one other tensor that the same module reads (`copy_forms.h`), unless the file states which parameter it
/// is. A tensor whose name follows only from its place in a module (`fc.weight`) becomes a view if the module has that
/// tensor under another name.
struct ComputedCopy {
  std::string name, source;
  std::string form;          ///< in words: `it, negated`
  bool by_a_number = false;  ///< only a single number supports it
};

/// Tensors named in `kept` stay. Reads the bytes of tensors with generated names, and of the other tensors read by the
/// same modules.
std::vector<ComputedCopy> put_back_copies(ir::Graph& graph, const ir::StoredNotes& file,
                                          const std::set<std::string>& kept);

}  // namespace rannc::passes
