/// Decides what stored tensors are.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/parameters/internal/parameter_roles.h"

namespace rannc::passes {

/// Provenance of a stored tensor, as far as its file shows it.
enum class Origin : uint8_t {
  kState,    ///< a tensor of the program's state, or several concatenated, under any name and in any layout
  kDerived,  ///< computed by the exporter from parameters
  kNumber,   ///< computed from numbers of the code, buffers, constants and detached values
  kUnknown,  ///< no evidence
};

struct Verdict {
  Origin origin = Origin::kUnknown;
  ir::ValueKind kind = ir::ValueKind::kConstant;
  bool by_use = false;  ///< the file leaves the kind open: only uses decided it
};

/// The file names its state, each reading records what it reads (`ir::Reading`), and the exporter records what it
/// computed a tensor from (`StoredNotes::folded`) or shows by the name that it computed it. Numbers of tensors are no
/// evidence. Reflects the graph at construction. Linear.
class Verdicts {
 public:
  Verdicts(const ir::Graph& graph, const ir::StoredNotes& file);

  Origin origin(ValueId value) const;
  /// Returns the parameters that a tensor was computed from, as far as recorded.
  std::vector<std::string> sources(ValueId value) const;
  /// Returns for each value whether it is a stored tensor that was computed from recorded parameters.
  std::vector<bool> recorded() const;
  /// Returns the listed parameters that no stored tensor contains.
  const std::set<std::string>& lost() const { return lost_; }

  /// Verdict on a stored float tensor whose kind neither the user nor the graph specifies.
  Verdict judge(ValueId value, const Roles& roles) const;
  /// Names of the tensors that are trained although they are derived: what they were computed from is not in the file.
  std::set<std::string> stand_ins() const;

 private:
  const std::vector<std::string>* record(ValueId value) const;
  bool is_parameter(const std::string& name) const;
  bool may_be(ValueId value, const std::vector<std::string>* record, const std::string& name) const;
  Origin listed_origin(ValueId value) const;
  Origin traced_origin(ValueId value) const;
  bool is_known(const std::string& name) const;
  bool is_beside_folded(ValueId value) const;
  Verdict judge_by_file(ValueId value, const Roles& roles) const;
  ir::ValueKind kind_by_use(ValueId value, const Roles& roles) const;

  const ir::Graph& graph_;
  const ir::StoredNotes& file_;
  bool lists_parameters_ = false;
  std::vector<bool> of_parameters_;  ///< values that contain tensors of state, at least one of them a parameter
  std::set<std::string> lost_;
  std::set<std::string> with_weights_;  ///< modules that read tensors of several axes under the program's names
};

/// Whether a value is a stored float tensor that is no number of the code.
bool is_stored_tensor(const ir::Graph& graph, ValueId value, const ir::StoredNotes& file);
/// Number of extents other than 1.
size_t wide_axes(const ir::Graph& graph, ValueId value);
/// Whether a recorded name is that of an intermediate value of the program, not one made by an operator translation.
bool is_traced(std::string_view value);

}  // namespace rannc::passes
