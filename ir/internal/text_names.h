/// Text IR spellings of enumerators.
#pragma once

#include <array>
#include <string_view>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Kinds in the order of `ValueKind`.
inline constexpr std::array kValueKinds = {ValueKind::kInput,    ValueKind::kParameter,   ValueKind::kBuffer,
                                           ValueKind::kConstant, ValueKind::kRandomInput, ValueKind::kActivation};

/// In the order of `RandomInput::Of`.
inline constexpr std::array<std::string_view, 3> kDistributions = {"uniform", "normal", "bernoulli"};

}  // namespace rannc::ir
