/// Where the samples may be in values that were made for a number of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::passes {

/// The number of samples that a file was made for, and the symbol that it becomes.
struct Samples {
  int64_t baked = 1;
  std::string symbol;
  ir::Dim dim() const { return ir::Dim::symbol(symbol); }
};

/// The shape with outer * symbol * inner in place of the extent of the layout's axis.
ir::Shape with_samples(ir::Shape shape, const ir::BatchLayout& layout, const Samples& samples);
/// The type of a value with samples there; contents are no longer known.
ir::ValueType with_samples(ir::ValueType type, const ir::BatchLayout& layout, const Samples& samples);
/// Whether a type says of the baked number of samples what `before` said of the value.
bool is_same_when_baked(const ir::ValueType& now, const ir::ValueType& before, const Samples& samples);

/// Places that a value of that shape may have its samples in: each axis whose extent they divide, with all of what is
/// left inside, or outside, of them.
std::vector<ir::BatchLayout> possible_places(const ir::Shape& shape, const Samples& samples);
/// The same of a reshaped value, which holds its elements in the order of `from`: those places before which and after
/// which as many elements lie. One at most where there are several samples; an axis of their own comes first.
std::vector<ir::BatchLayout> places_after_reshape(const ir::Shape& from, const ir::BatchLayout& layout,
                                                  const ir::Shape& to, const Samples& samples);

}  // namespace rannc::passes
