/// Determines the origins of stored tensors of a program that lists its state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Origin of a stored tensor of a program that lists its state.
enum class Origin : uint8_t {
  kState,       ///< one of its parameters, or several concatenated, under any name and in any layout
  kNumbers,     ///< computed from numbers of its code, buffers, constants and detached values
  kParameters,  ///< computed from parameters
  kUnknown,     ///< no evidence
};

/// The file names its state, each reading records what it reads (`ir::Reading`), and the exporter records what it
/// computed a tensor from (`StoredNotes::folded`). Reflects the graph at construction. Linear.
class TensorOrigins {
 public:
  TensorOrigins(const ir::Graph& graph, const ir::StoredNotes& file);
  /// Returns whether the program lists any parameters.
  bool lists_parameters() const { return lists_parameters_; }
  Origin of(ValueId value) const;
  /// Returns the parameters that a tensor was computed from, as far as recorded.
  std::vector<std::string> sources(ValueId value) const;
  /// Returns the listed parameters that no stored tensor contains.
  const std::set<std::string>& lost() const { return lost_; }

 private:
  const std::vector<std::string>* record(ValueId value) const;
  bool is_parameter(const std::string& name) const;
  bool may_be(ValueId value, const std::vector<std::string>* record, const std::string& name) const;

  const ir::Graph& graph_;
  const ir::StoredNotes& file_;
  bool lists_parameters_ = false;
  std::vector<bool> of_parameters_;  ///< values that contain tensors of state, at least one of them a parameter
  std::set<std::string> lost_;
};

/// Returns whether a recorded name is that of an intermediate value of the program, not one made by an operator
/// translation.
bool is_traced(std::string_view value);

}  // namespace rannc::passes
