// Random programs with the number of samples in them, against the same programs without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "passes/batch/rebatch.h"
#include "tests/codegen/stored_run.h"
#include "tests/passes/torch/baked_program.h"
#include "tests/support/tier.h"

namespace rannc::codegen {
namespace {

constexpr int64_t kBaked[] = {1, 2, 3, 4, 8};

ir::StoredTensor stored(ir::DType dtype, const std::vector<int64_t>& shape, ir::TensorData data) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape = ir::Shape(shape.begin(), shape.end());
  return {type, std::move(data)};
}

test::StoredInputs inputs(int64_t samples, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> x;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < samples * 12; ++i) x.push_back(static_cast<double>(random() % 2001) / 1000 - 1);
  for (int64_t i = 0; i < samples * 3; ++i) places.push_back(static_cast<int64_t>(random() % 3));
  return {{"x", stored(ir::DType::kF64, {samples, 3, 4}, ir::encode_numbers(ir::DType::kF64, x))},
          {"places", stored(ir::DType::kI64, {samples, 3}, ir::encode_integers(ir::DType::kI64, places))}};
}

std::vector<double> result(const ir::Graph& graph, const test::StoredInputs& given) {
  const auto run = test::run_stored(graph, given);
  EXPECT_TRUE(run.ok()) << run.diagnostic().str();
  if (!run.ok()) return {};
  return ir::decode_numbers((*run)[0].type, (*run)[0].data, 1 << 20).value();
}

class RebatchedProgram : public ::testing::TestWithParam<int64_t> {};

// Every one comes back: what it has of samples is what the pass knows.
TEST_P(RebatchedProgram, IsTheSameFunctionOfAnyNumberOfSamples) {
  const int64_t baked = GetParam();
  const uint64_t programs = rannc::testing::tests_everything() ? 400 : 200;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto tasks = static_cast<uint32_t>(1 + seed % 12);
    ir::Graph graph = ir::testing::baked_program(seed, tasks, baked);
    passes::PassContext context;
    const auto done = passes::Rebatch().run(graph, context);
    ASSERT_TRUE(done.ok()) << done.diagnostic().str();
    ASSERT_EQ(graph.batch_symbol(), "batch");
    auto own = test::planned(std::move(graph));
    ASSERT_TRUE(own.ok()) << own.diagnostic().str();
    auto twin = test::planned(ir::testing::baked_program(seed, tasks, std::nullopt));
    ASSERT_TRUE(twin.ok()) << twin.diagnostic().str();
    ASSERT_EQ(ir::str(*own->type(own->outputs()[0]).shape), "[batch,12]");
    for (const int64_t samples : {int64_t{1}, baked, baked + 3}) {
      const auto given = inputs(samples, seed);
      ASSERT_THAT(result(*own, given), ::testing::Pointwise(::testing::DoubleNear(1e-12), result(*twin, given)))
          << samples << " samples";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Baked, RebatchedProgram, ::testing::ValuesIn(kBaked), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace rannc::codegen
