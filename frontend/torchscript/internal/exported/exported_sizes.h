/// Sizes as `torch.export` writes them: expressions as SymPy spells them.
#pragma once

#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// Reads `Mul(Integer(2), Symbol('s13', positive=True, integer=True))`: symbols, integers, sums, products, floor
/// divisions, remainders, minima and maxima of them. An error for everything else, and for what is nested too deep.
Result<ir::Dim> parse_size(std::string_view text);

}  // namespace rannc::frontend::torchscript
