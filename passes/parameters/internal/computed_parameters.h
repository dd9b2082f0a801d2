/// Finds parameters of which the file has only results that the exporter computed.
#pragma once

#include <set>
#include <string>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Parameters that the program lists and the file lacks, and from which an untrained stored tensor was probably
/// computed; and those tensors.
struct ComputedParameters {
  std::set<std::string> parameters, made;
};

/// Reports a listed parameter under these conditions:
/// - the file has no tensor of its name;
/// - no node of its module reads a parameter, as it would read a permuted or scaled weight;
/// - nodes of its module, or of the enclosing one, read a float tensor of several elements that is neither listed nor
///   trained. For example, a table that was looked up at constant places has the name of the result.
///
/// Normalizations with running statistics do not count: they are folded into weights, which frontends report. Kinds
/// must have been decided. Linear.
ComputedParameters computed_parameters(const ir::Graph& graph, const ir::StoredNotes& file);

}  // namespace rannc::passes
