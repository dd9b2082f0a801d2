/// What a program gives becomes the outputs of the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// What users and the loss say of outputs.
struct Wanted {
  const std::vector<std::string>& names;   ///< in order
  const std::vector<std::string>& asked;   ///< as in `ImportOptions`
  const std::optional<Diagnostic>& fault;  ///< why some calls could not be translated
};

/// Makes all tensors of `made` the outputs of `graph`, in order. They are called as `names` says, else as the
/// dictionaries among `made` do, else `output`, with their places in lists. One that is no tensor, as nobody could
/// translate it, is left out with a note where others are asked for. Errors: something else than tensors, or more names
/// than outputs.
Result<void> add_outputs(ir::Graph& graph, ImportNotes& notes, const Item& made, const Wanted& wanted,
                         const std::string& file);

}  // namespace rannc::frontend::torchscript
