/// Merges stored tensors that are one parameter.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

struct TieRules {
  const ir::StoredNotes& file;
  std::vector<std::string> tied = {};    ///< patterns of tensors that are one if their values are equal
  std::vector<std::string> untied = {};  ///< patterns of tensors that stay separate
};

/// Exporters also write one parameter as several tensors, such as a transposed copy. Two tensors are merged if their
/// values, or those of the transpose, are equal and one of these holds:
/// - the file records that the program reads the same tensor in both places;
/// - rows of one are looked up, as in an embedding, and activations are multiplied by the other, as in a head, unless
///   the program lists both as separate tensors;
/// - the user requests it.
/// All readers of the second then read the first, through core.permute if it is the transpose. The second's tensors of
/// state are mapped to the first. Merges are reported in the remarks; other tensors of equal values are `open`.
///
/// Returns whether any were merged. Linear in the graph; reads the bytes of tensors that look alike.
Result<bool> tie_parameters(ir::Graph& graph, const std::vector<ValueId>& parameters, const TieRules& rules,
                            PassContext& context);

}  // namespace rannc::passes
