/// Parses size expressions of `torch.export`, which are in SymPy's notation.
#pragma once

#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// Parses `Mul(Integer(2), Symbol('s13', positive=True, integer=True))`: symbols, integers, sums, products, floor
/// divisions, remainders, minima and maxima. Returns an error for anything else and for too deep nesting.
Result<ir::Dim> parse_size(std::string_view text);

}  // namespace rannc::frontend::torchscript
