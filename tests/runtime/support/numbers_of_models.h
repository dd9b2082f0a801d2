/// Random mini-batches of models, and comparison of their numbers.
#pragma once

#include <gtest/gtest.h>

#include "ir/graph/graph.h"
#include "tests/runtime/support/local_run.h"

namespace rannc::testing {

inline std::vector<int64_t> sizes_of(const ir::ValueType& type, int64_t batch) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) sizes.push_back(*dim.evaluate({{"batch", batch}}));
  return sizes;
}

/// Integers below 4 and normal numbers, by name.
inline std::map<std::string, at::Tensor> batch_for(const ir::Graph& graph, int64_t samples) {
  std::map<std::string, at::Tensor> batch;
  for (const ValueId input : graph.inputs()) {
    const std::vector<int64_t> sizes = sizes_of(graph.type(input), samples);
    const bool integers = graph.type(input).dtype == ir::DType::kI64;
    batch[std::string(graph.value(input).name)] =
        integers ? at::randint(0, 4, sizes, at::kLong) : at::randn(sizes, at::kDouble);
  }
  return batch;
}

inline void expect_same_bits(const Numbers& found, const Numbers& expected) {
  EXPECT_EQ(found.loss, expected.loss);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, tensor] : expected.outputs) EXPECT_TRUE(found.outputs.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : expected.gradients) EXPECT_TRUE(found.gradients.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : expected.buffers) EXPECT_TRUE(found.buffers.at(name).equal(tensor)) << name;
}

}  // namespace rannc::testing
