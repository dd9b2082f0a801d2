/// What a program gives becomes the outputs of the graph.
#pragma once

#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Makes all tensors of `made` the outputs of `graph`, in order. They are called as `names` says, else as the
/// dictionaries among `made` do, else `output`, with their places in lists. Errors: something else than tensors, or
/// more names than outputs.
Result<void> add_outputs(ir::Graph& graph, ImportNotes& notes, const Item& made, const std::vector<std::string>& names,
                         const std::string& file);

}  // namespace rannc::frontend::torchscript
