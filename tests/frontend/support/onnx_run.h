/// Models in ONNX's text syntax, run on numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/codegen/stored_run.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::test {

/// Elements by the names of inputs.
using Numbers = std::map<std::string, std::vector<double>>;

struct OnnxRun {
  ir::Graph graph;      ///< as it is planned
  StoredInputs inputs;  ///< as the graph declares them, `seq` being 5, the batch as large as the numbers say
  std::vector<ir::StoredTensor> outputs;     ///< by place
  std::vector<std::vector<double>> numbers;  ///< their elements
};

/// Imports a graph (`agraph (float[batch, 4] x) => …`) of an opset, or a model (`<ir_version: 8, …> agraph …`), and
/// runs it. A diagnostic where it is refused, does not verify, or cannot run.
Result<OnnxRun> run_onnx(std::string_view graph, int opset, const Numbers& inputs);

}  // namespace rannc::test
