#include "ir/dim/affine.h"

#include <fmt/format.h>

namespace rannc::ir {

namespace {

/// Returns `dim` with all bound symbols replaced.
Dim bound(const Dim& dim, const Bindings& bindings) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  Dim result = dim;
  for (const std::string& symbol : symbols) {
    const auto size = bindings.find(symbol);
    if (size != bindings.end()) result = result.substitute(symbol, size->second);
  }
  return result;
}

}  // namespace

std::optional<Affine> affine(const Dim& dim) {
  if (dim.is_symbol()) return Affine{dim.symbol_name(), 1, 0};
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  if (symbols.size() != 1) return std::nullopt;
  const std::string& symbol = *symbols.begin();
  const auto at_zero = dim.evaluate({{symbol, 0}}), at_one = dim.evaluate({{symbol, 1}});
  int64_t scale = 0;
  if (!at_zero || !at_one || __builtin_sub_overflow(*at_one, *at_zero, &scale) || scale < 1) return std::nullopt;
  if (!(dim == Dim(scale) * Dim::symbol(symbol) + Dim(*at_zero))) return std::nullopt;
  return Affine{symbol, scale, *at_zero};
}

BoundExtent bind_extent(const Dim& dim, int64_t extent, Bindings& bindings) {
  const auto known = affine(bound(dim, bindings));
  if (!known) return {};
  int64_t scaled = 0;
  if (__builtin_sub_overflow(extent, known->offset, &scaled)) return {false, {}};
  if (scaled < known->scale || scaled % known->scale != 0) return {false, {}};
  bindings.emplace(known->symbol, scaled / known->scale);
  return {true, known->symbol};
}

std::string impossible_extent(size_t axis, const Dim& dim, int64_t extent) {
  if (dim.is_symbol()) return "sizes are at least 1";
  return fmt::format("axis {} has {}, but {} is {} for no size of at least 1", axis, extent, dim.str(), extent);
}

}  // namespace rannc::ir
