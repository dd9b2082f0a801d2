/// Finds parameters that an exporter computed on, so that the file has only what it made of them.
#pragma once

#include <set>
#include <string>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/parameters/internal/tensor_origins.h"

namespace rannc::passes {

/// Parameters that the exported program lists, the file has not, and a stored tensor that is not trained was probably
/// made of; and those tensors.
struct ComputedParameters {
  std::set<std::string> parameters, made;
};

/// A listed parameter is taken to be computed on where the file has no tensor of its name, no node of its module reads
/// a parameter (as it would what a weight was turned or scaled into), and nodes of its module, or of the module around
/// that, read a tensor of floats of several elements that is not listed and not trained: a table that was looked up by
/// constant places has the name of the result. Normalisations with running statistics do not count: they are folded
/// into weights, which frontends say. Kinds must have been decided. Linear.
ComputedParameters computed_parameters(const ir::Graph& graph, const ir::StoredNotes& file, const MadeOf& made_of);

}  // namespace rannc::passes
