/// Finds the symbol that would count the samples of a graph that was read as a whole batch.
#pragma once

#include <string>

#include "frontend/import.h"

namespace rannc::frontend {

/// Returns that symbol by the rule of `ImportOptions::batch_symbol`, or an empty string if there is none.
std::string symbol_of_whole(const ir::Graph& graph, const ImportOptions& options);

}  // namespace rannc::frontend
