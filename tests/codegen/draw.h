/// A source of random calls of integer operators.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/graph/attributes.h"

namespace rannc::test {

using Numbers = std::vector<int64_t>;

/// The extreme numbers of an integer type or bool.
int64_t lowest(ir::DType dtype);
int64_t highest(ir::DType dtype);

struct DrawnOperand {
  ir::DType dtype = ir::DType::kI64;
  Numbers shape, data;
};

struct DrawnCall {
  std::string op;  ///< short name
  std::vector<DrawnOperand> operands;
  ir::Attributes attributes = {};
  /// Calls of one result each that give the results of this one; empty: this one has one result.
  std::vector<DrawnCall> parts = {};

  /// For messages.
  std::string str() const;
};

/// Draws calls. Rank is at most 1 where the contents of operands are to be known.
class RandomInput {
 public:
  RandomInput(uint64_t seed, size_t most_rank) : random_(seed), most_rank_(most_rank) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  ir::DType integer_type();
  ir::DType any_type() { return below(6) == 0 ? ir::DType::kBool : integer_type(); }

  /// Of rank `least` to 3 (or 1): extents 0 to 4, seldom 0.
  Numbers shape(size_t least = 0);
  /// Frequency an extreme of the type.
  int64_t number(ir::DType dtype);
  DrawnOperand of(ir::DType dtype, Numbers shape);
  /// A shape that broadcasts with `shape`.
  Numbers broadcastable(Numbers shape);
  /// `axis` of a value of that rank, in either spelling.
  ir::Dim axis(size_t rank);

 private:
  std::mt19937_64 random_;
  size_t most_rank_;
};

ir::Shape list(const Numbers& numbers);

}  // namespace rannc::test
