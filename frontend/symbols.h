/// Merges size symbols that a user declares equal.
#pragma once

#include <map>
#include <string>

namespace rannc::frontend {

/// Adds to `ImportOptions::same_symbol` that `a` is read as `b`, together with all symbols that already equal either:
/// after a=b and a=c all three are read as b.
void unite_symbols(std::map<std::string, std::string>& same, const std::string& a, const std::string& b);

}  // namespace rannc::frontend
