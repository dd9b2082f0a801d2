// Loop rules as text: the statements of every rule are read as they were printed, and what is no text is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/graph/assumptions.h"
#include "ir/op/loops/loops.h"
#include "tests/ir/op/op_cases.h"

namespace rannc::ir {
namespace {

using ::testing::HasSubstr;
using testing::op_cases;
using testing::OpCase;

/// The rule of a call.
std::optional<ops::LoopRule> rule_of(const OpCase& c) {
  const OpInfo& op = core(c.op);
  std::vector<const ValueType*> in, out;
  for (const testing::Operand& operand : c.operands) in.push_back(operand.absent ? nullptr : &operand.type);
  std::vector<Equality> assumed;
  const std::vector<ValueType> types = types_of({op, in, c.attributes, "batch", c.outputs, &assumed}).value();
  for (const ValueType& type : types) out.push_back(&type);
  return ops::loop_rule(LowerCall(op, in, out, c.attributes));
}

TEST(LoopText, EveryRuleIsReadAsItWasPrinted) {
  std::set<std::string_view> missing;
  for (const auto table : {ops::elementwise_loops(), ops::row_loops(), ops::loss_loops()}) {
    for (const ops::LoopRow& row : table) missing.insert(row.name);
  }
  for (const OpCase& c : op_cases()) {
    const auto rule = rule_of(c);
    if (!rule) continue;
    missing.erase(core(c.op).name);
    const std::string text = print(rule->body);
    const auto read = parse_loop_body(text, "loop");
    ASSERT_TRUE(read.ok()) << read.diagnostic().str() << " in " << text;
    EXPECT_EQ(*read, rule->body) << text;
    EXPECT_EQ(print(*read), text);
  }
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

TEST(LoopText, NamesOperandsStatementsAndResults) {
  const OpCase layer_norm{
      "layer_norm", {testing::f("batch,24"), testing::f("24"), testing::none()}, {{"epsilon", 0.5}}, 3};
  EXPECT_EQ(print(rule_of(layer_norm)->body),
            "{row_sum x0; row y1 (div s0 n); row_sum (mul (sub x0 s1) (sub x0 s1)); "
            "row y2 (div 0x1p+0 (sqrt (add (div s2 n) 0x1p-1))); each y0 (mul (mul (sub x0 s1) s3) x1)}");
}

TEST(LoopText, MarksNoResultThatTheTaskDoesNotHave) {
  const OpCase layer_norm{"layer_norm", {testing::f("batch,24"), testing::none(), testing::none()}};
  const LoopBody body = rule_of(layer_norm)->body;
  for (size_t i = 0; i < body.size(); ++i) {
    EXPECT_EQ(body[i].result, i + 1 == body.size() ? std::optional(0U) : std::nullopt) << i;
  }
}

// Numbers of formulas are doubles.
TEST(LoopText, HasNoRuleOfALabelThatRounds) {
  OpCase loss{"cross_entropy_sum", {testing::f("12,24"), testing::i("12", 0, 24)}, {{"ignore_index", Dim(1L << 53)}}};
  EXPECT_TRUE(rule_of(loss));
  loss.attributes.set("ignore_index", Dim((1L << 53) + 1));
  EXPECT_FALSE(rule_of(loss));
}

TEST(LoopText, KeepsEveryNumber) {
  for (const char* number : {"0x1.999999999999ap-4", "-0x0p+0", "0xinf", "-0xinf", "0x0.0000000000001p-1022"}) {
    const std::string text = fmt::format("{{each y0 (select (lt column x1) x0 {})}}", number);
    EXPECT_EQ(print(parse_loop_body(text, "loop").value()), text);
  }
}

TEST(LoopText, RefusesWhatIsNoStatement) {
  std::string deep = "x0";
  for (int i = 0; i < 1000; ++i) deep = fmt::format("(neg {})", deep);
  const std::pair<std::string, const char*> cases[] = {
      {"{each y0 (add x0 s0)}", "1:18: error: expected an earlier statement"},
      {"{each y0 (pow x0 x1)}", "expected an operation, found \"pow\""},
      {"{each y0 (add x0)}", "expected an operand, a statement or a number"},
      {"{each y0 (neg x0 x1)}", "expected `)`"},
      {"{each y0 (add 0x1p+0 0x1p+0)}", "expected an operand that is not a number"},
      {"{some y0 x0}", "expected a kind of statement, found \"some\""},
      {"{}", "expected a kind of statement"},
      {"{each y0 x0} x1", "expected the end"},
      {fmt::format("{{each y0 {}}}", deep), "expected a smaller expression"}};
  for (const auto& [text, message] : cases) {
    const auto read = parse_loop_body(text, "loop");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.diagnostic().str(), HasSubstr(message)) << text;
  }
}

// C++ would compute them as integers or doubles.
TEST(LoopTerms, ComputeNothingOfNumbersAlone) {
  EXPECT_THROW(ops::Term(1) / 2, InternalError);
  EXPECT_NO_THROW(ops::n / 2);
}

}  // namespace
}  // namespace rannc::ir
