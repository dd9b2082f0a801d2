/// Calls of every core operator, for suites that check a rule on all of them.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace rannc::ir::testing {

/// One operand: a type, and the half-open range its integers are drawn from. Integers with contents take these.
struct Operand {
  ValueType type;
  bool absent = false;
  int64_t low = 0, high = 1;
};

/// One call. Floats are f64; a suite may narrow them.
struct OpCase {
  std::string op;  ///< short name
  std::vector<Operand> operands;
  Attributes attributes = {};
  uint32_t outputs = 1;
  /// Whether computing one sample alone gives that sample's part of the whole: not for sums over samples, and not for
  /// indices that are sample numbers.
  bool samples_apart = true;
};

/// `f("batch,12,64")`: a float operand; its samples are on the axis whose extent is a multiple of `batch`.
Operand f(std::string_view shape);
Operand i(std::string_view shape, int64_t low, int64_t high);
Operand b(std::string_view shape);
Operand none();
/// A rank-1 i64 operand of known contents: `list("batch,12")`.
Operand list(std::string_view contents);
/// A rank-0 i64 operand of known contents.
Operand scalar(std::string_view content);
Shape dims(std::string_view text);

/// At least one call of each core operator but the random ones, which have no statement of their own.
const std::vector<OpCase>& op_cases();
/// The shape, and the call, for a fixed number of samples: no symbol, no batch layout.
Shape concrete(Shape shape, int64_t batch);
OpCase with_batch(OpCase c, int64_t batch);
/// The case for messages: `gather(f64[9,4] i64[batch,3])`.
std::string describe(const OpCase& c);

}  // namespace rannc::ir::testing
