/// What one stage's program takes and returns, derived from the plan alone.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace rannc::runtime {

/// A value that enters or leaves a stage.
struct Port {
  ValueId value;
  std::string name;            ///< the value's name in the graph
  ir::ValueType type;          ///< symbolic; float, integer or boolean
  bool from_graph = false;     ///< inputs: fed from the mini-batch, not received
  bool gradient = false;       ///< inputs: one is sent back; outputs: one comes back along a route, or seeds a loss
  std::string argument;        ///< variable in the program's source
  bool channels_last = false;  ///< so it lies in memory, and its gradient does (`ir::channels_last`)
  bool operator==(const Port&) const = default;
};

/// A parameter, buffer or constant that a stage holds; its bytes are in the stage's weights file under `name`.
struct Weight {
  ValueId value;
  std::string name;
  ir::ValueType type;
  std::string argument;  ///< of buffers and constants; parameters are passed once per reading task, see `Leaf`
  bool operator==(const Weight&) const = default;
};

/// One reading of a parameter. Gradients accumulate per leaf, and the sum over a parameter's leaves is taken once, in
/// task order, at the end of a step: so it does not depend on how the graph was cut.
struct Leaf {
  uint32_t parameter = 0;  ///< index into `Signature::parameters`
  TaskId task;
  std::string argument;
  bool operator==(const Leaf&) const = default;
};

/// A draw that a stage reads. Its samples are drawn from a counter keyed by (seed, step, key, sample), so that they are
/// the same in every plan.
struct DrawnValue {
  ValueId value;
  std::string name;  ///< in the graph
  ir::ValueType type;
  ir::RandomInput draw;
  std::string argument;
  bool operator==(const DrawnValue&) const = default;
};

/// Mean and unbiased variance of what a call normalizes. They end up in two buffers: not call by call, but once a step,
/// as those of the whole mini-batch (torchgpipe's deferred batch normalization, footnote 1).
struct Statistics {
  ValueId mean_value, variance_value;  ///< results of the program
  uint32_t mean = 0, variance = 0;     ///< index into `Signature::buffers`
  double momentum = 0.1;               ///< weight of the new value
  ir::Dim count;                       ///< elements that one call averages over
  bool operator==(const Statistics&) const = default;
};

/// Arguments in the order: inputs, leaves, buffers, constants, draws, symbols, and `training` where a task asks for it.
/// Results: outputs, then mean and variance of each of the statistics.
struct Signature {
  StageId stage;
  std::vector<Port> inputs;            ///< ascending by value
  std::vector<Weight> parameters;      ///< ascending by value
  std::vector<Leaf> leaves;            ///< by parameter, then by task
  std::vector<Weight> buffers;         ///< ascending by value
  std::vector<Weight> constants;       ///< ascending by value
  std::vector<DrawnValue> draws;       ///< ascending by value
  std::vector<Statistics> statistics;  ///< as the graph lists them
  /// Per task that normalises by its batch in training, as they follow each other: whether by that of all replicas.
  std::vector<bool> synchronised;
  bool asks_training = false;        ///< a task does one thing in training and another in evaluation
  std::vector<std::string> symbols;  ///< sorted
  std::string batch_symbol;          ///< counts the samples that a call processes; empty: none
  std::vector<Port> outputs;         ///< routed values, graph outputs, loss numerators; ascending by value
  bool operator==(const Signature&) const = default;

  /// Whether replicas of the stage sum in the middle of their passes.
  bool sums_within_passes() const {
    return std::find(synchronised.begin(), synchronised.end(), true) != synchronised.end();
  }
  /// Index into `inputs` or `outputs`; -1: not there.
  int input_of(ValueId value) const;
  int output_of(ValueId value) const;
  int parameter_of(ValueId value) const;
};

/// The signature of a stage of a plan that verifies. A graph output or loss numerator made by constant tasks alone
/// belongs to the first stage that holds its task.
Signature signature(const ir::Plan& plan, StageId stage);

/// Names in generated source: of a value, of a parameter as one task reads it, of a symbol.
std::string variable(ValueId value);
std::string leaf_variable(ValueId parameter, TaskId task);
std::string symbol_variable(std::string name);

}  // namespace rannc::runtime
