/// Finds the parts of a model that a pattern names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/training_notes.h"

namespace rannc::passes {

/// Matches nodes, modules and values of a graph against patterns in which `*` and `?` are wildcards. The graph must
/// outlive this object and must not change. A node is one node of the model file; it may correspond to several tasks.
class NamedParts {
 public:
  NamedParts(const ir::Graph& graph, const ir::TrainingNotes& file);

  /// Returns whether a pattern names a task: its node, a value that it makes, or a module that contains it.
  bool names(const std::string& pattern, TaskId task) const;
  /// Returns the results of the parts that a pattern names: float values of at least one axis that depend on an input,
  /// are made in the part, and are read outside of it or are outputs of the graph. A part is the outermost module that
  /// the pattern names, else the nodes that it names in one module, else a value. Ascending.
  std::vector<ValueId> results(const std::string& pattern) const;
  /// Returns names similar to a pattern, most similar first, for a message: `'a', 'b' and 'c'`.
  std::string near(const std::string& pattern) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Module {
    std::string path;
    uint32_t around = kNone;
  };
  uint32_t number_of_module(std::string_view path, const std::set<std::string>& called);
  std::vector<uint32_t> parts(const std::string& pattern) const;
  bool leaves(ValueId value, const std::vector<uint32_t>& parts) const;

  const ir::Graph& graph_;
  std::vector<Module> modules_;
  std::map<std::string, uint32_t, std::less<>> module_numbers_;
  std::vector<std::string> nodes_;                  ///< names
  std::vector<uint32_t> node_of_, module_of_task_;  ///< per task
  std::vector<bool> varies_, given_;                ///< per value: depends on an input; is an output of the graph
};

}  // namespace rannc::passes
