// Type rules: symbolic and concrete agree, contents follow, errors name what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/graph/assumptions.h"
#include "ir/internal/attribute_kinds.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/ir/op/op_cases.h"

namespace rannc::ir {
namespace {

using testing::b;
using testing::concrete;
using testing::dims;
using testing::f;
using ::testing::HasSubstr;
using testing::i;
using testing::list;
using testing::op_cases;
using testing::OpCase;
using testing::Operand;
using testing::with_batch;

Result<std::vector<ValueType>> infer(const OpCase& c, std::string_view batch_symbol = "batch") {
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : c.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
  const OpInfo& op = core(c.op);
  std::vector<Equality> assumed;
  return types_of({op, inputs, c.attributes, batch_symbol, c.outputs, &assumed});
}

ValueType type_of(const OpCase& c) {
  auto types = infer(c);
  EXPECT_TRUE(types.ok()) << describe(c) << (types.ok() ? "" : types.diagnostic().str());
  return types.ok() ? (*types)[0] : ValueType();
}

TEST(OpTypes, SymbolicAndConcreteAgree) {
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(describe(c));
    auto symbolic = infer(c);
    ASSERT_TRUE(symbolic.ok()) << symbolic.diagnostic().str();
    for (const int64_t batch : {1, 3, 8}) {
      auto fixed = infer(with_batch(c, batch), "");
      ASSERT_TRUE(fixed.ok()) << fixed.diagnostic().str();
      ASSERT_EQ(symbolic->size(), fixed->size());
      for (size_t k = 0; k < fixed->size(); ++k) {
        EXPECT_EQ((*symbolic)[k].dtype, (*fixed)[k].dtype);
        EXPECT_EQ(concrete(*(*symbolic)[k].shape, batch), *(*fixed)[k].shape);
        if ((*symbolic)[k].contents) {
          EXPECT_EQ(concrete(*(*symbolic)[k].contents, batch), (*fixed)[k].contents);
        }
      }
    }
  }
}

// A graph of the call alone.
Graph graph_of(const OpCase& c) {
  Graph graph;
  graph.set_batch_symbol("batch");
  std::vector<ValueId> operands;
  for (const Operand& operand : c.operands) {
    operands.push_back(operand.absent ? ValueId() : graph.add_value(ValueKind::kInput, "x", operand.type));
    if (!operand.absent) graph.add_input(operands.back());
  }
  const TaskId task = graph.add_task(core(c.op), operands, c.attributes, std::vector<std::string>(c.outputs));
  EXPECT_TRUE(infer_types(graph, task).ok());
  return graph;
}

TEST(OpTypes, EveryCallIsReadAsItWasPrinted) {
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(describe(c));
    const Graph graph = graph_of(c);
    const std::vector<Diagnostic> wrong = verify(graph);
    EXPECT_TRUE(wrong.empty()) << wrong[0].str();
    const auto again = parse_graph(print(graph), "t.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str() << print(graph);
    EXPECT_TRUE(equal(*again, graph)) << print(graph) << "against\n" << print(*again);
  }
}

TEST(OpTypes, ExtentsAgreeWithTheLayout) {
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<ValueType> types = infer(c).value();
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueType& type = types[i];
      if (testing::is_workspace(c, i, type)) continue;  // the samples are where the kernel puts them
      for (size_t axis = 0; axis < type.shape->size(); ++axis) {
        const Dim& dim = (*type.shape)[axis];
        EXPECT_EQ(type.batch.axis == static_cast<int32_t>(axis), dim.uses("batch")) << str(*type.shape);
        if (!dim.uses("batch")) continue;
        EXPECT_EQ(dim, type.batch.outer * Dim::symbol("batch") * type.batch.inner);
      }
    }
  }
}

TEST(OpTypes, RegistryIsSortedAndFindsEveryName) {
  for (size_t k = 0; k < core_ops().size(); ++k) {
    const OpInfo& op = core_ops()[k];
    const std::string& previous = core_ops()[k == 0 ? 0 : k - 1].name;
    EXPECT_TRUE(k == 0 || previous < op.name) << previous << " before " << op.name;
    EXPECT_EQ(find_op(op.name), &op);
  }
  EXPECT_EQ(find_op("core.nothing"), nullptr);
  EXPECT_EQ(find_op("add"), nullptr);
}

// What an entry says fits together: the generated table, the verifier and the type rules rely on it.
TEST(OpEntries, AreConsistent) {
  for (const OpInfo& op : core_ops()) {
    SCOPED_TRACE(op.name);
    EXPECT_FALSE(op.summary.empty());
    EXPECT_FALSE(op.family.empty());
    ASSERT_FALSE(op.results.empty());
    std::set<std::string_view> names;
    bool optional = false;
    for (const OperandInfo& operand : op.operands) {
      EXPECT_TRUE(names.insert(operand.name).second) << operand.name;
      EXPECT_FALSE(optional && operand.presence == Presence::kRequired) << operand.name << " comes after optional ones";
      optional = optional || operand.presence == Presence::kOptional;
      const bool stands_for_itself = operand.role == Role::kWeight || operand.role == Role::kData;
      EXPECT_TRUE(operand.presence != Presence::kOptional || !operand.attribute.empty() || stands_for_itself)
          << operand.name << " may be absent, but neither as a weight or data nor for an attribute";
      EXPECT_TRUE(operand.attribute.empty() || op.attribute(operand.attribute)) << operand.name;
    }
    for (const AttributeInfo& attribute : op.attributes) {
      EXPECT_FALSE(attribute.required && attribute.otherwise) << attribute.name;
      EXPECT_TRUE(attribute.allowed.empty() || attribute.kind == AttributeKind::kText) << attribute.name;
      if (attribute.otherwise) {
        EXPECT_EQ(attribute_fault(op, attribute.name, *attribute.otherwise), "");
      }
    }
    EXPECT_FALSE(op.form && op.lower) << "two lowerings";
    EXPECT_TRUE(op.can_be_lowered());
    EXPECT_TRUE(op.view == View::kNone || op.operand(0).presence == Presence::kRequired);
    for (const Kept& kept : op.tape.value_or(TapeInfo{}).keeps) {
      EXPECT_LT(kept.index, kept.of == Kept::Of::kOperand ? op.operands.size() : op.results.size());
    }
  }
}

TEST(OpEntries, DefaultsAreReadByTheRules) {
  for (const OpInfo& op : core_ops()) {
    for (const AttributeInfo& attribute : op.attributes) {
      if (!attribute.otherwise) continue;
      const Attributes none, given = {{std::string(attribute.name), *attribute.otherwise}};
      EXPECT_EQ(*OpAttributes(op, none).find(attribute.name), *OpAttributes(op, given).find(attribute.name)) << op.name;
    }
  }
}

// A misspelt name would otherwise read as zero, and a rule would compute a wrong number.
TEST(OpEntries, OnlyDeclaredAttributesAreLookedUp) {
  const Attributes given = {{"hidden_rows", std::string("zero")}};
  const OpAttributes softmax(core("softmax"), given);
  EXPECT_EQ(softmax.text("hidden_rows"), "zero");
  EXPECT_TRUE(softmax.declares("axis"));
  EXPECT_FALSE(softmax.declares("safe"));
  const std::function<void()> lookups[] = {[&] { softmax.find("safe"); },     [&] { softmax.has("safe"); },
                                           [&] { softmax.integer("safe"); },  [&] { softmax.number("safe"); },
                                           [&] { softmax.flag("safe"); },     [&] { softmax.text("safe"); },
                                           [&] { softmax.dtype("safe"); },    [&] { softmax.list("safe"); },
                                           [&] { softmax.integers("safe"); }, [&] { softmax.body("safe"); }};
  for (const auto& lookup : lookups) EXPECT_THROW(lookup(), InternalError);
}

TEST(OpEntries, WhatIsNotAllowedIsRefusedByName) {
  const OpInfo& pad = core("pad");
  EXPECT_EQ(attribute_fault(pad, "mode", std::string("mirror")),
            "attribute mode of core.pad must be \"constant\" or \"reflect\" or \"edge\" or \"wrap\"");
  EXPECT_EQ(attribute_fault(pad, "mode", std::string("edge")), "");
  EXPECT_EQ(core("cast").missing({})->name, "dtype");
  EXPECT_EQ(core("cast").missing({{"dtype", DType::kF32}}), nullptr);
}

// --- place of the samples

struct Move {
  const char* what;
  OpCase call;
  BatchLayout expected;
};

TEST(BatchLayouts, FollowTheSamples) {
  Operand sequence_first = f("5,batch,8");
  const Move moves[] = {
      {"permute", {"permute", {f("batch,12,4,16")}, {{"dims", dims("0,2,1,3")}}}, {0, 1, 1}},
      {"permute to the middle", {"permute", {f("batch,3,4")}, {{"dims", dims("1,0,2")}}}, {1, 1, 1}},
      {"join heads", {"reshape", {f("batch,4,3,5")}, {{"shape", dims("-1,3,5")}}}, {0, 1, 4}},
      {"part heads", {"reshape", {f("5,4*batch,3")}, {{"shape", dims("5,-1,4,3")}}}, {1, 1, 1}},
      {"join time and samples", {"reshape", {sequence_first}, {{"shape", dims("-1,8")}}}, {0, 5, 1}},
      {"join without elements",
       {"reshape", {f("5,batch,2,0")}, {{"shape", Shape{Dim(10) * Dim::symbol("batch"), 0}}}},
       {0, 5, 2}},
      {"flatten all", {"reshape", {f("batch,12")}, {{"shape", dims("-1")}}}, {0, 1, 12}},
      {"sizes alone", {"expand", {f("1,4"), list("batch,4")}}, {0, 1, 1}},
      {"numbers of samples", {"range", {}, {{"limit", Dim::symbol("batch")}}}, {0, 1, 1}},
      {"broadcast", {"add", {f("3,4"), f("batch,1,4")}}, {0, 1, 1}},
      {"reduce before", {"sum", {f("3,batch,4")}, {{"axes", dims("0")}}}, {0, 1, 1}},
      {"gather by samples", {"gather", {f("9,4"), i("3,batch", 0, 1)}, {{"axis", Dim(0)}}}, {1, 1, 1}},
      {"rows of a product", {"matmul", {f("batch,4"), f("4,5")}}, {0, 1, 1}},
      {"columns of a product", {"matmul", {f("3,4"), f("4,batch")}}, {1, 1, 1}},
      {"a sum of products", {"matmul", {f("3,batch"), f("batch,4")}}, {-1, 1, 1, Mix::kPartial}},
      {"rows of a weight", {"linear", {f("3,4"), f("batch,4")}}, {1, 1, 1}},
      {"a sum over rows of a weight",
       {"linear", {f("3,batch"), f("batch,4")}, {{"layout", std::string("io")}}},
       {-1, 1, 1, Mix::kPartial}},
      {"gradient of a weight",
       {"conv_grad_weight", {f("batch,3,7"), f("batch,2,9")}, {{"kernel", dims("3")}}},
       {-1, 1, 1, Mix::kPartial}},
      {"gradient of a table",
       {"gather_grad_input", {f("batch,3,4"), i("batch,3", 0, 9)}, {{"sizes", dims("9,4")}}},
       {-1, 1, 1, Mix::kPartial}},
      {"gradient by numbers of samples",
       {"gather_grad_input", {f("2,4"), i("2", 0, 9)}, {{"sizes", dims("5*batch,4")}, {"outer", dims("5")}}},
       {0, 5, 1}},
  };
  for (const Move& move : moves) EXPECT_EQ(type_of(move.call).batch, move.expected) << move.what;
}

// --- contents

TEST(ContentsRules, NoElementIsChosenFromEmptyContents) {
  Operand condition = b("0"), empty = list("1");
  condition.type.contents = Contents{};
  empty.type.shape = Shape{0};
  empty.type.contents = Contents{};
  EXPECT_EQ(type_of({"where", {condition, list("7"), empty}}).contents, Contents{});
  EXPECT_EQ(type_of({"where", {condition, empty, list("7")}}).contents, Contents{});
}

TEST(ContentsRules, NumbersWrapAsTheRunDoes) {
  const auto of = [](DType dtype, int64_t x) {
    Operand operand = list("0");
    operand.type.dtype = dtype;
    operand.type.contents = Contents{x};
    return operand;
  };
  const auto cast = [&](DType to, int64_t x) {
    return type_of({"cast", {of(DType::kI64, x)}, {{"dtype", to}}}).contents;
  };
  EXPECT_EQ(cast(DType::kU8, 300), Contents{44});
  EXPECT_EQ(cast(DType::kI8, 200), Contents{-56});
  EXPECT_EQ(cast(DType::kBool, 2), Contents{1});
  EXPECT_EQ(type_of({"cast", {list("batch")}, {{"dtype", DType::kI8}}}).contents, std::nullopt);
  EXPECT_EQ(type_of({"cast", {list("batch")}, {{"dtype", DType::kI32}}}).contents, Contents{Dim::symbol("batch")});
  EXPECT_EQ(type_of({"add", {of(DType::kI64, INT64_MAX), of(DType::kI64, 1)}}).contents, Contents{INT64_MIN});
  EXPECT_EQ(type_of({"mul", {of(DType::kI32, 1 << 30), of(DType::kI32, 4)}}).contents, Contents{0});
  EXPECT_EQ(type_of({"abs", {of(DType::kI64, INT64_MIN)}}).contents, Contents{INT64_MIN});
}

TEST(ContentsRules, ShapeArithmetic) {
  const Dim batch = Dim::symbol("batch");
  const ValueType sizes = type_of({"shape", {f("batch,12,64")}});
  EXPECT_EQ(sizes.contents, (Contents{batch, 12, 64}));
  EXPECT_EQ(type_of({"gather", {list("batch,12,64"), list("-1,0")}}).contents, (Contents{64, batch}));
  EXPECT_EQ(type_of({"concat", {list("-1"), list("12*batch")}}).contents, (Contents{-1, Dim(12) * batch}));
  EXPECT_EQ(type_of({"mul", {list("batch,3"), list("4")}}).contents, (Contents{Dim(4) * batch, 12}));
  EXPECT_EQ(type_of({"prod", {list("batch,3,4")}}).contents, (Contents{Dim(12) * batch}));
  EXPECT_EQ(type_of({"neg", {list("5,batch")}}).contents, (Contents{-5, Dim(0) - batch}));
  EXPECT_EQ(type_of({"slice", {list("batch,12,64"), list("-2"), list("9223372036854775807")}}).contents,
            (Contents{12, 64}));
  EXPECT_EQ(
      type_of({"slice", {list("1,2,3,4"), list("-1"), list("-9223372036854775807"), list("0"), list("-2")}}).contents,
      (Contents{4, 2}));
  EXPECT_EQ(type_of({"unsqueeze", {testing::scalar("batch")}, {{"axes", dims("0")}}}).contents, (Contents{batch}));
  EXPECT_EQ(type_of({"range", {}, {{"start", Dim(1)}, {"limit", Dim(7)}, {"delta", Dim(2)}}}).contents,
            (Contents{1, 3, 5}));
  EXPECT_EQ(type_of({"expand", {list("7"), list("3")}}).contents, (Contents{7, 7, 7}));
  EXPECT_EQ(type_of({"full", {list("2")}, {{"value", Dim(1)}, {"dtype", DType::kI64}}}).contents, (Contents{1, 1}));
}

TEST(ContentsRules, DivisionRounds) {
  const Attributes trunc = {{"rounding", std::string("trunc")}}, floor = {{"rounding", std::string("floor")}};
  EXPECT_EQ(type_of({"div", {list("-7,7,6*batch"), list("2")}, trunc}).contents,
            (Contents{-3, 3, Dim(3) * Dim::symbol("batch")}));
  EXPECT_EQ(type_of({"div", {list("-7,7"), list("2")}, floor}).contents, (Contents{-4, 3}));
  EXPECT_FALSE(type_of({"div", {list("7"), list("0")}, trunc}).contents);
}

// `Where(Equal(s, -1), ones, s)` of the exporters' Expand.
TEST(ContentsRules, SizesAreAtLeastOne) {
  const ValueType equal = type_of({"eq", {list("batch,-1"), list("-1")}});
  EXPECT_EQ(equal.contents, (Contents{0, 1}));
  Operand condition;
  condition.type = equal;
  EXPECT_EQ(type_of({"where", {condition, list("1,1"), list("batch,9")}}).contents,
            (Contents{Dim::symbol("batch"), 1}));
  EXPECT_FALSE(type_of({"eq", {list("batch"), list("8")}}).contents);
}

TEST(ContentsRules, CutsOfSymbolicLength) {
  const Attributes first = {{"axes", dims("1")}, {"starts", dims("0")}, {"ends", dims("1")}};
  EXPECT_EQ(type_of({"slice", {f("batch,s")}, first}).shape, dims("batch,1"));
  const Attributes rest = {{"axes", dims("1")}, {"starts", dims("1")}, {"ends", dims("9223372036854775807")}};
  EXPECT_EQ(type_of({"slice", {f("batch,s")}, rest}).shape, dims("batch,s-1"));
  const Attributes far = {
      {"axes", dims("0,1")}, {"starts", dims("0,0")}, {"ends", dims("1000000000,1000000000")}};  // of tf2onnx
  EXPECT_EQ(type_of({"slice", {f("batch,s")}, far}).shape, dims("batch,s"));
  EXPECT_EQ(type_of({"slice", {f("batch,2000000000")}, far}).shape, dims("batch,1000000000"));
  const Attributes table = {{"axes", dims("0")}, {"starts", dims("0")}, {"ends", dims("s")}};
  const ValueType cut = type_of({"slice", {f("40,8")}, table});
  EXPECT_EQ(cut.shape, (Shape{min(Dim(40), Dim::symbol("s")), 8}));
  Operand rows;
  rows.type = cut;
  EXPECT_EQ(type_of({"add", {rows, f("batch,s,8")}}).shape, dims("batch,s,8"));
}

TEST(ContentsRules, UnknownOperandsGiveNone) {
  EXPECT_FALSE(type_of({"add", {i("3", 0, 1), list("1,2,3")}}).contents);
  EXPECT_FALSE(type_of({"cast", {list("1,2")}, {{"dtype", DType::kF32}}}).contents);
  EXPECT_FALSE(type_of({"range", {}, {{"limit", Dim(65)}}}).contents);
}

// --- errors

struct Bad {
  OpCase call;
  const char* message;
};

TEST(OpErrors, NameWhatDoesNotFit) {
  Operand half = f("batch,3");
  half.type.dtype = DType::kF16;
  Operand unknown = f("3");
  unknown.type.shape.reset();
  const Operand q = f("batch,2,3,4");
  const Attributes by_heads = {{"scale", 0.5}, {"order", dims("0,1,2,3")}};
  const Attributes causal = {{"scale", 0.5}, {"order", dims("0,1,2,3")}, {"causal", true}};
  const Bad cases[] = {
      {{"add", {f("batch,3"), f("4")}}, "shapes [batch,3] and [4] do not broadcast: 3 against 4"},
      {{"add", {f("batch,3"), f("8,3")}}, "batch against 8"},
      {{"add", {f("batch,3"), half}}, "operand 0 is f64, operand 1 is f16"},
      {{"layer_norm", {f("batch,3"), half}}, "operand 1 is f16"},
      {{"add", {f("batch,4"), f("4,batch")}}, "do not broadcast"},
      {{"add", {unknown, f("3")}}, "the rank of operand 0 is unknown"},
      {{"div", {list("4"), list("2")}}, "needs rounding"},
      {{"group_norm", {f("batch,6,4")}, {{"groups", Dim(4)}}}, "6 channels in 4 groups of equal size"},
      {{"group_norm", {f("batch,6,4"), f("2")}, {{"groups", Dim(2)}}},
       "operand 1 of shape [2] does not fit 6 channels"},
      {{"group_norm", {f("batch,6"), testing::none(), f("6")}, {{"groups", Dim(2)}}}, "a bias without a scale"},
      {{"logical_and", {i("3", 0, 1), i("3", 0, 1)}}, "it must be bool"},
      {{"erf", {i("3", 0, 1)}}, "it must be a float type"},
      {{"reshape", {f("batch,12")}, {{"shape", dims("8,12")}}}, "12*batch elements against 96"},
      {{"reshape", {f("3,5")}, {{"shape", dims("2,-1")}}}, "15 elements do not divide by 2"},
      {{"reshape", {f("0,5")}, {{"shape", dims("0,-1")}}}, "0 elements do not divide by 0"},
      {{"reshape", {f("3,4")}, {{"shape", dims("-1,-1")}}}, "more than one -1"},
      {{"reshape", {f("3,4"), i("2", 0, 1)}}, "do not follow from sizes and constants"},
      {{"permute", {f("3,4")}, {{"dims", dims("0")}}}, "dims has 1 entries for rank 2"},
      {{"permute", {f("3,4")}, {{"dims", dims("0,0")}}}, "axis 0 is named twice"},
      {{"squeeze", {f("3,4")}, {{"axes", dims("1")}}}, "cannot be squeezed"},
      {{"concat", {f("batch,3"), f("batch,3,1")}, {{"axis", Dim(1)}}}, "operand 1 of shape [batch,3,1] does not fit"},
      {{"split", {f("3,4")}, {{"axis", Dim(1)}, {"sizes", dims("3,2")}}, 2}, "add up to 5"},
      {{"split", {list("7,8")}, {{"axis", Dim(0)}, {"sizes", dims("-1,3")}}, 2}, "size -1 of [-1,3] is negative"},
      {{"slice", {f("3"), list("0"), list("2"), list("0"), list("0")}}, "step 0"},
      {{"slice", {list("4,5,6,7"), list("3,3"), list("4,4"), list("0,0")}}, "axis 0 is cut twice"},
      {{"softmax", {f("batch,3")}, {{"axis", Dim(2)}}}, "axis 2 is outside of rank 2"},
      {{"full", {list("-5")}}, "size -5 of [-5] is negative"},
      {{"full", {}, {{"shape", dims("2,-5")}, {"value", Dim(1)}, {"dtype", DType::kI64}}}, "size -5 of [2,-5]"},
      {{"expand", {f("3"), list("-2,3")}}, "size -2 of [-2,3] is negative"},
      {{"tile", {f("3"), list("-2")}}, "size -2 of [-2] is negative"},
      {{"reshape", {f("2,3")}, {{"shape", dims("-2,-3")}}}, "size -2 of [-2,-3] is negative"},
      {{"pad", {f("2,3")}, {{"pads", dims("-3,0,0,0")}}}, "size -1 of [-1,3] is negative"},
      {{"range", {}, {{"limit", 1e30}}}, "range from 0 to 1e+30 by 1 has 1e+30 elements"},
      {{"range", {}, {{"limit", HUGE_VAL}}}, "has inf elements"},
      {{"range", {}, {{"limit", std::nan("")}}}, "has nan elements"},
      {{"range", {}, {{"limit", Dim(INT64_MAX)}, {"start", Dim(INT64_MIN)}}}, "elements"},
      {{"range", {}, {{"limit", Dim::symbol("batch")}, {"start", 0.5}}}, "a symbolic bound needs integers"},
      {{"matmul", {f("batch,3"), f("4,5")}}, "inner sizes 3 and 4 differ"},
      {{"linear", {f("batch,3"), f("5,4")}}, "3 features against 4"},
      {{"linear", {f("batch,4"), f("5,4"), f("4")}}, "bias [4] does not fit 5"},
      {{"conv", {f("batch,3,8,8"), f("4,2,3,3")}}, "does not fit weight"},
      {{"conv", {f("batch,2,2,8"), f("4,2,3,3")}}, "a window of 3 does not fit extent 2"},
      {{"cross_entropy_sum", {f("batch,3"), i("batch,3", 0, 1)}, {{"axis", Dim(-1)}}}, "do not fit logits"},
      {{"mse_sum", {f("batch,3"), f("batch,4")}}, "differ"},
      {{"cross_entropy_sum", {f("batch,3"), i("batch", 0, 3), f("4")}}, "weights [4] do not fit 3 classes"},
      {{"cross_entropy_sum", {f("batch,3"), i("batch", 0, 3)}, {{"label_smoothing", 1.5}}}, "label_smoothing is 1.5"},
      {{"huber_sum", {f("batch,3"), f("batch,3")}, {{"delta", 0.0}}}, "delta is 0; it must be positive"},
      {{"huber_sum", {i("batch,3", 0, 2), i("batch,3", 0, 2)}}, "a prediction is i64, not a float"},
      {{"bce_with_logits_sum", {f("batch,3"), f("batch,3"), f("4")}}, "[4]"},
      {{"bce_with_logits_sum", {f("batch,1"), f("batch,1"), f("3")}}, "weights [3] do not stretch to logits [batch,1]"},
      {{"bce_with_logits_sum", {f("batch,3"), f("batch,3"), f("batch,3")}}, "positive_weights [batch,3] has samples"},
      {{"gather_elements", {f("2,5"), i("3,5", 0, 4)}, {{"axis", Dim(1)}}},
       "indices [3,5] reach beyond axis 0 of [2,5]"},
      {{"gather", {f("9,4"), i("batch", 0, 9)}, {{"padding_index", Dim(9)}}}, "padding_index 9 is no row of [9,4]"},
      {{"gather", {f("9,4"), i("batch", 0, 4)}, {{"axis", Dim(1)}, {"padding_index", Dim(0)}}}, "a table of rank 2"},
      {{"clamp", {f("batch,3")}, {{"min", 0.0}, {"strict", true}}}, "strict bounds are two"},
      {{"clamp", {i("batch,3", 0, 2)}, {{"min", Dim(0)}, {"max", Dim(6)}, {"strict", true}}}, "not of i64"},
      {{"relu_grad", {f("batch,3"), f("batch,4")}}, "a gradient of shape [batch,3] where the result has [batch,4]"},
      {{"where_grad", {f("batch,1"), testing::b("4")}}, "operand 1 of shape [4] does not stretch to the result's"},
      {{"where_grad", {f("batch,4"), f("4")}}, "the condition is f64"},
      {{"maximum_grad", {f("3"), f("3"), f("2,3")}}, "operand 2 of shape [2,3] does not stretch"},
      {{"prod_grad", {f("batch,3"), f("batch,3")}, {{"axes", dims("1")}}}, "where the result has [batch]"},
      {{"attention", {f("batch,2,3,4"), f("batch,2,3,4"), f("batch,2,3,5")}, by_heads, 2}, "has no log_sums"},
      {{"attention", {f("batch,2,3,4"), f("batch,2,0,4"), f("batch,2,0,4")}, by_heads, 2}, "has no log_sums"},
      {{"attention", {q, q, q, f("3,3")}, causal}, "causal attention has no other mask"},
      {{"attention", {q, f("batch,2,5,4"), f("batch,2,5,4")}, causal}, "causal attention of 3 queries and 5 keys"},
      {{"attention_grad", {q, q, q, q, q, f("batch,2,1")}, by_heads, 3}, "operand 5 has shape [batch,2,1] where"},
      {{"attention_grad", {f("batch,3,2,4"), q, q, q, q, f("batch,2,3")}, by_heads, 3}, "a gradient of shape"},
      {{"slice_grad", {f("2")}, {{"sizes", dims("5")}, {"starts", dims("1")}, {"ends", dims("4")}}}, "has [3]"},
      {{"pad_grad", {f("3,4")}, {{"sizes", dims("3,4")}, {"pads", dims("0,1,0,0")}, {"mode", std::string("edge")}}},
       "where the result has [3,5]"},
  };
  for (const Bad& bad : cases) {
    const auto types = infer(bad.call);
    ASSERT_FALSE(types.ok()) << describe(bad.call);
    EXPECT_THAT(types.diagnostic().message, HasSubstr(bad.message));
  }
}

// What a file may hold: far, negative and absent numbers wherever an operator takes an integer.
TEST(OpErrors, ExtremeNumbersEndInTypesOrADiagnostic) {
  const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -(int64_t{1} << 40), -1, 0, 1, int64_t{1} << 40, INT64_MAX};
  size_t accepted = 0, refused = 0;
  const auto judge = [&](const OpCase& c) {
    SCOPED_TRACE(describe(c));
    EXPECT_NO_THROW((infer(c).ok() ? accepted : refused) += 1);
  };
  const auto replaced = [](Shape list, size_t at, int64_t by) {
    list[at] = by;
    return list;
  };
  for (const OpCase& c : op_cases()) {
    for (const int64_t extreme : extremes) {
      for (const auto& [name, value] : c.attributes) {
        OpCase changed = c;
        if (std::holds_alternative<Dim>(value)) {
          changed.attributes.set(name, Dim(extreme));
          judge(changed);
        }
        const Shape* list = std::get_if<Shape>(&value);
        for (size_t k = 0; list != nullptr && k < list->size(); ++k) {
          changed.attributes.set(name, replaced(*list, k, extreme));
          judge(changed);
        }
      }
      for (size_t operand = 0; operand < c.operands.size(); ++operand) {
        const auto& contents = c.operands[operand].type.contents;
        for (size_t k = 0; contents && k < contents->size(); ++k) {
          OpCase changed = c;
          changed.operands[operand].type.contents = replaced(*contents, k, extreme);
          judge(changed);
        }
      }
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

Operand of_type(ValueType type) {
  Operand operand;
  operand.type = std::move(type);
  return operand;
}

TEST(OpTypes, MiniBatchesOneAfterAnotherAreCutWhereTheyMeet) {
  const Operand both = of_type(type_of({"concat", {f("batch,3"), f("batch,3")}, {{"axis", Dim(0)}}}));
  EXPECT_EQ(both.type.batch, (BatchLayout{0, 2, 1}));
  const auto slice = [&](const char* start, const char* end) {
    return infer({"slice", {both}, {{"axes", dims("0")}, {"starts", dims(start)}, {"ends", dims(end)}}});
  };
  const auto split = [&](const char* sizes) {
    return infer({"split", {both}, {{"axis", Dim(0)}, {"sizes", dims(sizes)}}, 2});
  };
  const BatchLayout one{0, 1, 1};
  for (const ValueType& half : split("batch,batch").value()) EXPECT_EQ(half.batch, one);
  EXPECT_EQ(slice("0", "batch").value()[0].batch, one);
  EXPECT_EQ(slice("batch", "9223372036854775807").value()[0].batch, one);
  EXPECT_EQ(slice("-batch", "9223372036854775807").value()[0].batch, one);
  for (const auto& refused : {slice("1", "batch"), slice("0", "batch-1"), split("1,2*batch-1"), split("0,2*batch")}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.diagnostic().message, HasSubstr("would mix the samples"));
  }
}

TEST(OpTypes, GradientsOfCutMiniBatchesLieWhereTheyWere) {
  const Operand gradient = f("batch,3");
  const auto slice = infer(
      {"slice_grad",
       {gradient},
       {{"sizes", dims("2*batch,3")}, {"axes", dims("0")}, {"starts", dims("batch")}, {"ends", dims("2*batch")}}});
  ASSERT_TRUE(slice.ok()) << slice.diagnostic().str();
  EXPECT_EQ((*slice)[0].batch, (BatchLayout{0, 2, 1}));
  const auto padded = infer({"pad", {gradient}, {{"pads", dims("batch,0,0,0")}}});
  ASSERT_TRUE(padded.ok()) << padded.diagnostic().str();
  EXPECT_EQ((*padded)[0].batch, (BatchLayout{0, 2, 1}));
}

TEST(OpErrors, MixingSamplesIsNamed) {
  const Bad cases[] = {
      {{"amax", {f("batch,3")}}, "amax over axis 0 of [batch,3] would mix the samples"},
      {{"prod", {f("batch,3")}, {{"axes", dims("0")}}}, "prod over axis 0"},
      {{"softmax", {f("3,batch")}, {{"axis", Dim(-1)}}}, "softmax over axis 1"},
      {{"cumsum", {f("batch,3")}, {{"axis", Dim(0)}}}, "cumsum over axis 0"},
      {{"argmax", {f("batch,3")}, {{"axis", Dim(0)}}}, "argmax over axis 0"},
      {{"concat", {f("batch,3"), f("2,3")}, {{"axis", Dim(0)}}}, "concat over axis 0"},
      {{"concat", {f("batch,3"), f("2*batch,3")}, {{"axis", Dim(0)}}}, "concat over axis 0"},
      {{"slice", {f("batch,3"), list("0"), list("1")}}, "slice over axis 0"},
      {{"split", {f("batch,3")}, {{"axis", Dim(0)}, {"sizes", dims("1,1")}}, 2}, "split over axis 0"},
      {{"pad", {f("batch,3")}, {{"pads", dims("1,0,0,0")}}}, "pad over axis 0"},
      {{"layer_norm", {f("batch,3")}, {{"axis", Dim(0)}}}, "layer_norm over axis 0"},
      {{"group_norm", {f("6,batch,3")}, {{"groups", Dim(2)}}}, "group_norm needs them on axis 0"},
      {{"trilu", {f("batch,3")}}, "trilu over axis 0"},
      {{"gather", {f("batch,3"), list("0")}, {{"axis", Dim(0)}}}, "gather picks samples along axis 0"},
      {{"gather_nd", {f("batch,3"), i("2,1", 0, 1)}}, "gather_nd picks samples along axis 0"},
      {{"gather", {f("batch,3"), i("batch", 0, 1)}, {{"axis", Dim(1)}}}, "pair samples with samples"},
      {{"gather_elements", {f("1,5"), i("batch,3", 0, 4)}, {{"axis", Dim(1)}}},
       "x has no samples on the axis where indices has them"},
      {{"gather_elements", {f("9,5"), i("batch,3", 0, 4)}, {{"axis", Dim(1)}}}, "pair each sample with its own number"},
      {{"gather_elements", {f("batch,5"), i("1,3", 0, 4)}, {{"axis", Dim(1)}}},
       "indices has no samples on the axis where x has them"},
      {{"gather_elements", {f("2*batch,5"), i("batch,3", 0, 4)}, {{"axis", Dim(1)}}}, "pair samples with samples"},
      {{"matmul", {f("batch"), f("batch,4")}}, "contracts over the samples of a vector"},
      {{"linear", {f("batch,4"), f("batch,4")}}, "the operands of linear have their samples on axes 0 and 1"},
      {{"linear", {f("batch,4"), f("5,4"), f("batch")}}, "bias"},
      {{"linear", {f("4"), f("batch,4")}}, "linear of a vector"},
      {{"linear", {f("3,batch"), f("5,batch"), f("5")}}, "adds a bias to a sum over samples"},
      {{"expand", {f("batch,1"), list("batch,batch")}}, "pair samples with samples"},
      {{"full", {list("batch,batch")}}, "counts samples on axes 0 and 1"},
      {{"reshape", {f("4,batch,3")}, {{"shape", dims("3,batch,4")}}}, "leaves no axis that holds whole samples"},
      {{"permute", {f("3,batch")}, {{"dims", dims("2,0")}}}, "axis 2 is outside"},
      {{"conv", {f("3,batch,8"), f("4,2,3")}}, "does not fit weight"},
      {{"max_pool", {f("3,batch,8")}, {{"kernel", dims("2")}}}, "samples are on axis 1"},
  };
  for (const Bad& bad : cases) {
    const auto types = infer(bad.call);
    ASSERT_FALSE(types.ok()) << describe(bad.call);
    EXPECT_THAT(types.diagnostic().message, HasSubstr(bad.message));
  }
}

TEST(OpErrors, AreLocatedAndCheckArity) {
  Graph graph;
  graph.set_batch_symbol("batch");
  const ValueId x = graph.add_value(ValueKind::kInput, "x", f("batch,3").type);
  const std::vector<ValueId> one = {x};
  const std::vector<std::string> names = {"y"};
  const TaskId lone = graph.add_task(core("add"), one, {}, names, {"m.onnx", 0, 0, "node_7"});
  const auto found = infer_types(graph, lone);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().where.node, "node_7");
  EXPECT_THAT(found.diagnostic().message, HasSubstr("core.add takes 2 to 2 operands, found 1"));
}

// --- what a rule assumes

Dim size(std::string_view text) { return Dim::parse(text).value(); }

Operand shaped(Shape shape) {
  Operand operand;
  operand.type.dtype = DType::kF64;
  operand.type.shape = std::move(shape);
  return operand;
}

struct Assumed {
  const char* what;
  OpCase call;
  Shape result;
  std::vector<Equality> equalities;  ///< empty: the rule fails
};

// An equality or a sign that sizes leave open is taken, and said; never one that speaks of the samples.
TEST(OpAssumptions, AreWhatTheRuleCannotProve) {
  const Dim s = Dim::symbol("s"), batch = Dim::symbol("batch"), cut = size("min(40, s)"), half = size("s//2");
  const auto slice = [](const Dim& start, const Dim& end) {
    return Attributes{{"axes", dims("0")}, {"starts", Shape{start}}, {"ends", Shape{end}}};
  };
  const auto split = [](Shape sizes) { return Attributes{{"axis", Dim(0)}, {"sizes", std::move(sizes)}}; };
  const Assumed cases[] = {
      {"a table cut to a length", {"add", {shaped({cut}), shaped({s})}}, {s}, {{cut, s}}},
      {"in the other order", {"add", {shaped({s}), shaped({cut})}}, {s}, {{cut, s}}},
      {"a number", {"add", {shaped({half}), shaped({5})}}, {5}, {{5, half}}},
      {"impossible", {"add", {shaped({cut}), shaped({s + Dim(1)})}}, {}, {}},
      {"two names", {"add", {shaped({s}), shaped({Dim::symbol("t")})}}, {}, {}},
      {"of samples", {"add", {shaped({size("mod(batch, 4)")}), shaped({batch})}}, {}, {}},
      {"as many elements",
       {"reshape", {shaped({batch, cut, 6})}, {{"shape", Shape{batch, s, 3, 2}}}},
       {batch, s, 3, 2},
       {{cut, s}}},
      {"what is left", {"reshape", {shaped({s})}, {{"shape", dims("2,-1")}}}, {2, half}, {{size("2*(s//2)"), s}}},
      {"parts of a whole", {"split", {shaped({s})}, split({2, 4}), 2}, {2}, {{6, s}}},
      {"a part that may not be",
       {"split", {shaped({s})}, split({2, s - Dim(2)}), 2},
       {2},
       {{size("max(0, s - 2)"), s - Dim(2)}}},
      {"too many parts", {"split", {shaped({s})}, split({2, s}), 2}, {}, {}},
      {"a start that may be negative",
       {"slice", {shaped({100})}, slice(s - Dim(5), 100)},
       {Dim(100) - size("min(100, s - 5)")},
       {{size("max(0, s - 5)"), s - Dim(5)}}},
      {"a start that depends on the samples", {"slice", {shaped({100})}, slice(batch - Dim(5), 100)}, {}, {}},
  };
  for (const Assumed& c : cases) {
    SCOPED_TRACE(c.what);
    std::vector<const ValueType*> inputs;
    for (const Operand& operand : c.call.operands) inputs.push_back(&operand.type);
    std::vector<Equality> assumed;
    const OpInfo& op = core(c.call.op);
    const auto types = types_of({op, inputs, c.call.attributes, "batch", c.call.outputs, &assumed});
    ASSERT_EQ(types.ok(), !c.equalities.empty()) << (types.ok() ? str(*(*types)[0].shape) : types.diagnostic().str());
    EXPECT_FALSE(types_of({op, inputs, c.call.attributes, "batch", c.call.outputs}).ok());
    if (!types.ok()) continue;
    EXPECT_EQ(str(*(*types)[0].shape), str(c.result));
    ASSERT_FALSE(assumed.empty());
    EXPECT_EQ(assumed[0], c.equalities[0]) << assumed[0].first.str() << " = " << assumed[0].second.str();
  }
}

TEST(OpAssumptions, StandInTheGraphOnceWithTheFirstTaskThatNeedsThem) {
  Graph graph;
  const ValueId x = graph.add_value(ValueKind::kInput, "x", shaped({Dim::symbol("s")}).type);
  const ValueId y = graph.add_value(ValueKind::kInput, "y", shaped({size("min(40, s)")}).type);
  for (const char* node : {"first", "second"}) {
    const ValueId sum = graph.add(core("add"), {x, y}, {}, "", {"m.onnx", 0, 0, node});
    ASSERT_TRUE(infer_types(graph, graph.producer(sum)).ok());
  }
  const ValueId product = graph.add(core("mul"), {y, x}, {}, "", {"m.onnx", 0, 0, "third"});
  ASSERT_TRUE(infer_types(graph, graph.producer(product)).ok());
  ASSERT_EQ(graph.assumptions().size(), 1u);
  EXPECT_EQ(graph.assumptions()[0].where.node, "first");
  EXPECT_TRUE(check_assumptions(graph, {{"s", 40}}).ok());
  EXPECT_TRUE(check_assumptions(graph, {{"t", 41}}).ok());
  const auto broken = check_assumptions(graph, {{"s", 41}});
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.diagnostic().str(),
            "m.onnx: 'first': error: the model assumes that min(40, s) equals s; with s = 41 they are 40 and 41");
}

// --- work

TEST(OpWork, CountsMultiplyAddsTwice) {
  Graph graph;
  graph.set_batch_symbol("batch");
  const ValueId x = graph.add_value(ValueKind::kInput, "x", f("batch,3,4").type);
  const ValueId w = graph.add_value(ValueKind::kParameter, "w", f("5,4").type);
  const ValueId y = graph.add(core("linear"), {x, w});
  const TaskId task = graph.value(y).producer;
  ASSERT_TRUE(infer_types(graph, task).ok());
  const Dim batch = Dim::symbol("batch");
  EXPECT_EQ(work_of(graph, task).flops, batch * Dim(3 * 4 * 5 * 2));
  EXPECT_EQ(work_of(graph, task).bytes, batch * Dim(8 * (12 + 15)) + Dim(8 * 20));
  const ValueId joined = graph.add(core("concat"), {y, y}, {{"axis", Dim(1)}});
  ASSERT_TRUE(infer_types(graph, graph.value(joined).producer).ok());
  EXPECT_EQ(work_of(graph, graph.value(joined).producer).bytes, batch * Dim(8 * 15 * 4));
}

}  // namespace
}  // namespace rannc::ir
