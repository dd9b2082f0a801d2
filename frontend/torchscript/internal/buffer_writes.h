/// Buffers of a model that its program writes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "ir/graph/graph.h"

namespace rannc::frontend::torchscript {

/// What to do about state that one call leaves for the next.
inline constexpr char kAdvice[] =
    "make it an input without a batch axis and update it between steps, or keep it constant, as eval() does";

/// Whether a file lists a stored tensor as one that is not trained. Tensors of an unknown role may be trained.
bool is_untrained(const ir::StoredNotes& notes, const std::string& name);

/// A write to a buffer. Training does not repeat it: each step starts from the stored value.
struct BufferWrite {
  std::string buffer;  ///< name of its value in the graph
  Location where;
  std::string what;          ///< "aten::add_ writes into"
  bool is_constant = false;  ///< the import may have read the stored numbers, as for sizes, branches and factors
};

/// Makes the write, with what the graph knows of the buffer.
BufferWrite buffer_write(const ir::Graph& graph, std::string buffer, Location where, std::string what);
/// Written buffers whose numbers the import may have read. The program is imported again, knowing them (`add_stored`).
std::set<std::string> written_constants(const std::vector<BufferWrite>& writes);

/// Values of a graph that differ from those of the program from the second step on, because they depend on the stored
/// value of a written buffer.
class StaleValues {
 public:
  StaleValues(const ir::Graph& graph, const std::vector<BufferWrite>& writes);
  /// The error for an output. Nothing if its numbers are those of the program in each step.
  std::optional<Diagnostic> fault(ValueId value, const std::string& output) const;

 private:
  std::vector<Diagnostic> causes_;
  std::vector<uint32_t> cause_;  ///< of each value, from 1; 0: none
};

/// Notes written buffers of floats as warnings, and counters as a remark. For a program of which no output is stale.
void note_unread(const ir::Graph& graph, const std::vector<BufferWrite>& writes, ImportNotes& notes);

}  // namespace rannc::frontend::torchscript
