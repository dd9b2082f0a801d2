/// What a stage reads and returns, derived from the plan alone.
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
  bool from_graph = false;     ///< inputs: fed from the mini-batch instead of received
  bool gradient = false;       ///< inputs: one is sent back; outputs: one arrives along a route or seeds a loss
  bool channels_last = false;  ///< memory layout of the value and its gradient (`ir::channels_last`)
  bool operator==(const Port&) const = default;
};

/// A parameter, buffer or constant of a stage. Its data is in the stage's weights file under `name`.
struct Weight {
  ValueId value;
  std::string name;
  ir::ValueType type;
  bool operator==(const Weight&) const = default;
};

/// One use of a parameter by one task. Gradients accumulate per leaf. A parameter's leaves are summed once, in task
/// order, at the end of a step, so that the sum does not depend on the cut.
struct Leaf {
  uint32_t parameter = 0;  ///< index into `Signature::parameters`
  TaskId task;
  bool operator==(const Leaf&) const = default;
};

/// A random input of a stage. Its samples come from a counter keyed by (seed, step, key, sample), so that they are the
/// same in every plan.
struct RandomValue {
  ValueId value;
  std::string name;  ///< in the graph
  ir::ValueType type;
  ir::RandomInput random_input;
  /// Whether all tasks multiply values of its shape by it, so that the number 1 can stand for it where nothing drops.
  bool scales = false;
  bool operator==(const RandomValue&) const = default;
};

/// Mean and unbiased variance of a normalized value. Two buffers are updated from them once per step, with the
/// statistics of the whole mini-batch (torchgpipe's deferred batch normalization, footnote 1).
struct Statistics {
  ValueId mean_value, variance_value;  ///< results of the program
  uint32_t mean = 0, variance = 0;     ///< index into `Signature::buffers`
  double momentum = 0.1;               ///< weight of the new value
  ir::Dim count;                       ///< number of elements that one call averages
  bool operator==(const Statistics&) const = default;
};

/// What one stage reads and returns. It also returns the mean and variance of each of the statistics.
struct Signature {
  StageId stage;
  std::vector<Port> inputs;                    ///< ascending by value
  std::vector<Weight> parameters;              ///< ascending by value
  std::vector<Leaf> leaves;                    ///< by parameter, then by task
  std::vector<std::vector<uint32_t>> buckets;  ///< `ir::Stage::buckets`, as indices into `parameters`
  std::vector<Weight> buffers;                 ///< ascending by value
  std::vector<Weight> constants;               ///< ascending by value
  std::vector<RandomValue> random_inputs;      ///< ascending by value
  std::vector<Statistics> statistics;          ///< in the graph's order
  /// Per task that normalizes by batch statistics in training, in task order: whether statistics span all replicas.
  std::vector<bool> synchronised;
  std::vector<std::string> symbols;  ///< sorted
  std::string batch_symbol;          ///< number of samples of a call; empty if there is no such symbol
  std::vector<Port> outputs;         ///< routed values, graph outputs, loss numerators; ascending by value
  bool operator==(const Signature&) const = default;

  /// Whether replicas of the stage exchange sums in the middle of a pass.
  bool sums_within_passes() const {
    return std::find(synchronised.begin(), synchronised.end(), true) != synchronised.end();
  }
  /// Index into `inputs`, `outputs` or `parameters`; -1 if absent.
  int input_of(ValueId value) const;
  int output_of(ValueId value) const;
  int parameter_of(ValueId value) const;
};

/// Returns the signature of a stage of a verified plan. A graph output or loss numerator made only by constant tasks
/// belongs to the first stage that contains its task.
Signature signature(const ir::Plan& plan, StageId stage);

}  // namespace rannc::runtime
