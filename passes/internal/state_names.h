/// Names of stored tensors, and name patterns.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/name_pattern.h"
#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Returns the module that a node belongs to. The model itself is "": its nodes are called `/Add_3`.
std::string module_of_reading(const ir::Reading& reading);
/// Returns the modules whose nodes read a stored tensor.
std::set<std::string> modules_reading(const ir::StoredNotes& file, std::string_view tensor);
/// The name of a value in quotes, for messages.
std::string quoted_name(const ir::Graph& graph, ValueId value);
/// Formats the first `most` names: `a, b, c and 4 more`.
std::string first_names(const std::vector<std::string>& names, size_t most);
/// Returns whether one of the names matches one of the comma-separated patterns.
bool fits_any(const std::set<std::string>& names, const std::string& patterns);

/// The names that a stored tensor has in its file and, where they differ, the names of the tensors of the program's
/// state that it contains. Reflects the graph at construction.
class StateNames {
 public:
  explicit StateNames(const ir::Graph& graph);
  /// Returns the names of one value, its own first.
  std::vector<std::string> of(ValueId value) const;
  /// Returns whether any of them matches one of the comma-separated patterns.
  bool match_any(const std::string& patterns, ValueId value) const;

 private:
  const ir::Graph& graph_;
  std::map<ValueId, std::vector<std::string>> tensors_;
};

}  // namespace rannc::passes
