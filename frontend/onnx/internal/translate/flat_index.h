/// Takes apart an index that a program computed for axes laid flat.
#pragma once

#include <vector>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// A value whose first axes were laid flat, and what finds an element in each of these axes.
struct Places {
  ValueId x;
  std::vector<ValueId> each;
};

/// Exporters write `x[i, j]` as an index i * columns + j into x with its first axes laid flat. Where the first of these
/// axes counts samples and the index is a sum in which each axis has its stride, that is taken apart: what picks the
/// sample is then seen, what picks within the sample cannot leave it. A negative number counts from the end of its
/// axis, as where the program was written. Nothing where it is anything else.
std::optional<Places> places_in_samples(Node& node, ValueId flat, ValueId index);

}  // namespace rannc::frontend
