/// Models of one operator at the opsets between which it changed its meaning, each with numbers worked out by hand.
#pragma once

#include <string>
#include <vector>

#include "tests/frontend/support/onnx_run.h"

namespace rannc::test {

struct OpsetCase {
  std::string op;
  int opset;
  std::string graph;
  Numbers inputs;
  std::vector<double> expected;  ///< of the first output
};

std::vector<OpsetCase> shape_cases();  ///< axes, sizes and places
std::vector<OpsetCase> layer_cases();  ///< reductions, normalisations, windows, elementwise

}  // namespace rannc::test
