/// How large the values of a graph are.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::partition {

/// Bytes that grow with the samples: `per_sample * samples + fixed`.
struct ByteLine {
  double per_sample = 0, fixed = 0;
  double at(double samples) const { return per_sample * samples + fixed; }
};

/// The line through the sizes at one and two samples; 0 for a value without a shape. `assume` binds symbols other than
/// the batch; a diagnostic names the value whose symbols have no number.
Result<ByteLine> byte_line(const ir::Graph& graph, ValueId value, const ir::Bindings& assume);
/// The same of a number of bytes; nothing where a symbol has no number.
std::optional<ByteLine> byte_line(const ir::Dim& bytes, const std::string& batch, const ir::Bindings& assume);

/// How many times as large as a parameter the sum of its gradients is.
double sum_ratio(ir::DType parameter);

}  // namespace rannc::partition
