/// Extents that determine a symbol.
#pragma once

#include <optional>
#include <string>

#include "ir/dim/dim.h"

namespace rannc::ir {

/// The expression `scale*symbol + offset` with a positive scale.
struct Affine {
  std::string symbol;
  int64_t scale = 1, offset = 0;
};

/// Returns `dim` as such an expression, or nothing if it has another form.
std::optional<Affine> affine(const Dim& dim);

struct BoundExtent {
  bool possible = true;  ///< false: no size of at least 1 gives the extent
  std::string symbol;    ///< that was bound; empty: none
};

/// Binds the symbol that follows from `dim` having `extent`: the only unbound one, in which `dim` is affine. Binds
/// nothing if `dim` has another form.
BoundExtent bind_extent(const Dim& dim, int64_t extent, Bindings& bindings);

/// Explains an impossible extent: `axis 2 has 225, but 32*k is 225 for no size of at least 1`.
std::string impossible_extent(size_t axis, const Dim& dim, int64_t extent);

}  // namespace rannc::ir
