/// By which names stored tensors are known.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Names that torch.onnx.export with dynamo=False makes up where it computed on a parameter.
bool is_made_up(std::string_view name);
/// The module that a node belongs to. The model itself is "": its nodes are called `/Add_3`.
std::string module_of_reading(const ir::Reading& reading);
/// The modules whose nodes read a stored tensor.
std::set<std::string> modules_reading(const ir::StoredNotes& file, std::string_view tensor);
/// Whether a name is one that an exporter gives to what a node makes, or to what it computed.
bool is_generated(std::string_view name);
/// `a, b, c and 4 more`: `most` of the names at most, from the first on.
std::string first_names(const std::vector<std::string>& names, size_t most);
/// `encoder.layer.0` of `encoder.layer.0.weight`; empty: the model itself.
std::string module_of(const std::string& path);
/// Whether a name is like a pattern, in which `*` and `?` stand for other letters, dots included.
bool fits_pattern(std::string_view name, const std::string& pattern);
/// Whether one of the names is like one of the patterns, which commas part.
bool fits_any(const std::set<std::string>& names, const std::string& patterns);

/// The names that a stored tensor has in its file and, where they differ, those of the tensors of the program's state
/// that lie in it. Of the graph as it is at construction.
class StateNames {
 public:
  explicit StateNames(const ir::Graph& graph);
  /// Of one value: its own first.
  std::vector<std::string> of(ValueId value) const;
  /// Whether any of them is like `pattern`, in which `*` and `?` stand for other letters, dots included.
  bool match(const std::string& pattern, ValueId value) const;
  /// The same of any of several patterns, separated by commas.
  bool match_any(const std::string& patterns, ValueId value) const;

 private:
  const ir::Graph& graph_;
  std::map<ValueId, std::vector<std::string>> tensors_;
};

}  // namespace rannc::passes
