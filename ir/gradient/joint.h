/// Joint graph: the forward and the backward pass of a planning graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Phase of a task in a joint graph.
enum class Phase : uint8_t {
  kForward,
  kInput,   ///< `I`: needed by gradients of activations, or computed by the kernel of one
  kWeight,  ///< `W`: needed only by gradients of parameters
};
/// The letter of a phase: `F`, `I`, `W`.
std::string_view str(Phase phase);

/// Result of differentiating a graph: a model with losses, or a pipeline stage between its neighbors. The graph itself
/// stays forward-only.
///
/// The first tasks are copies of the graph's tasks in order, some with additional auxiliary results. Copied values keep
/// their names. Gradient tasks follow. A seed is an input: of a model, the gradient of the loss with respect to a
/// term's numerator, weight * factor / divisor; of a stage, the gradient of an output that other stages or a loss
/// return. A parameter's gradient has one part per task that reads the parameter. Parts are sums over the samples of a
/// micro-batch unless `core.total` has completed them.
struct Joint {
  struct ParameterGradient {
    ValueId parameter;
    TaskId reader;  ///< a forward task
    ValueId gradient;
    bool operator==(const ParameterGradient&) const = default;
  };
  struct Origin {
    TaskId task;  ///< task of the planning graph that is copied or differentiated
    Phase phase = Phase::kForward;
    bool operator==(const Origin&) const = default;
  };

  /// A value at the border of a stage and its gradient.
  struct BorderGradient {
    ValueId value;
    ValueId gradient;
    bool operator==(const BorderGradient&) const = default;
  };

  Graph graph;
  std::vector<Origin> origins;               ///< by task
  std::vector<ValueId> seeds;                ///< by loss term; invalid: it depends on no parameter
  std::vector<BorderGradient> outputs;       ///< of a stage: outputs and their seeds, ascending by value
  std::vector<BorderGradient> inputs;        ///< of a stage: inputs and the gradients to send back, ascending by value
  std::vector<ParameterGradient> gradients;  ///< by parameter, then by reader

  uint32_t forward_count() const;
  /// The copy of each value of the planning graph.
  std::vector<ValueId> copies_of(const Graph& planning) const;
};

/// Prints the first line `rannc.joint 1`, the statements of the graph, then `gradient of`, `seed` and `part` lines.
std::string print(const Joint& joint);
/// Parses a joint graph and verifies everything that does not need the planning graph.
Result<Joint> parse_joint(std::string_view text, const std::string& file);
bool equal(const Joint& a, const Joint& b);

/// All faults of a joint graph of `planning`, each with a rule label J1…, including the G rules of its graph. Empty if
/// it is valid. verify_joint.cc lists the rules.
std::vector<Diagnostic> verify(const Joint& joint, const Graph& planning);

}  // namespace rannc::ir
