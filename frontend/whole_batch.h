/// How a model that mixes its samples is read: no symbol counts them, and no input has an axis of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "frontend/import.h"

namespace rannc::frontend {

/// Makes frontends leave a graph without a batch symbol. The symbol that would be it, and other names of it, become the
/// number `samples`. Absent: each stays a symbol, as of any size that data bind, and no two are taken for one.
void read_whole(ImportOptions& options, std::optional<uint32_t> samples);

/// The symbol that would count the samples of a graph that was read whole, by the rule of `ImportOptions`; empty: none.
std::string symbol_of_whole(const ir::Graph& graph, const ImportOptions& options);

}  // namespace rannc::frontend
