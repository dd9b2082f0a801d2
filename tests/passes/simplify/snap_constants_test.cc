// Numbers that a file rounds to float32 become what is meant, where operators that mean something read them.
#include "passes/simplify/snap_constants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/verify.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::short_graph;

constexpr double as_float(double number) { return static_cast<float>(number); }

bool snap(ir::Graph& graph) {
  PassContext context;
  const bool changed = SnapConstants().run(graph, context).value().changed;
  const auto wrong = ir::verify(graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  return changed;
}

/// The number that a task reads.
double number(const ir::Graph& graph, std::string_view made, size_t operand) {
  return ir::scalar_constant(graph, graph.inputs(graph.producer(graph.find(made)))[operand]).value();
}

std::string gelu(const std::string& more = "") {
  return fmt::format(
      "input x [batch,4] samples 0\nconstant root [] {:.17g}\nconstant one [] 1\nconstant half [] 0.5\ne = div(x, "
      "root)\ns = "
      "erf(e)\nr = add(s, one)\nw = mul(x, r)\ny = mul(w, half)\n{}",
      as_float(std::sqrt(2.0)), more.empty() ? "outputs y\n" : more);
}

TEST(SnapConstants, OfGeluByErf) {
  ir::Graph graph = short_graph(gelu());
  ASSERT_TRUE(snap(graph));
  EXPECT_EQ(number(graph, "e", 1), std::sqrt(2.0));
  EXPECT_EQ(number(graph, "r", 1), 1.0);
  EXPECT_FALSE(snap(graph)) << "the second time";
}

TEST(SnapConstants, OfGeluByTanh) {
  ir::Graph graph =
      short_graph(fmt::format("input x [batch,4] samples 0\nconstant cubic [] {:.17g}\nconstant factor [] "
                              "{:.17g}\nconstant one [] 1\nconstant half "
                              "[] 0.5\nconstant three [] 3\nc = pow(x, three)\nk = mul(c, cubic)\na = add(x, k)\nb = "
                              "mul(a, factor)\ns = tanh(b)\n"
                              "r = add(s, one)\nw = mul(x, half)\ny = mul(w, r)\noutputs y\n",
                              as_float(0.044715), as_float(std::sqrt(2 / M_PI))));
  ASSERT_TRUE(snap(graph));
  EXPECT_EQ(number(graph, "k", 1), 0.044715);
  EXPECT_EQ(number(graph, "b", 1), std::sqrt(2 / M_PI));
}

TEST(SnapConstants, OfEpsilons) {
  ir::Graph graph =
      short_graph(fmt::format("input x [batch,4] samples 0\nconstant eps [] {:.17g}\nconstant two [] 2\nm = mean(x) "
                              "{{axes=[-1], keepdim=true}}\nc = "
                              "sub(x, m)\nq = pow(c, two)\nv = mean(q) {{axes=[-1], keepdim=true}}\na = add(v, eps)\nr "
                              "= sqrt(a)\ny = div(c, r)\n"
                              "z = layer_norm(y) {{axis=-1, epsilon={:a}}}\noutputs z\n",
                              as_float(1e-5), as_float(1e-12)));
  ASSERT_TRUE(snap(graph));
  EXPECT_EQ(number(graph, "a", 1), 1e-5);
  EXPECT_EQ(std::get<double>(*graph.attributes(graph.producer(graph.find("z"))).find("epsilon")), 1e-12);
  EXPECT_FALSE(snap(graph)) << "the second time";
}

// 2^-23, which is the unit of float32, is what it says: no decimal is meant.
TEST(SnapConstants, LeavesPowersOfTwo) {
  ir::Graph graph = short_graph(
      fmt::format("input x [batch,4] samples 0\ny = rms_norm(x) {{axis=-1, epsilon={:a}}}\noutputs y\n", 0x1p-23));
  EXPECT_FALSE(snap(graph));
}

TEST(SnapConstants, LeavesExactNumbers) {
  ir::Graph graph = short_graph(
      "input x [batch,4] samples 0\ny = layer_norm(x) {axis=-1, epsilon=0x1.4f8b588e368f1p-17}\noutputs y\n");
  EXPECT_FALSE(snap(graph));
}

TEST(SnapConstants, LeavesGraphsOfFloat32) {
  ir::Graph graph = short_graph(gelu(), "f32");
  EXPECT_FALSE(snap(graph));
}

TEST(SnapConstants, LeavesReadersOutside) {
  ir::Graph graph = short_graph(gelu("z = mul(x, root)\nu = add(z, root)\noutputs y u\n"));
  ASSERT_TRUE(snap(graph));
  EXPECT_EQ(number(graph, "e", 1), std::sqrt(2.0));
  EXPECT_EQ(number(graph, "z", 1), as_float(std::sqrt(2.0)));
  EXPECT_EQ(number(graph, "u", 1), as_float(std::sqrt(2.0)));
}

TEST(SnapConstants, LeavesTheSameNumberElsewhere) {
  ir::Graph graph =
      short_graph(fmt::format("input x [batch,4] samples 0\nconstant root [] {:.17g}\ny = div(x, root)\noutputs y\n",
                              as_float(std::sqrt(2.0))));
  EXPECT_FALSE(snap(graph));
}

// A number in every place of a tensor whose sizes are symbols has no bytes to change.
TEST(SnapConstants, LeavesFilledTensors) {
  ir::Graph graph = short_graph(fmt::format(
      "input x [batch,4] samples 0\nconstant one [] 1\nconstant half [] 0.5\nroot = full() {{shape=[batch,1], "
      "value={:a}, "
      "dtype=!f64}}\ne = div(x, root)\ns = erf(e)\nr = add(s, one)\nw = mul(x, r)\ny = mul(w, half)\noutputs y\n",
      as_float(std::sqrt(2.0))));
  EXPECT_FALSE(snap(graph));
}

}  // namespace
}  // namespace rannc::passes
