/// Splits an index into flattened axes into one index per axis.
#pragma once

#include <vector>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// A value before its first axes were flattened, with an index for each of these axes.
struct Places {
  ValueId x;
  std::vector<ValueId> each;
};

/// Exporters write `x[i, j]` as an index i * columns + j into x with its first axes flattened. This function splits
/// such an index if the first of these axes counts samples and the index is a sum of terms with the strides of the
/// axes. The index of the sample is then explicit, and the others cannot reach another sample: one outside its axis is
/// an error at run time. Returns nothing for any other index.
std::optional<Places> places_in_samples(Node& node, ValueId flat, ValueId index);

}  // namespace rannc::frontend
