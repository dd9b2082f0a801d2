/// Size symbols: which are equal, which would count samples.
#pragma once

#include <map>
#include <string>

#include "frontend/import.h"

namespace rannc::frontend {

/// Adds to `ImportOptions::same_symbol` that `a` is read as `b`, together with all symbols that already equal either:
/// after a=b and a=c all three are read as b.
void unite_symbols(std::map<std::string, std::string>& same, const std::string& a, const std::string& b);

/// Returns the symbol that would count the samples of a graph that was read as a whole batch, by the rule of
/// `ImportOptions::batch_symbol`. Empty if there is none.
std::string symbol_of_whole(const ir::Graph& graph, const ImportOptions& options);

}  // namespace rannc::frontend
