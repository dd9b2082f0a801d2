// Einsum: its equations against numbers of the definition, where samples go, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/support/imported_graph.h"
#include "tests/frontend/support/numbers_of.h"

namespace rannc::frontend {
namespace {

using test::ImportedGraph;
using test::numbers_of;
using test::refusal;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// One operand [2, 2] = {1, 2, 3, 4}, or two, the other [2, 2] = {5, 6, 7, 8}.
std::vector<double> computed(const std::string& equation, const std::string& result, bool two = false) {
  return numbers_of("agraph () => (float" + result +
                        " y) <float[2, 2] a = {1, 2, 3, 4}, float[2, 2] b = {5, 6, 7, 8}>"
                        " { y = Einsum <equation = \"" +
                        equation + "\"> (a" + (two ? ", b" : "") + ") }",
                    12);
}

TEST(Einsum, OfOneOperand) {
  EXPECT_THAT(computed("ij->ji", "[2, 2]"), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(computed("ij->i", "[2]"), ElementsAre(3, 7));
  EXPECT_THAT(computed("ij->", ""), ElementsAre(10));
  EXPECT_THAT(computed("ii->i", "[2]"), ElementsAre(1, 4));
  EXPECT_THAT(computed("ii", ""), ElementsAre(5));
  EXPECT_THAT(computed("ba", "[2, 2]"), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(computed("...j->...", "[2]"), ElementsAre(3, 7));
}

TEST(Einsum, OfTwoOperands) {
  EXPECT_THAT(computed("ij,jk->ik", "[2, 2]", true), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(computed("ij,jk", "[2, 2]", true), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(computed("ij,ij->ij", "[2, 2]", true), ElementsAre(5, 12, 21, 32));
  EXPECT_THAT(computed("ij,ij->", "", true), ElementsAre(70));
  EXPECT_THAT(computed("ij,ik->jk", "[2, 2]", true), ElementsAre(26, 30, 38, 44));
  EXPECT_THAT(computed("ij, kl -> ik", "[2, 2]", true), ElementsAre(33, 45, 77, 105));
  EXPECT_THAT(computed("ii,jj->ij", "[2, 2]", true), ElementsAre(5, 8, 20, 32));
  EXPECT_THAT(computed("i...,i...->...", "[2]", true), ElementsAre(26, 44));
}

TEST(Einsum, OfManyOperandsAndOfIntegers) {
  EXPECT_THAT(numbers_of("agraph () => (float[2] y) <float[2] a = {1, 2}, float[2, 3] b = {1, 2, 3, 4, 5, 6},"
                         " float[3, 2] c = {1, 0, 2, 1, 0, 3}> { y = Einsum <equation = \"i,ij,jk->k\"> (a, b, c) }",
                         12),
              ElementsAre(33, 57));
  EXPECT_THAT(numbers_of("agraph () => (int64[2, 1] y) <int64[2, 2] a = {1, 2, 3, 4}, int64[2, 1] b = {5, 6}>"
                         " { y = Einsum <equation = \"ij,jk\"> (a, b) }",
                         12),
              ElementsAre(17, 39));
}

TEST(Einsum, StretchesAxesOfOne) {
  EXPECT_THAT(numbers_of("agraph () => (float[2, 3] y) <float[2, 1] a = {1, 2}, float[3] b = {1, 2, 3}>"
                         " { y = Einsum <equation = \"...,...->...\"> (a, b) }",
                         12),
              ElementsAre(1, 2, 3, 2, 4, 6));
  const auto with_ones = [](const std::string& equation, const std::string& result) {
    return numbers_of("agraph () => (float" + result + " y) <float[1, 2, 1] a = {2, 3}, float[1, 1, 2] b = {5, 7}>" +
                          " { y = Einsum <equation = \"" + equation + "\"> (a, b) }",
                      12);
  };
  EXPECT_THAT(with_ones("bij,bjk->bik", "[1, 2, 2]"), ElementsAre(10, 14, 15, 21));
  EXPECT_THAT(with_ones("bij,bjk->ki", "[2, 2]"), ElementsAre(10, 15, 14, 21));
  EXPECT_THAT(with_ones("bij,cji->bc", "[1, 1]"), ElementsAre(31));
}

TEST(Einsum, KeepsTheAxisOfTheSamples) {
  const ImportedGraph heads(
      "agraph (float[batch, s, 8] x, float[8, 2, 4] w) => (float[batch, 2, s, 4] y)"
      " { y = Einsum <equation = \"bsd,dhk->bhsk\"> (x, w) }",
      12);
  EXPECT_EQ(heads.output(), "f32[batch,2,s,4] @0");
  EXPECT_THAT(heads.ops(), Contains("matmul"));
  const ImportedGraph scores(
      "agraph (float[batch, 2, s, 4] q, float[batch, 2, t, 4] k) => (float[batch, 2, s, t] y)"
      " { y = Einsum <equation = \"bhsd,bhtd->bhst\"> (q, k) }",
      12);
  EXPECT_EQ(scores.output(), "f32[batch,2,s,t] @0");
  EXPECT_THAT(scores.ops(), Contains("matmul"));
  const ImportedGraph scaled(
      "agraph (float[batch, 4] x, float[4] w) => (float[batch, 4] y)"
      " { y = Einsum <equation = \"bd,d->bd\"> (x, w) }",
      12);
  EXPECT_THAT(scaled.ops(), Not(Contains("matmul")));
  const ImportedGraph one(
      "agraph (float[1, 1, 5, 4] q, float[1, 1, 6, 4] k) => (float[1, 1, 5, 6] y)"
      " { y = Einsum <equation = \"bhsd,bhtd->bhst\"> (q, k) }",
      12);
  EXPECT_THAT(one.ops(), Not(Contains("squeeze"))) << "of one sample and one head, either may become any number";
  const ImportedGraph turned(
      "agraph (float[batch, 4] x) => (float[4, batch] y)"
      " { y = Einsum <equation = \"bd->db\"> (x) }",
      12);
  EXPECT_EQ(turned.output(), "f32[4,batch] @1");
}

TEST(Einsum, NamesWhatDoesNotFit) {
  const std::string head = "agraph (float[2, 3] a) => (float[2] y) ";
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"ijk->i\"> (a) }", 12),
              HasSubstr("\"ijk->i\" names 3 axes of operand 0, whose shape is [2,3]"));
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"ij,j->i\"> (a) }", 12),
              HasSubstr("one term for each operand"));
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"ij->k\"> (a) }", 12), HasSubstr("label 'k' is in no operand"));
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"ij->ii\"> (a) }", 12), HasSubstr("label 'i' is repeated"));
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"i1->i\"> (a) }", 12),
              HasSubstr("'i1' must consist of letters"));
  EXPECT_THAT(refusal(head + "{ y = Einsum <equation = \"ii->i\"> (a) }", 12),
              HasSubstr("the extents of the two axes differ"));
  EXPECT_THAT(
      refusal(
          "agraph (float[batch, 3] a, float[batch, 3] b) => (float[3, 3] y)"
          " { x = Einsum <equation = \"bi,bi->b\"> (a, a)\n z = Einsum <equation = \"bij->b\"> (b)\n y = Add (x, z) }",
          12),
      HasSubstr("names 3 axes"));
}

}  // namespace
}  // namespace rannc::frontend
