/// Computes with numbers that are quotients of sizes: `h / 4`, `h * 1.5`.
#pragma once

#include <optional>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// The number above / below, computed by the program in double precision.
struct Ratio {
  ir::Dim above, below = 1;
  /// Whether rounding the program's double provably gives the same integer as rounding the exact quotient.
  bool exact = true;
  bool operator==(const Ratio&) const = default;
};

/// Returns the fraction that a number in the program's code represents: 3/2 for 1.5. Returns nothing for a nonzero
/// number whose absolute value is outside [2^-20, 2^20].
std::optional<Ratio> ratio_of(double number);

/// Each returns nothing if no quotient of sizes is provably the result.
std::optional<Ratio> sum(const Ratio& a, const Ratio& b);
std::optional<Ratio> difference(const Ratio& a, const Ratio& b);
std::optional<Ratio> product(const Ratio& a, const Ratio& b);
std::optional<Ratio> quotient(const Ratio& a, const Ratio& b);
/// `size` times a number in the code.
std::optional<Ratio> scaled(const ir::Dim& size, double factor);
/// The integer whose square `x` is.
std::optional<ir::Dim> root(const ir::Dim& x);

/// Each returns an integer, or nothing if floats might round differently or a sign is unknown. `cut` truncates.
std::optional<ir::Dim> rounded_down(const Ratio& x);
std::optional<ir::Dim> rounded_up(const Ratio& x);
std::optional<ir::Dim> cut(const Ratio& x);
std::optional<ir::Dim> rounded(const Ratio& x);  ///< half to even

}  // namespace rannc::frontend::torchscript
