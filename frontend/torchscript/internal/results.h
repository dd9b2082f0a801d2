/// Turns the results of a program into outputs of the graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/buffer_writes.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Requests for outputs by the user and the loss.
struct Wanted {
  const std::vector<std::string>& names;     ///< names in order
  const std::vector<std::string>& required;  ///< as in `ImportOptions`
  const std::optional<Diagnostic>& fault;    ///< reason why some calls could not be translated
  const std::vector<BufferWrite>& writes;    ///< to buffers, of which no output may depend on the stored value
};

/// Makes all tensors of `made` the outputs of `graph`, in order. Their names come from `names`, or else from the keys
/// of dictionaries in `made`, or else are `output`, with list indices appended. An untranslated output is omitted with
/// a note if only others are requested. Errors: results other than tensors, more names than outputs.
Result<void> add_outputs(ir::Graph& graph, ImportNotes& notes, const Item& made, const Wanted& wanted,
                         const std::string& file);

}  // namespace rannc::frontend::torchscript
