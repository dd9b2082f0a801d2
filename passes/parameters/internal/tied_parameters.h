/// Makes one parameter of several stored tensors that are one.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

struct TieRules {
  const ir::StoredNotes& file;
  std::vector<std::string> tied = {};    ///< patterns: what is like one of them and has equal values is one
  std::vector<std::string> untied = {};  ///< patterns of what stays apart
};

/// Exporters also write one parameter as several tensors, such as a transposed copy. Equal values (or those of the
/// transpose) are needed, and one of:
/// - the file says of both that the program reads the same tensor there;
/// - in one rows are looked up, as an embedding, and by the other activations are multiplied, as a head: unless the
///   program lists both as tensors of their own;
/// - the user says so.
/// All readers of the second then read the first, by way of core.permute where that is its transpose; its tensors of
/// state lie in the first. Said in the remarks; other tensors of equal values are `open`.
///
/// Returns whether there were any. Linear in the graph; of stored bytes it reads those that look alike.
Result<bool> tie_parameters(ir::Graph& graph, const std::vector<ValueId>& parameters, const TieRules& rules,
                            PassContext& context);

}  // namespace rannc::passes
