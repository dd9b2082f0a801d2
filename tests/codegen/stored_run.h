/// Runs imported graphs on stored tensors, and their gradients against LibTorch's tape.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/graph/graph.h"

namespace rannc::test {

/// Tensors by the names of a graph's inputs.
using StoredInputs = std::map<std::string, ir::StoredTensor>;

/// The graph as it is planned: types inferred, what follows from constants folded. A diagnostic where a pass refuses
/// it.
Result<ir::Graph> planned(ir::Graph graph);

/// The outputs of a planned graph in training, in the graph's order. Symbols have the sizes that inputs have, on which
/// they must agree; random numbers are one half throughout. A diagnostic where a task cannot run, or makes a tensor of
/// another type than its rule says.
Result<std::vector<ir::StoredTensor>> run_stored(const ir::Graph& graph, const StoredInputs& inputs);

/// What became of a comparison with the tape.
struct TapeCheck {
  size_t differentiable = 0;  ///< inputs that the tape gives a gradient
  size_t by_vjp = 0;          ///< tasks that run a tape of their operator alone
  std::string fault;          ///< the first number that differs; empty: none
};

/// The joint graph's gradients of the sum of all float outputs, each element times a number of its own, by the float
/// inputs without samples, in doubles; samples come in micro-batches of one. A diagnostic where the graph cannot be
/// differentiated or run.
Result<TapeCheck> check_gradients(const ir::Graph& graph, const StoredInputs& inputs);

/// The joint graph's gradients of the sum of all float outputs, in doubles, by the names of the float inputs. The graph
/// has no samples. A diagnostic where the graph cannot be differentiated or run.
Result<StoredInputs> gradients_of(const ir::Graph& graph, const StoredInputs& inputs);

}  // namespace rannc::test
