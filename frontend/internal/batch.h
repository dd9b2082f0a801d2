/// Determines which symbol in the types of inputs counts samples.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/import.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"

namespace rannc::frontend {

/// Returns `text` with all characters replaced that are invalid in a symbol.
std::string symbol_name(std::string_view text);

/// Returns the batch symbol by the rule of `ImportOptions::batch_symbol`, or an empty string if no input has one or the
/// model is read as a whole batch. Replaces other names of the symbol in `types` and sets the layout of inputs that
/// have it on an axis. Returns an error if no input has the requested batch symbol.
Result<std::string> settle_batch(std::vector<ir::ValueType>& types, const ImportOptions& options,
                                 const std::string& file);

}  // namespace rannc::frontend
