/// Models of a batch symbol beside themselves at a fixed number of samples.
#pragma once

#include "tests/frontend/support/onnx_run.h"

namespace rannc::test {

/// What is wrong with a model whose inputs have `batch` samples on axis 0, of which the numbers say three: it is
/// refused, an output has its samples elsewhere than on axis 0, a number differs from that of the same text with 3 for
/// `batch`, or a gradient by an input without samples differs from the tape's where samples come one by one. Empty:
/// nothing. `gradients`: how many inputs the tape gives one.
std::string fault_of_samples(const std::string& graph, int opset, const Numbers& inputs, size_t gradients);

/// `count` numbers from -1 to 1, in no order, of a seed of their own.
std::vector<double> spread(size_t count, uint64_t seed = 1);

}  // namespace rannc::test
