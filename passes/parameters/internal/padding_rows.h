/// Finds rows of look-up tables that are probably padding.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

struct PaddingRow {
  std::string table;
  int64_t row = 0;
  bool operator==(const PaddingRow&) const = default;
};

/// Returns trained tables that are looked up along axis 0 without a `padding_index` and have exactly one row of zeros,
/// as `nn.Embedding(padding_idx=…)` starts with. Reads the bytes of looked-up tables.
std::vector<PaddingRow> padding_rows(const ir::Graph& graph);

}  // namespace rannc::passes
