/// Says where stored tensors of a program that lists its state come from.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// What a stored tensor is to a program that lists its state.
enum class Origin : uint8_t {
  kState,       ///< one of its parameters, or several joined, under whatever name and in whatever layout
  kNumbers,     ///< computed from numbers of its code, from buffers, constants and what is detached
  kParameters,  ///< computed from parameters
  kUnknown,     ///< nothing says it
};

using MadeOf = std::map<std::string, std::vector<std::string>>;

/// The file says by name what is state, each reading says what it reads (`ir::Reading`), and the exporter records what
/// it computed a tensor from (`StoredFacts::made_of`). Of the graph as it is at construction. Linear.
class TensorOrigins {
 public:
  TensorOrigins(const ir::Graph& graph, const ir::StoredNotes& file, const MadeOf& made_of);
  /// Whether the program lists parameters at all.
  bool lists_parameters() const { return lists_parameters_; }
  Origin of(ValueId value) const;
  /// The parameters that a tensor was computed from, as far as that was recorded.
  std::vector<std::string> sources(ValueId value) const;
  /// Listed parameters that no stored tensor holds.
  const std::set<std::string>& lost() const { return lost_; }

 private:
  const std::vector<std::string>* record(ValueId value) const;
  bool is_parameter(const std::string& name) const;
  bool may_be(ValueId value, const std::vector<std::string>* record, const std::string& name) const;

  const ir::Graph& graph_;
  const ir::StoredNotes& file_;
  const MadeOf& made_of_;
  bool lists_parameters_ = false;
  std::vector<bool> of_parameters_;  ///< values that tensors of state lie in, of which one is a parameter
  std::set<std::string> lost_;
};

/// `clamp_min` of `clamp_min_1`: the operator that a traced value is the result of, by its name.
std::string_view traced_op(std::string_view value);
/// Whether a recorded name is of an intermediate value, and not of one that translators of operators make.
bool is_traced(std::string_view value);

}  // namespace rannc::passes
