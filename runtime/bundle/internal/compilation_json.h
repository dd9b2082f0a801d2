/// The entry `compiled` of a bundle's manifest.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/base/diagnostic.h"
#include "runtime/bundle/compilation.h"

namespace rannc::runtime {

/// Name of the entry. Bundles of form `native` have it.
inline constexpr const char* kCompiledEntry = "compiled";

nlohmann::ordered_json compilation_json(const Compilation& compiled);

/// Reads the entry of a manifest. Errors name the field; the caller adds the file.
Result<Compilation> parse_compilation(const nlohmann::json& manifest);

}  // namespace rannc::runtime
