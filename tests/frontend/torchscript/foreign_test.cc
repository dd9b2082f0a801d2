// What is found out about operators without a core operator: types, samples, what is refused.
#include "frontend/torchscript/foreign.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "frontend/torchscript/internal/foreign/size_fit.h"
#include "frontend/torchscript/internal/foreign/symbolic_size.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::frontend::torchscript {
namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<ForeignArgument>;

ir::ValueType type(const std::string& text) { return ir::parse_foreign_types("-> " + text)->results[0]; }
ForeignArgument tensor(const char* parameter, const std::string& text) { return {parameter, type(text)}; }

Result<ForeignTask> requested(const std::string& schema, const Arguments& arguments) {
  static const bool loaded = [] {
    for (const char* name : {"soft_step", "without_meta"}) {
      const std::string path = std::string(RANNC_BINARY_DIR) + "/tests/libraries/" + name + ".so";
      RANNC_CHECK(dlopen(path.c_str(), RTLD_NOW) != nullptr) << dlerror();
    }
    return true;
  }();
  RANNC_CHECK(loaded);
  return foreign_task(schema, arguments, "batch");
}

/// The types as declared.
std::string types(const std::string& schema, const Arguments& arguments) {
  const auto task = requested(schema, arguments);
  if (!task.ok()) return task.diagnostic().str();
  return task->attributes.text("call.types");
}

bool guessed(const std::string& schema, const Arguments& arguments) {
  return requested(schema, arguments).value().attributes.flag("call.guessed");
}

TEST(ForeignTask, TypesOfATensKernels) {
  EXPECT_EQ(types("aten::cdist",
                  {tensor("x1", "f32[batch,p,3] samples 0"), tensor("x2", "f32[5,3]"), {"p", ir::Attribute(2.0)}}),
            "f32[batch,p,3] samples 0, f32[5,3] -> f32[batch,p,5] samples 0");
  EXPECT_EQ(types("aten::grid_sampler_2d", {tensor("input", "f32[batch,3,h,w] samples 0"),
                                            tensor("grid", "f32[batch,a,b,2] samples 0"),
                                            {"interpolation_mode", ir::Attribute(ir::Dim(0))},
                                            {"padding_mode", ir::Attribute(ir::Dim(0))},
                                            {"align_corners", ir::Attribute(false)}}),
            "f32[batch,3,h,w] samples 0, f32[batch,a,b,2] samples 0 -> f32[batch,3,a,b] samples 0");
  EXPECT_EQ(types("aten::im2col", {tensor("self", "f32[batch,2,h,w] samples 0"),
                                   {"kernel_size", ir::Attribute(ir::Shape{3, 2})},
                                   {"dilation", ir::Attribute(ir::Dim(1))},
                                   {"padding", ir::Attribute(ir::Dim(0))},
                                   {"stride", ir::Attribute(ir::Dim(1))}}),
            "f32[batch,2,h,w] samples 0 -> f32[batch,12,-h + h*w - 2*w + 2] samples 0");
  EXPECT_EQ(types("aten::pixel_shuffle",
                  {tensor("self", "f32[batch,c,s,5] samples 0"), {"upscale_factor", ir::Attribute(ir::Dim(2))}}),
            "f32[batch,c,s,5] samples 0 -> f32[batch,floor((c)/(4)),2*s,10] samples 0");
  EXPECT_EQ(types("aten::mode", {tensor("self", "f32[s,batch] samples 1"), {"dim", ir::Attribute(ir::Dim(0))}}),
            "f32[s,batch] samples 1 -> f32[batch] samples 0, i64[batch] samples 0");
}

TEST(ForeignTask, SizesAreDividedAndCounted) {
  EXPECT_EQ(types("aten::max_pool1d", {tensor("self", "f32[batch,2,s] samples 0"),
                                       {"kernel_size", ir::Attribute(ir::Dim(4))},
                                       {"stride", ir::Attribute(ir::Dim(3))}}),
            "f32[batch,2,s] samples 0 -> f32[batch,2,floor((s + 2)/(3)) - 1] samples 0")
      << "(s - 4) / 3 + 1";
  EXPECT_EQ(types("aten::flatten.using_ints", {tensor("self", "f32[t,batch,3] samples 1"),
                                               {"start_dim", ir::Attribute(ir::Dim(0))},
                                               {"end_dim", ir::Attribute(ir::Dim(1))}}),
            "f32[t,batch,3] samples 1 -> f32[batch*t,3] samples 0 outer [t]");
  EXPECT_EQ(types("aten::new_zeros",
                  {tensor("self", "f32[4]"), {"size", ir::Attribute(ir::Shape{ir::Dim::symbol("batch"), 3})}}),
            "f32[4] -> f32[batch,3] samples 0");
}

TEST(ForeignTask, ListsViewsAndNone) {
  const auto parts = requested("aten::tensor_split.sections", {tensor("self", "f32[batch,7] samples 0"),
                                                               {"sections", ir::Attribute(ir::Dim(2))},
                                                               {"dim", ir::Attribute(ir::Dim(1))}});
  ASSERT_TRUE(parts.ok()) << parts.diagnostic().str();
  EXPECT_EQ(parts->results.size(), 2U);
  EXPECT_TRUE(parts->attributes.flag("call.list"));
  EXPECT_TRUE(parts->attributes.flag("call.view"));
  const auto stacked =
      requested("aten::row_stack", {{"tensors", ForeignArgument::Tensors{type("f32[2,3]"), type("f32[4,3]")}}});
  ASSERT_TRUE(stacked.ok()) << stacked.diagnostic().str();
  EXPECT_EQ(stacked->op, "aten.row_stack");
  EXPECT_EQ(stacked->attributes.text("call.types"), "f32[2,3], f32[4,3] -> f32[6,3]");
  EXPECT_FALSE(stacked->attributes.flag("call.guessed")) << "nothing is symbolic";
  const auto none =
      requested("aten::bucketize.Tensor", {tensor("self", "f32[batch,2] samples 0"), tensor("boundaries", "f32[5]")});
  ASSERT_TRUE(none.ok()) << none.diagnostic().str();
  EXPECT_EQ(none->results[0], type("i64[batch,2] samples 0"));
}

TEST(ForeignTask, SamplesThatAreMixed) {
  EXPECT_EQ(types("aten::cov", {tensor("self", "f32[batch,6] samples 0")}),
            "f32[batch,6] samples 0 -> f32[batch,batch] mixed");
  EXPECT_EQ(types("aten::nansum", {tensor("self", "f32[batch,6] samples 0")}),
            "f32[batch,6] samples 0 -> f32[] partial");
  EXPECT_EQ(types("aten::logcumsumexp", {tensor("self", "f32[batch,6] samples 0"), {"dim", ir::Attribute(ir::Dim(0))}}),
            "f32[batch,6] samples 0 -> f32[batch,6] mixed");
  EXPECT_EQ(types("aten::logcumsumexp", {tensor("self", "f32[batch,6] samples 0"), {"dim", ir::Attribute(ir::Dim(1))}}),
            "f32[batch,6] samples 0 -> f32[batch,6] samples 0");
  EXPECT_EQ(types("aten::roll", {tensor("self", "f32[batch] samples 0"), {"shifts", ir::Attribute(ir::Dim(1))}}),
            "f32[batch] samples 0 -> f32[batch] mixed");
}

TEST(ForeignTask, OperatorsOfAUser) {
  EXPECT_EQ(types("rannc_test::soft_step", {tensor("x", "f64[batch,n] samples 0"), tensor("scale", "f64[n]")}),
            "f64[batch,n] samples 0, f64[n] -> f64[batch,n] samples 0");
  const Arguments rows{tensor("x", "f32[batch,n] samples 0")};
  EXPECT_EQ(types("rannc_bare::mirrored", rows), "f32[batch,n] samples 0 -> f32[batch,2*n] samples 0");
  EXPECT_TRUE(guessed("rannc_bare::mirrored", rows));
  EXPECT_TRUE(guessed("rannc_bare::mirrored", {tensor("x", "f32[3,4]")})) << "no meta kernel";
  EXPECT_FALSE(guessed("rannc_test::soft_step", {tensor("x", "f32[3,4]"), tensor("scale", "f32[4]")}));
  EXPECT_EQ(types("rannc_bare::centred", rows), "f32[batch,n] samples 0 -> f32[batch,n] mixed");
  EXPECT_EQ(types("rannc_bare::energy", rows), "f32[batch,n] samples 0 -> f32[] partial");
}

// By kernels that take expressions for sizes; others are looked at.
TEST(ForeignTask, ExactTypesAreNotGuessed) {
  const Arguments rows{tensor("self", "f32[batch,n] samples 0")};
  for (const char* schema : {"aten::zeros_like", "aten::t", "aten::clone"})
    EXPECT_FALSE(guessed(schema, rows)) << schema;
  EXPECT_EQ(types("aten::t", rows), "f32[batch,n] samples 0 -> f32[n,batch] samples 1");
  EXPECT_FALSE(
      guessed("rannc_test::soft_step", {tensor("x", "f64[batch,2*n] samples 0"), tensor("scale", "f64[2*n]")}));
  EXPECT_TRUE(guessed("aten::celu", rows)) << "its kernel takes numbers alone";
  EXPECT_TRUE(guessed("aten::squeeze", {tensor("self", "f32[3,n]")})) << "another rank where n is 1";
}

TEST(SymbolicSize, ComputesAndIsCertainOrThrows) {
  const ir::Dim a = ir::Dim::symbol("a"), b = ir::Dim::symbol("b");
  const c10::SymInt x = symbolic_size(a), y = symbolic_size(b);
  EXPECT_EQ(as_dim(x * 2 + y - 1), ir::Dim(2) * a + b - ir::Dim(1));
  EXPECT_EQ(as_dim((x + 3) / 4), floor_div(a + ir::Dim(3), ir::Dim(4)));
  EXPECT_EQ(as_dim(x % 4), mod(a, ir::Dim(4)));
  EXPECT_EQ(as_dim(x.min(y)), min(a, b));
  EXPECT_EQ(as_dim(symbolic_size(ir::Dim(5)) + 1), ir::Dim(6));
  EXPECT_TRUE(x >= 2);
  EXPECT_TRUE(x != 1) << "symbols are 2 or more";
  EXPECT_TRUE(x + y > x);
  EXPECT_FALSE(x == x + 1);
  EXPECT_THROW((void)(x == y), c10::Error);
  EXPECT_THROW((void)(x > 2), c10::Error);
  EXPECT_THROW((void)x.guard_int(__FILE__, __LINE__), c10::Error);
  EXPECT_THROW((void)(x / (y - 2)), c10::Error) << "it may be 0";
}

TEST(ForeignTask, WhatIsRefused) {
  const ForeignArgument x = tensor("self", "f32[batch,3] samples 0"), mine = tensor("x", "f32[batch,3] samples 0");
  EXPECT_THAT(types("aten::relu_", {x}), HasSubstr("aten::relu_ cannot be called: it writes into `self`"));
  EXPECT_THAT(types("rannc_bare::twice_", {mine}), HasSubstr("it writes into `x`"));
  EXPECT_THAT(types("aten::bernoulli", {x}), HasSubstr("random numbers"));
  EXPECT_THAT(types("aten::from_file", {{"filename", ir::Attribute(std::string("a"))}}), HasSubstr("effects"));
  EXPECT_THAT(types("aten::nonzero", {x}), HasSubstr("the sizes of its results depend on data"));
  EXPECT_THAT(types("rannc_bare::positive_rows", {mine}), HasSubstr("the sizes of its results depend on data"));
  EXPECT_THAT(types("rannc_bare::say", {{"text", ir::Attribute(std::string("a"))}}),
              HasSubstr("it returns no tensors"));
  EXPECT_THAT(types("aten::size.int", {x, {"dim", ir::Attribute(ir::Dim(0))}}), HasSubstr("which is no tensor"));
  EXPECT_THAT(types("aten::fft_fft", {x}), HasSubstr("ComplexFloat"));
  EXPECT_THAT(types("aten::cdist", {tensor("x1", "f32[3,3]")}), HasSubstr("parameter `x2` is missing"));
  EXPECT_THAT(types("aten::cdist", {tensor("x3", "f32[3,3]")}), HasSubstr("no parameter `x3`"));
  EXPECT_THAT(types("aten::cdist", {tensor("x1", "f32[3,3]"), tensor("x2", "f32[3,4]")}),
              HasSubstr("aten::cdist cannot be called: "));
  EXPECT_THAT(types("none::such", {x}), HasSubstr("--load-library"));
  EXPECT_THAT(types("aten::histogram.bins_tensor", {x}), HasSubstr("parameter `bins` is missing"));
  const auto scaled = [&](ir::Attribute by) {
    return types("aten::upsample_linear1d.vec", {tensor("input", "f32[batch,3,4] samples 0"),
                                                 {"output_size", ForeignArgument::None{}},
                                                 {"align_corners", ir::Attribute(false)},
                                                 {"scale_factors", std::move(by)}});
  };
  const std::string twice = "f32[batch,3,4] samples 0 -> f32[batch,3,8] samples 0";
  EXPECT_EQ(scaled(std::vector<double>{2}), twice);
  EXPECT_EQ(scaled(ir::Shape{2}), twice) << "integers are numbers";
  EXPECT_THAT(scaled(ir::Shape{ir::Dim::symbol("batch")}), HasSubstr("argument `scale_factors`"));
  EXPECT_THAT(scaled(std::string("2")), HasSubstr("argument `scale_factors`"));
}

TEST(ForeignTask, MakesAGraphThatHolds) {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", type("f32[batch,7] samples 0"));
  graph.add_input(x);
  const auto task =
      requested("aten::tensor_split.sections",
                {{"self", graph.type(x)}, {"sections", ir::Attribute(ir::Dim(2))}, {"dim", ir::Attribute(ir::Dim(1))}});
  ASSERT_TRUE(task.ok()) << task.diagnostic().str();
  const std::vector<std::string> names(task->results.size());
  const TaskId made = graph.add_task(graph.foreign_op(task->op), std::array{x}, task->attributes, names);
  ASSERT_TRUE(ir::infer_types(graph, made).ok());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(graph.type(graph.outputs(made)[i]), task->results[i]);
  EXPECT_TRUE(ir::verify(graph).empty());
}

TEST(SizeFit, FindsExpressionsOrNone) {
  const ir::Dim a = ir::Dim::symbol("a"), b = ir::Dim::symbol("b");
  for (const int64_t step : {1, 2, 8}) {
    const SizeGrid grid{{"a", "b"}, step};
    const auto again = [&](const ir::Dim& of) {
      std::vector<int64_t> seen;
      for (const ir::Bindings& point : grid.points()) seen.push_back(*of.evaluate(point));
      return fitted(grid, seen, {});
    };
    for (const ir::Dim& of : {ir::Dim(7), a, a + b, ir::Dim(3) * a * b - b + ir::Dim(2), floor_div(a, ir::Dim(8)),
                              floor_div(ir::Dim(3) * b + ir::Dim(1), ir::Dim(7))}) {
      const auto found = again(of);
      ASSERT_TRUE(found.has_value()) << of.str() << " at step " << step;
      for (int64_t i = 1; i < 40; ++i) {
        const ir::Bindings sizes{{"a", i * step}, {"b", (41 - i) * step}};
        EXPECT_EQ(found->evaluate(sizes), of.evaluate(sizes)) << of.str() << " was taken for " << found->str();
      }
    }
    EXPECT_FALSE(again(a * a + b)) << "no square is fitted";
  }
}

}  // namespace
}  // namespace rannc::frontend::torchscript
