// Expressions of loops as C++: the tree that C++ reads is the tree that was printed, and numbers keep their bits.
#include "codegen/internal/native_expression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/op/loop.h"

namespace rannc::codegen {
namespace {

std::string printed(const std::string& text) {
  const ir::LoopBody body = ir::parse_loop_body(fmt::format("{{each x9; each y0 {}}}", text), "loop").value();
  return native_expression(body[1].expression, [](const ir::LoopNode& node) {
    return fmt::format("{}{}", node.op == ir::LoopOp::kOperand ? "i" : "s", node.index);
  });
}

TEST(NativeExpression, HasTheParenthesesThatTheTreeNeeds) {
  const std::pair<const char*, const char*> cases[] = {
      {"(sub (sub x0 x1) x2)", "i0 - i1 - i2"},
      {"(sub x0 (sub x1 x2))", "i0 - (i1 - i2)"},
      {"(add x0 (add x1 x2))", "i0 + (i1 + i2)"},  // sums of floats do not associate
      {"(mul (mul x0 x1) x2)", "i0 * i1 * i2"},
      {"(mul x0 (div x1 x2))", "i0 * (i1 / i2)"},
      {"(add (mul x0 x1) (div x2 s0))", "i0 * i1 + i2 / s0"},
      {"(mul (add x0 x1) x2)", "(i0 + i1) * i2"},
      {"(neg (neg x0))", "-(-i0)"},  // `--` is another operator
      {"(neg (mul x0 x1))", "-(i0 * i1)"},
      {"(mul (neg x0) x1)", "-i0 * i1"},
      {"(sub x0 (neg x1))", "i0 - -i1"},
      {"(not (lt x0 x1))", "!(i0 < i1)"},
      {"(eq (lt x0 x1) (ge x0 x1))", "i0 < i1 == i0 >= i1"},
      {"(lt x0 (add x1 x2))", "i0 < i1 + i2"},
      {"(and (or x0 x1) (xor x2 x3))", "(i0 | i1) & (i2 ^ i3)"},
      {"(or (and x0 x1) (xor x2 x3))", "i0 & i1 | i2 ^ i3"},
      {"(select (ne column x1) (max x0 n) (log1p (exp x0)))", "select(column != i1, max(i0, n), log1p(exp(i0)))"},
      {"(neg (abs x0))", "-abs(i0)"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(printed(text), expected) << text;
}

TEST(NativeExpression, PrintsNumbersThatHaveTheirBits) {
  const std::pair<double, const char*> cases[] = {
      {1, "1"}, {-3, "-3"}, {0.7978845608028654, "0.7978845608028654"}, {1e300, "1e+300"}, {-0.0, "-0.0"}};
  for (const auto& [number, expected] : cases) {
    EXPECT_EQ(printed(fmt::format("(mul x0 {}0x{})", std::signbit(number) ? "-" : "",
                                  fmt::format("{:a}", std::abs(number)).substr(2))),
              fmt::format("i0 * {}", expected));
  }
  EXPECT_EQ(printed("(select (eq x0 -0xinf) 0xinf x0)"), "select(i0 == -INFINITY, INFINITY, i0)");
}

}  // namespace
}  // namespace rannc::codegen
