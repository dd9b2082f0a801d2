// What an exporter computed of a parameter that the file has as well is computed again, unless a user unties it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "tools/compiler/torch_evaluator.h"

namespace rannc::passes {
namespace {

ir::ValueType matrix(ir::Dim rows, ir::Dim columns) {
  ir::ValueType type;
  type.dtype = ir::DType::kF32;
  type.shape = ir::Shape{std::move(rows), std::move(columns)};
  return type;
}

/// `x @ weight.t() @ weight`, whose transpose the exporter stored as `permute_2`.
struct Model {
  explicit Model(std::vector<std::string> untied) {
    const std::vector<double> numbers = {1, 2, 3, 5, 8, 4}, turned = {1, 5, 2, 8, 3, 4};
    const auto add = [&](const char* name, int64_t rows, int64_t columns, const std::vector<double>& elements) {
      return graph.add_value(ir::ValueKind::kConstant, name, matrix(ir::Dim(rows), ir::Dim(columns)),
                             ir::encode_numbers(ir::DType::kF32, elements));
    };
    const ValueId weight = add("weight", 2, 3, numbers), permuted = add("permute_2", 3, 2, turned);
    const ValueId x =
        graph.add_value(ir::ValueKind::kInput, "x", matrix(ir::Dim::symbol("batch"), ir::Dim(int64_t{3})));
    graph.add_input(x);
    const ValueId a = graph.add(ir::core("matmul"), {x, permuted}, {}, "a");
    const ValueId y = graph.add(ir::core("matmul"), {a, weight}, {}, "y");
    graph.set_outputs({y});
    for (const TaskId task : graph.tasks()) EXPECT_TRUE(ir::infer_types(graph, task).ok());
    StoredFacts known;
    known.file.listed = {{"weight", ir::ValueKind::kParameter}};
    known.file.readings = {{"weight", {{"/y", 1, "", {}}}}, {"permute_2", {{"/a", 1, "", {}}}}};
    known.file.folded = {{"permute_2", {"weight"}}};
    known.untied = std::move(untied);
    context.evaluator = &evaluator;
    outcome = RecoverParameters(known).run(graph, context);
  }

  bool stored(const char* name) const {
    const ValueId value = graph.find(name);
    return value.valid() && !graph.producer(value).valid();
  }

  tools::TorchEvaluator evaluator;
  ir::Graph graph;
  PassContext context;
  Result<Outcome> outcome = Outcome();
};

TEST(Recompute, ACopyOfAParameterOfTheFileIsComputedAgain) {
  const Model model({});
  ASSERT_TRUE(model.outcome.ok()) << model.outcome.diagnostic().str();
  EXPECT_TRUE(model.stored("weight"));
  EXPECT_FALSE(model.stored("permute_2"));
}

TEST(Recompute, ACopyThatIsUntiedStays) {
  const Model model({"permute*"});
  ASSERT_TRUE(model.outcome.ok()) << model.outcome.diagnostic().str();
  ASSERT_TRUE(model.stored("permute_2"));
  EXPECT_EQ(model.graph.kind(model.graph.find("permute_2")), ir::ValueKind::kParameter);
  EXPECT_EQ(model.graph.kind(model.graph.find("weight")), ir::ValueKind::kParameter);
  EXPECT_FALSE(Model({"other"}).outcome.ok()) << "no tensor has that name";
}

/// `p[:4]` and another part of `p`, which the file lacks.
struct Parts {
  Parts(const std::vector<double>& first, const std::vector<double>& second) {
    const auto add = [&](const char* name, const char* input, const std::vector<double>& elements) {
      const ir::Dim rows(static_cast<int64_t>(elements.size() / 2)), columns(int64_t{2});
      const ValueId part = graph.add_value(ir::ValueKind::kConstant, name, matrix(rows, columns),
                                           ir::encode_numbers(ir::DType::kF32, elements));
      ir::ValueType type = matrix(rows, columns);
      type.shape->insert(type.shape->begin(), ir::Dim::symbol("batch"));
      const ValueId x = graph.add_value(ir::ValueKind::kInput, input, std::move(type));
      graph.add_input(x);
      return graph.add(ir::core("add"), {x, part}, {});
    };
    graph.set_outputs({add("slice_1", "x", first), add("slice_2", "z", second)});
    for (const TaskId task : graph.tasks()) EXPECT_TRUE(ir::infer_types(graph, task).ok());
    StoredFacts known;
    known.file.listed = {{"p", ir::ValueKind::kParameter}};
    known.file.readings = {{"slice_1", {{"/a", 1, "", {}}}}, {"slice_2", {{"/b", 1, "", {}}}}};
    known.file.folded = {{"slice_1", {"p", "val_1"}}, {"slice_2", {"p", "val_2"}}};
    known.merged = StoredFacts::Merged::kRefused;
    context.evaluator = &evaluator;
    outcome = RecoverParameters(known).run(graph, context);
  }

  size_t trained() const {
    size_t count = 0;
    for (const ValueId value : graph.values()) count += graph.kind(value) == ir::ValueKind::kParameter ? 1 : 0;
    return count;
  }

  tools::TorchEvaluator evaluator;
  ir::Graph graph;
  PassContext context;
  Result<Outcome> outcome = Outcome();
};

TEST(Recompute, APartOfAPartIsComputedFromIt) {
  const Parts parts({1, 2, 3, 4, 5, 6, 7, 8}, {3, 4, 5, 6});
  ASSERT_TRUE(parts.outcome.ok()) << parts.outcome.diagnostic().str();
  EXPECT_EQ(parts.trained(), 1U);
}

TEST(Recompute, PartsThatShareNothingAreTwo) {
  const Parts parts({1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12});
  ASSERT_TRUE(parts.outcome.ok()) << parts.outcome.diagnostic().str();
  EXPECT_EQ(parts.trained(), 2U);
}

TEST(Recompute, PartsThatMayOverlapAreRefused) {
  const std::vector<double> zeros(8, 0.0);
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const auto& [first, second] :
       {std::pair{numbers, std::vector<double>{7, 8, 9, 10}}, std::pair{zeros, std::vector<double>{0, 0, 0, 0}}}) {
    const Parts parts(first, second);
    ASSERT_FALSE(parts.outcome.ok());
    EXPECT_THAT(parts.outcome.diagnostic().str(),
                testing::AllOf(testing::HasSubstr("'slice_2'"), testing::HasSubstr("'slice_1'"),
                               testing::HasSubstr("--allow-merged")));
  }
}

/// `-exp(decay)`, which the file has in place of the parameter.
TEST(Recompute, AParameterIsRestoredFromItsExponential) {
  for (const bool known_steps : {true, false}) {
    ir::Graph graph;
    const ValueId made =
        graph.add_value(ir::ValueKind::kConstant, "neg", matrix(ir::Dim(int64_t{1}), ir::Dim(int64_t{2})),
                        ir::encode_numbers(ir::DType::kF32, std::vector<double>{-1, -14.25}));
    const ValueId x =
        graph.add_value(ir::ValueKind::kInput, "x", matrix(ir::Dim::symbol("batch"), ir::Dim(int64_t{2})));
    graph.add_input(x);
    graph.set_outputs({graph.add(ir::core("mul"), {x, made}, {}, "y")});
    for (const TaskId task : graph.tasks()) ASSERT_TRUE(ir::infer_types(graph, task).ok());
    StoredFacts known;
    known.file.listed = {{"decay", ir::ValueKind::kParameter}};
    known.file.readings = {{"neg", {{"/y", 1, "", {}}}}};
    known.file.folded = {{"neg", {"decay", known_steps ? "exp" : "sin"}}};
    tools::TorchEvaluator evaluator;
    PassContext context;
    context.evaluator = &evaluator;
    ASSERT_TRUE(RecoverParameters(known).run(graph, context).ok());
    EXPECT_TRUE(ir::verify(graph).empty());
    const ValueId decay = graph.find("decay");
    EXPECT_EQ(decay.valid(), known_steps);
    EXPECT_EQ(graph.producer(graph.find("neg")).valid(), known_steps);
    EXPECT_EQ(context.warnings.empty(), known_steps) << "the tensor is trained in its place";
    if (!known_steps) continue;
    EXPECT_EQ(graph.kind(decay), ir::ValueKind::kParameter);
    const auto numbers = ir::decode_numbers(graph.type(decay), graph.value(decay).data, 2);
    ASSERT_TRUE(numbers.ok());
    EXPECT_EQ((*numbers)[0], 0.0);
    EXPECT_NEAR((*numbers)[1], 2.6567569, 1e-6);
  }
}

}  // namespace
}  // namespace rannc::passes
