/// Numbers of the program that are quotients of sizes: `h / 4`, `h * 1.5`.
#pragma once

#include <optional>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// The number above / below, which the program computes in double precision.
struct Ratio {
  ir::Dim above, below = 1;
  /// Whether rounding what the program computes is proved to give the integer that rounding the quotient gives.
  bool exact = true;
  bool operator==(const Ratio&) const = default;
};

/// The fraction that a number of the program's code stands for, as 3/2 does for 1.5; nothing far from 1.
std::optional<Ratio> ratio_of(double number);

/// Nothing where no quotient of sizes is proved to be the result.
std::optional<Ratio> sum(const Ratio& a, const Ratio& b);
std::optional<Ratio> difference(const Ratio& a, const Ratio& b);
std::optional<Ratio> product(const Ratio& a, const Ratio& b);
std::optional<Ratio> quotient(const Ratio& a, const Ratio& b);
/// `size` times a number of the code.
std::optional<Ratio> scaled(const ir::Dim& size, double factor);
/// The integer whose square `x` is.
std::optional<ir::Dim> root(const ir::Dim& x);

/// Integers; nothing where floats might round otherwise, or where a sign is not known.
std::optional<ir::Dim> rounded_down(const Ratio& x);
std::optional<ir::Dim> rounded_up(const Ratio& x);
std::optional<ir::Dim> cut(const Ratio& x);
std::optional<ir::Dim> rounded(const Ratio& x);  ///< half to even

}  // namespace rannc::frontend::torchscript
