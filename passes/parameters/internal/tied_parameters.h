/// Merges stored tensors that are one parameter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

struct TieRules {
  const ir::StoredNotes& file;
  std::vector<std::string> tied = {};                ///< patterns of tensors that are one if their values are equal
  std::vector<std::string> untied = {};              ///< patterns of tensors that stay separate
  const std::map<std::string, std::string>& parted;  ///< tensors that were separated before
};

/// Two parameters of equal values, or of which one is the other's transpose.
struct AlikeParameters {
  std::string first, second;
  bool transposed = false;
  bool is_one = false;       ///< uses or the user show that they are one
  bool known_apart = false;  ///< the program lists both, or they were separated before
};

struct TiedParameters {
  bool changed = false;
  std::vector<AlikeParameters> alike = {};
};

/// Exporters also write one parameter as several tensors, such as a transposed copy. Two tensors are merged if their
/// values, or those of the transpose, are equal and one of these holds:
/// - the file records that the program reads the same tensor in both places;
/// - the exporter generated the name of one of them, rows of one are looked up, as in an embedding, and activations are
///   multiplied by the other, as in a head;
/// - the user requests it.
/// All readers of the second then read the first, through core.permute if it is the transpose. The second's tensors of
/// state are mapped to the first. Equal values alone merge nothing. Linear in the graph; reads the bytes of tensors
/// that look alike.
Result<TiedParameters> tie_parameters(ir::Graph& graph, const std::vector<ValueId>& parameters, const TieRules& rules);

}  // namespace rannc::passes
