// Calls of the dispatcher as tasks: text, verifier, types that follow the operands, lowering, gradient.
#include "ir/op/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/gradient/vjp.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::ir {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHead =
    "rannc.graph 1\nbatch batch\ninput %x: f32[batch,4,3] samples 0\nparameter %c: f32[5,3]\n";

std::string cdist(const std::string& result = "f32[batch,4,5] samples 0", const std::string& more = "") {
  return std::string(kHead) + "#0 %y: " + result +
         " = aten.cdist(%x, %c) {call.operands = \"x1 x2\", call.schema = \"aten::cdist\", call.types = "
         "\"f32[n,p,d] samples 0, f32[q,d] -> f32[n,p,q] samples 0\"" +
         more + "}\ninputs [%x]\noutputs [%y]\n";
}

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text, "test.rir");
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  return std::move(*graph);
}

std::string faults(const std::string& text) {
  std::string all;
  for (const Diagnostic& fault : verify(parsed(text))) all += fault.str() + "\n";
  return all;
}

TEST(Foreign, TextRoundTripsAndHolds) {
  const Graph graph = parsed(cdist("f32[batch,4,5] samples 0", ", p = 0x1p+0"));
  EXPECT_EQ(parsed(print(graph)).task_count(), 1U);
  EXPECT_TRUE(equal(graph, parsed(print(graph))));
  EXPECT_EQ(faults(print(graph)), "");
}

TEST(Foreign, CallAndAttributesAreOne) {
  ForeignCall call;
  call.schema = "mine::join.two";
  call.operands = {{"first", {}}, {"parts", 2}, {"mask", {}}};
  call.arguments = {{"size", Shape{Dim::symbol("batch"), 3}},
                    {"flag", true},
                    {"name", std::string("a")},
                    {"scales", std::vector<double>{0.5, 2}}};
  call.device = "device";
  call.none = {"dim", "other"};
  call.types = *parse_foreign_types("f32[a], _, i64[a,b] samples 1 outer [2], _ -> bool[], f32[2*a + 1] mixed");
  call.guessed = call.list = call.view = true;
  const Attributes attributes = foreign_attributes(call);
  const auto again = foreign_call(attributes);
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_EQ(foreign_attributes(*again), attributes);
  EXPECT_EQ(again->operands, call.operands);
  EXPECT_EQ(again->types, call.types);
  EXPECT_EQ(again->device, "device");
  EXPECT_EQ(again->none, call.none);
  EXPECT_TRUE(again->guessed && again->list && again->view);
  EXPECT_EQ(foreign_name(call.schema), "mine.join");
}

TEST(Foreign, TypesFollowTheOperands) {
  const ForeignCall call = *foreign_call(parsed(cdist()).attributes(TaskId(0)));
  const Dim seq = Dim::symbol("p"), rows = Dim::symbol("rows");  // `p` is one of the declared names, too
  const ValueType x{DType::kF64, Shape{rows, seq, 8}, {.axis = 0}, {}}, c{DType::kF64, Shape{7, 8}, {}, {}};
  const auto types = foreign_types(call, {&x, &c});
  ASSERT_TRUE(types.ok()) << types.diagnostic().str();
  EXPECT_EQ((*types)[0], (ValueType{DType::kF64, Shape{rows, seq, 7}, {.axis = 0}, {}}));

  const ValueType narrow{DType::kF32, Shape{7, 8}, {}, {}}, other{DType::kF64, Shape{7, 9}, {}, {}};
  const ValueType bare{DType::kF64, Shape{rows, seq, 8}, {}, {}}, flat{DType::kF64, Shape{rows, 8}, {.axis = 0}, {}};
  for (const auto& wrong : {std::pair(&x, &narrow), std::pair(&x, &other), std::pair(&bare, &c), std::pair(&flat, &c)})
    EXPECT_FALSE(foreign_types(call, {wrong.first, wrong.second}).ok());
  EXPECT_THAT(foreign_types(call, {&x, &other}).diagnostic().message,
              HasSubstr("operand 1 is f64[7,9]; its types are declared for f32[q,d]"));
  EXPECT_FALSE(foreign_types(call, {&x, nullptr}).ok());
  EXPECT_FALSE(foreign_types(call, {&x}).ok());
}

TEST(Foreign, VerifierNamesWhatIsWrong) {
  EXPECT_THAT(faults(cdist("f32[batch,4,6] samples 0")), HasSubstr("G8"));
  EXPECT_THAT(faults(cdist("f32[batch,4,5]")), HasSubstr("G8"));
  EXPECT_EQ(faults(cdist("f32[batch,4,5] samples 0", ", list = [0x1p+0]")), "");
  EXPECT_THAT(faults(cdist("f32[batch,4,5] samples 0", ", call.guessed = 1")), HasSubstr("G4"));
  EXPECT_THAT(faults(cdist("f32[batch,4,5] samples 0", ", x2 = 1")), HasSubstr("`x2` is given twice"));
  EXPECT_THAT(faults(std::string(kHead) + "#0 %y: f32[5] = aten.cdist(%x, %c)\ninputs [%x]\noutputs [%y]\n"),
              HasSubstr("needs attribute call.schema"));
  std::string text = cdist();
  text.replace(text.find("aten.cdist"), 10, "aten.other");
  EXPECT_THAT(faults(text), HasSubstr("it calls aten::cdist, which is aten.cdist"));
  text = cdist();
  text.replace(text.find("f32[n,p,q] "), 11, "f32[n,p,z] ");
  EXPECT_THAT(faults(text), HasSubstr("size `z` of a result"));
  text = cdist();
  text.replace(text.find("f32[q,d] ->"), 11, "f32[q,d]");
  EXPECT_THAT(faults(text), HasSubstr("call.types:"));
  text = cdist();
  text.replace(text.find("x1 x2"), 5, "x1");
  EXPECT_THAT(faults(text), HasSubstr("call.operands names 1 operands, call.types declares 2"));
}

TEST(Foreign, LowersToOneCall) {
  const Graph graph = parsed(cdist("f32[batch,4,5] samples 0", ", p = 0x1p+0"));
  const auto lowered = [](const Graph& of) {
    const auto inputs = type_list(of, of.inputs(TaskId(0))), outputs = type_list(of, of.outputs(TaskId(0)));
    return *lowering({of.op(TaskId(0)), inputs, outputs, of.attributes(TaskId(0))});
  };
  const aten::Lowering plain = lowered(graph);
  ASSERT_EQ(plain.calls.size(), 1U);
  EXPECT_EQ(plain.calls[0].schema, "aten::cdist");
  EXPECT_EQ(plain.calls[0].arguments[2], (aten::Argument{"p", 1.0}));
  const aten::Lowering careful =
      lowered(parsed(cdist("f32[batch,4,5] samples 0", ", call.guessed = true, call.view = true")));
  ASSERT_EQ(careful.calls.size(), 3U);
  EXPECT_EQ(careful.calls[1].schema, kForeignAssert);
  EXPECT_EQ(careful.calls[2].schema, "aten::clone");
  EXPECT_EQ(careful.results[0], (aten::Value{aten::Made{2, 0}}));
}

// What nobody saw the operator do is asserted.
TEST(Foreign, AnotherFloatTypeIsAsserted) {
  std::string text = cdist("f64[batch,4,5] samples 0");
  for (const char* type : {"f32[batch,4,3]", "f32[5,3]"}) text.replace(text.find(type), 3, "f64");
  const Graph graph = parsed(text);
  EXPECT_EQ(faults(text), "");
  const auto inputs = type_list(graph, graph.inputs(TaskId(0))), outputs = type_list(graph, graph.outputs(TaskId(0)));
  EXPECT_EQ(lowering({graph.op(TaskId(0)), inputs, outputs, graph.attributes(TaskId(0))})->calls.size(), 2U);
}

TEST(Foreign, OtherNamesAreUnknownOperators) {
  Graph graph;
  for (const char* name : {"vjp.core.gelu", "vjp.aten.cdist", "my op", "opaque", "a.b.c"})
    EXPECT_FALSE(graph.foreign_op(name).known()) << name;
  EXPECT_TRUE(graph.foreign_op("aten.cdist").known());
  EXPECT_TRUE(graph.foreign_op("mine.op").known());
}

}  // namespace
}  // namespace rannc::ir
