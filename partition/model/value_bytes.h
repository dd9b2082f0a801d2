/// Computes the sizes of a graph's values.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::partition {

/// A number of bytes that is linear in the samples: `per_sample * samples + fixed`.
struct ByteLine {
  double per_sample = 0, fixed = 0;
  double at(double samples) const { return per_sample * samples + fixed; }
};

/// Returns the line through the sizes at one and two samples, or 0 for a value without a shape. `assume` binds symbols
/// other than the batch. Fails if a symbol of the shape has no number; the diagnostic names the value.
Result<ByteLine> byte_line(const ir::Graph& graph, ValueId value, const ir::Bindings& assume);
/// The same for a symbolic number of bytes; empty if a symbol has no number.
std::optional<ByteLine> byte_line(const ir::Dim& bytes, const std::string& batch, const ir::Bindings& assume);

/// Ratio of the size of a parameter's gradient sum to the size of the parameter.
double sum_ratio(ir::DType parameter);

}  // namespace rannc::partition
