/// Possible batch axes of values with a static batch size.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::passes {

/// The static batch size of a file, and the symbol that replaces it.
struct Samples {
  int64_t baked = 1;
  std::string symbol;
  ir::Dim dim() const { return ir::Dim::symbol(symbol); }
};

/// Returns the shape with outer * symbol * inner as the extent of the layout's axis.
ir::Shape with_samples(ir::Shape shape, const ir::BatchLayout& layout, const Samples& samples);
/// Returns the type of a value with this batch layout; contents become unknown.
ir::ValueType with_samples(ir::ValueType type, const ir::BatchLayout& layout, const Samples& samples);
/// Returns whether a type at the static batch size equals `before`.
bool is_same_when_baked(const ir::ValueType& now, const ir::ValueType& before, const Samples& samples);

/// Returns the possible batch layouts of a value of that shape: each axis whose extent is divisible by the batch size,
/// with the whole quotient inside or outside of the samples.
std::vector<ir::BatchLayout> possible_places(const ir::Shape& shape, const Samples& samples);
/// Returns the same for a reshaped value that has its elements in the order of `from`: the layouts with equally many
/// elements before and after the samples. At most one if there are several samples; otherwise an axis of their own
/// comes first.
std::vector<ir::BatchLayout> places_after_reshape(const ir::Shape& from, const ir::BatchLayout& layout,
                                                  const ir::Shape& to, const Samples& samples);

}  // namespace rannc::passes
