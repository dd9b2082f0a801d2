/// Symbols of sizes that a user says are equal.
#pragma once

#include <map>
#include <string>

namespace rannc::frontend {

/// Adds to `ImportOptions::same_symbol` that `a` is read as `b`, and so is what either is equal to already: of a=b and
/// a=c all three are read as b.
void unite_symbols(std::map<std::string, std::string>& same, const std::string& a, const std::string& b);

}  // namespace rannc::frontend
