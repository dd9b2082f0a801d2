/// Forward and backward pass of a planning graph as one graph of tasks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// When a task of a joint graph is needed.
enum class Phase : uint8_t {
  kForward,
  kInput,   ///< `I`: gradients of activations need it, and perhaps those of parameters
  kWeight,  ///< `W`: gradients of parameters alone need it
};
/// `F`, `I`, `W`.
std::string_view str(Phase phase);

/// What differentiating a planning graph with losses makes of it. The planning graph stays what it is: forward only.
///
/// The first tasks are copies of its tasks, in its order, some with auxiliary results more; its values have copies of
/// their names. Gradient tasks follow. A seed is an input: the gradient of the loss with respect to a term's numerator,
/// which is weight / denominator. A parameter's gradient comes in as many parts as tasks read the parameter; parts are
/// sums over the samples of a micro-batch unless `core.total` has made them whole.
struct Joint {
  struct ParameterGradient {
    ValueId parameter;
    TaskId reader;  ///< a forward task
    ValueId gradient;
    bool operator==(const ParameterGradient&) const = default;
  };
  struct Origin {
    TaskId task;  ///< of the planning graph: what a task copies, or whose gradient it is of
    Phase phase = Phase::kForward;
    bool operator==(const Origin&) const = default;
  };

  Graph graph;
  std::vector<Origin> origins;               ///< by task
  std::vector<ValueId> seeds;                ///< by loss term; invalid: no parameter lies under it
  std::vector<ParameterGradient> gradients;  ///< by parameter, then by reader

  uint32_t forward_count() const;
  /// Per value of the planning graph its copy.
  std::vector<ValueId> copies_of(const Graph& planning) const;
};

/// First line `rannc.joint 1`, the statements of the graph, then `gradient of`, `seed` and `part` lines.
std::string print(const Joint& joint);
/// Parses and verifies what can be said without the planning graph.
Result<Joint> parse_joint(std::string_view text, const std::string& file);
bool equal(const Joint& a, const Joint& b);

/// Everything wrong with a joint graph of `planning`, each with a rule label J1…; empty: it holds. Rules G of its graph
/// are included. The rules head verify_joint.cc.
std::vector<Diagnostic> verify(const Joint& joint, const Graph& planning);

}  // namespace rannc::ir
