/// Which symbol would count the samples of a graph that was read as a whole batch.
#pragma once

#include <string>

#include "frontend/import.h"

namespace rannc::frontend {

/// The symbol that would count the samples of a graph that was read whole, by the rule of `ImportOptions`; empty: none.
std::string symbol_of_whole(const ir::Graph& graph, const ImportOptions& options);

}  // namespace rannc::frontend
