// Methods of stage functions, compiled and run by LibTorch alone.
#include "codegen/function_source.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <map>

#include "codegen/internal/define.h"
#include "ir/plan/functions.h"
#include "ir/text/text.h"
#include "runtime/aten/torch_types.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::codegen {
namespace {

using ir::FunctionKind;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSamples = 3;

/// The methods of one stage and the values that they have computed so far.
class Methods {
 public:
  Methods(const ir::Plan& plan, StageId stage)
      : functions_(*plan.functions[stage.index()]),
        table_(ir::function_table(functions_)),
        source_(function_source(plan, stage).value()) {
    define(module_, source_);
    at::manual_seed(5);
    for (const ValueId value : graph().values()) {
      if (graph().producer(value).valid()) continue;
      values_[value] = synthetic(value);
    }
  }

  const std::string& source() const { return source_; }
  const ir::FunctionTable& table() const { return table_; }
  const ir::Joint& joint() const { return functions_.joint; }
  const at::Tensor& value(ValueId value) const { return values_.at(value); }

  void run(FunctionKind kind, const std::string& name) {
    const auto method = module_.find_method(name);
    if (!method) {
      EXPECT_TRUE(table_[kind].tasks.empty() || results(kind).empty()) << name;
      return;
    }
    std::vector<c10::IValue> arguments;
    for (const c10::Argument& argument : method->function().getSchema().arguments()) {
      if (argument.name() == "self") continue;
      if (argument.name() == "batch") {
        arguments.emplace_back(kSamples);
      } else {
        arguments.emplace_back(values_.at(ValueId(static_cast<uint32_t>(std::stoul(argument.name().substr(1))))));
      }
    }
    const c10::IValue returned = (*method)(std::move(arguments));
    const std::vector<ValueId> into = results(kind);
    ASSERT_EQ(returned.toTupleRef().elements().size(), into.size()) << name;
    for (size_t i = 0; i < into.size(); ++i) values_[into[i]] = returned.toTupleRef().elements()[i].toTensor();
  }

 private:
  const ir::Graph& graph() const { return functions_.joint.graph; }

  at::Tensor synthetic(ValueId value) const {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : *graph().type(value).shape) sizes.push_back(*dim.evaluate({{"batch", kSamples}}));
    const auto options = at::TensorOptions(runtime::scalar_type(graph().type(value).dtype));
    return ir::is_float(graph().type(value).dtype) ? at::randn(sizes, options) : at::randint(0, 5, sizes, options);
  }

  std::vector<ValueId> results(FunctionKind kind) const {
    std::vector<ValueId> all;
    const ir::StageFunction& function = table_[kind];
    if (kind == FunctionKind::kStep || kind == FunctionKind::kLoad) {
      for (const TaskId task : function.tasks) {
        const auto outputs = graph().outputs(task);
        all.insert(all.end(), outputs.begin(), outputs.end());
      }
      return all;
    }
    for (const auto* list : {&function.results, &function.kept, &function.added}) {
      all.insert(all.end(), list->begin(), list->end());
    }
    return all;
  }

  const ir::StageFunctions& functions_;
  const ir::FunctionTable table_;
  const std::string source_;
  torch::jit::Module module_{"stage"};
  std::map<ValueId, at::Tensor> values_;
};

void expect_parts_equal_whole(const ir::Plan& plan, StageId stage) {
  Methods parts(plan, stage), whole(plan, stage);
  for (Methods* each : {&parts, &whole}) {
    each->run(FunctionKind::kLoad, "P_load");
    each->run(FunctionKind::kStep, "P_step");
    each->run(FunctionKind::kForward, "F");
  }
  parts.run(FunctionKind::kInput, "I");
  parts.run(FunctionKind::kWeight, "W");
  whole.run(FunctionKind::kBackward, "B");
  const ir::StageFunction& backward = whole.table()[FunctionKind::kBackward];
  ASSERT_FALSE(backward.added.empty());
  for (const auto* list : {&backward.results, &backward.added}) {
    for (const ValueId value : *list) {
      EXPECT_TRUE(at::allclose(parts.value(value), whole.value(value), 1e-10, 1e-12))
          << parts.joint().graph.value(value).name;
      EXPECT_GT(whole.value(value).abs().max().item<double>(), 0) << parts.joint().graph.value(value).name;
    }
  }
}

TEST(FunctionSource, IAndWGiveWhatBGives) {
  const ir::Plan skip = testing::build_plan(testing::skip_and_tie(ir::DType::kF64), {.cuts = {3}});
  const ir::Plan token = testing::build_plan(testing::token_model(ir::DType::kF64), {.cuts = {5}});
  for (const uint32_t stage : {0U, 1U}) {
    expect_parts_equal_whole(skip, StageId(stage));
    expect_parts_equal_whole(token, StageId(stage));
  }
}

TEST(FunctionSource, RGivesWhatFSaved) {
  const ir::Plan plan = testing::build_plan(testing::skip_and_tie(ir::DType::kF64), {.cuts = {3}, .recompute = true});
  Methods methods(plan, StageId(0));
  methods.run(FunctionKind::kForward, "F");
  std::map<ValueId, at::Tensor> saved;
  ASSERT_FALSE(methods.table().rebuilt.empty());
  for (const ValueId value : methods.table().rebuilt) saved[value] = methods.value(value).clone();
  methods.run(FunctionKind::kRebuild, "R");
  for (const auto& [value, tensor] : saved) EXPECT_TRUE(methods.value(value).equal(tensor));
}

// TorchScript has no tapes to pass, so that the text repeats the forward pass.
TEST(FunctionSource, ATapeIsEmptyAndItsForwardPassRepeated) {
  const ir::Plan plan = testing::build_plan(ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f64[2,batch,4] samples 1
input %target: f64[2,batch,2] samples 1
parameter %w: f64[1,6,4]
parameter %r: f64[1,6,2]
#0 %y: f64[2,batch,2] samples 1, %h: f64[1,batch,2] samples 1 = core.gru(%x, %w, %r)
#1 %l: f64[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
loss %l weight 0x1p+0
)",
                                                            "recurrent.rir")
                                                .value(),
                                            {});
  const std::string source = function_source(plan, StageId(0)).value();
  EXPECT_THAT(source, HasSubstr("# #0 taped.core.gru"));
  EXPECT_THAT(source, HasSubstr(" = torch.empty([0], dtype=0)\n"));
  EXPECT_THAT(source, HasSubstr("# #0 vjp.core.gru"));
  expect_parts_equal_whole(plan, StageId(0));
}

TEST(FunctionSource, NamesTheTaskOfThePlanAboveItsStatements) {
  const ir::Plan plan = testing::build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}});
  const std::string second = function_source(plan, StageId(1)).value();
  EXPECT_THAT(second, HasSubstr("def F(self"));
  EXPECT_THAT(second, HasSubstr("    # #3 core."));
  EXPECT_THAT(second, Not(HasSubstr("    # #0 ")));
}

}  // namespace
}  // namespace rannc::codegen
