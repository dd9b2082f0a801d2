#include "frontend/torchscript/internal/foreign/size_fit.h"

#include <algorithm>

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;

// Every remainder is observed, and slopes that differ by 1/(8*7) give values that differ by 2 at the far points.
constexpr int64_t kMostDivisor = 8, kFurther = 9;

bool has_values(const Dim& dim, const std::vector<ir::Bindings>& points, std::span<const int64_t> seen) {
  for (size_t i = 0; i < points.size(); ++i) {
    if (dim.evaluate(points[i]) != seen[i]) return false;
  }
  return true;
}

/// `dim / divisor`, reduced.
Dim quotient(const Dim& dim, int64_t divisor) {
  for (int64_t common = divisor; common > 1; --common) {
    if (divisor % common != 0) continue;
    if (const auto reduced = ir::exact_div(dim, Dim(common))) {
      return common == divisor ? *reduced : floor_div(*reduced, Dim(divisor / common));
    }
  }
  return divisor == 1 ? dim : floor_div(dim, Dim(divisor));
}

/// Newton interpolation over the corners.
Dim multilinear(const SizeGrid& grid, std::span<const int64_t> seen) {
  std::vector<int64_t> difference(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(grid.corners()));
  for (size_t i = 0; i < grid.symbols.size(); ++i) {
    for (size_t corner = 0; corner < grid.corners(); ++corner) {
      if ((corner >> i & 1) != 0) difference[corner] -= difference[corner ^ (size_t{1} << i)];
    }
  }
  Dim sum = 0;
  int64_t divisor = 1;
  for (size_t i = 0; i < grid.symbols.size(); ++i) divisor *= grid.step;
  for (size_t corner = 0; corner < grid.corners(); ++corner) {
    Dim product = difference[corner];
    for (size_t i = 0; i < grid.symbols.size(); ++i) {
      product = product * ((corner >> i & 1) != 0 ? Dim::symbol(grid.symbols[i]) - Dim(grid.base(i)) : Dim(grid.step));
    }
    sum = sum + product;
  }
  return quotient(sum, divisor);
}

/// Fits floor((a*s + b) / c) for one symbol s.
std::optional<Dim> divided(const SizeGrid& grid, const std::vector<ir::Bindings>& points,
                           std::span<const int64_t> seen) {
  for (size_t i = 0; i < grid.symbols.size(); ++i) {
    const int64_t change = seen[size_t{1} << i] - seen[0];
    const Dim symbol = Dim::symbol(grid.symbols[i]);
    for (int64_t c = 2; c <= kMostDivisor; ++c) {
      // The slope is a/c, with an error of at most 1 per step.
      const int64_t about = change * c / grid.step;
      for (int64_t a = std::max<int64_t>(1, about - c); a <= about + c; ++a) {
        const int64_t b = seen[0] * c - a * grid.base(i);
        for (int64_t more = 0; more < c; ++more) {
          const Dim found = floor_div(Dim(a) * symbol + Dim(b + more), Dim(c));
          if (has_values(found, points, seen)) return found;
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<ir::Bindings> SizeGrid::points() const {
  std::vector<ir::Bindings> found;
  const auto add = [&](const auto& steps_of) {
    ir::Bindings point;
    for (size_t i = 0; i < symbols.size(); ++i) point[symbols[i]] = base(i) + step * steps_of(i);
    found.push_back(std::move(point));
  };
  for (size_t corner = 0; corner < corners(); ++corner)
    add([&](size_t i) { return static_cast<int64_t>(corner >> i & 1); });
  for (size_t i = 0; i < symbols.size(); ++i) {
    for (int64_t steps = 2; steps <= kFurther; ++steps) add([&](size_t j) { return i == j ? steps : 0; });
    add([&](size_t j) { return i == j ? far : 0; });
  }
  if (!symbols.empty()) {
    for (const int64_t stretch : {2, 3}) add([&](size_t i) { return stretch + static_cast<int64_t>(i) % 3; });
  }
  return found;
}

std::optional<Dim> fitted(const SizeGrid& grid, std::span<const int64_t> seen, std::span<const Dim> likely) {
  const std::vector<ir::Bindings> points = grid.points();
  if (std::all_of(seen.begin(), seen.end(), [&](int64_t each) { return each == seen[0]; })) return Dim(seen[0]);
  for (const Dim& dim : likely) {
    if (has_values(dim, points, seen)) return dim;
  }
  const Dim linear = multilinear(grid, seen);
  if (has_values(linear, points, seen)) return linear;
  return divided(grid, points, seen);
}

}  // namespace rannc::frontend::torchscript
