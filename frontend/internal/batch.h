/// Which of the symbols in the types of inputs counts samples.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/import.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"

namespace rannc::frontend {

/// `text` with everything a symbol cannot hold replaced.
std::string symbol_name(std::string_view text);

/// The batch symbol of inputs of these types, as `ImportOptions::batch_symbol` says; empty: none of them has one, or
/// the model is read whole. Other names of it are replaced, and inputs that have it on an axis get their layout. An
/// error where a batch symbol is asked for that no input has.
Result<std::string> settle_batch(std::vector<ir::ValueType>& types, const ImportOptions& options,
                                 const std::string& file);

}  // namespace rannc::frontend
