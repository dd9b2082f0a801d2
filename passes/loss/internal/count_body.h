/// The body of a count.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Returns a graph that computes what each sample adds to `sum`, a task's sum over the samples of a value that inputs
/// determine: i64 or f64, with the samples on axis 0, then the axes of `sum`. Without a batch symbol it computes `sum`,
/// which any task may make. Stored values become constants in memory, because the text of a plan holds them. An error
/// names a value that combines samples.
Result<ir::Graph> count_body(const ir::Graph& graph, ValueId sum);

}  // namespace rannc::passes
