// Loops and branches as tasks with bodies give what they give written out, and the same gradients.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ir/op/op.h"
#include "runtime/aten/graph_run.h"
#include "runtime/aten/stored_tensor.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

/// Outputs, then gradients of the sum of their cosines by the inputs that are floats.
std::vector<at::Tensor> run(const ir::Graph& graph, const Tensors& inputs, const ir::Bindings& sizes) {
  runtime::GraphValues values(graph.value_count());
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : inputs) {
    const ValueId value = graph.find(name);
    if (!value.valid()) continue;
    at::Tensor leaf = tensor.detach().clone();
    const bool given = graph.random_input(value) == nullptr;
    if (given && leaf.is_floating_point()) leaves.push_back(leaf.set_requires_grad(true));
    values[value.index()] = leaf;
  }
  for (const ValueId value : graph.values()) {
    if (!graph.value(value).data.present()) continue;
    values[value.index()] = runtime::to_tensor({graph.type(value), graph.value(value).data}).value();
  }
  const auto ran = runtime::run_graph(graph, {.sizes = sizes}, values);
  EXPECT_TRUE(ran.ok()) << ran.diagnostic().str();
  if (!ran.ok()) return {};
  std::vector<at::Tensor> found;
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const ValueId output : graph.outputs()) {
    found.push_back(*values[output.index()]);
    sum = sum + found.back().cos().sum();
  }
  for (const at::Tensor& gradient : torch::autograd::grad({sum}, leaves, {}, false, false, /*allow_unused=*/true))
    found.push_back(gradient.defined() ? gradient : at::zeros({}));
  return found;
}

size_t tasks_with_bodies(const ir::Graph& graph) {
  size_t count = 0;
  for (const TaskId task : graph.tasks()) count += graph.op(task).fit != nullptr ? 1 : 0;
  return count;
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].sizes(), b[i].sizes()) << i;
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-12, 1e-12)) << i << "\n" << a[i] << "\nagainst\n" << b[i];
  }
}

void expect_same(const std::string& whole, const std::string& written_out, const Tensors& inputs,
                 const ir::Bindings& sizes, const ImportOptions& options = {}) {
  const auto task = test::import_graph(whole, 21, options), flat = test::import_graph(written_out, 21);
  ASSERT_TRUE(task.ok()) << task.diagnostic().str();
  ASSERT_TRUE(flat.ok()) << flat.diagnostic().str();
  EXPECT_GT(tasks_with_bodies(*task), 0U);
  EXPECT_EQ(tasks_with_bodies(*flat), 0U);
  expect_equal(run(*task, inputs, sizes), run(*flat, inputs, sizes));
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// A trip for each column of a table, number i, which makes the state n and the row o of the state s.
std::string loop_over_columns(const std::string& trip) {
  return R"(agraph (double[batch, 4] x, double[4, steps] table) => (double[batch, 4] y, double[steps, batch, 4] all)
    <int64[1] one = {1}> {
    shape = Shape (table)
    trips = Gather (shape, one)
    y, all = Loop (trips, "", x) <body = body (int64 i, bool go, double[batch, 4] s) => (bool more, double[batch, 4] n, double[batch, 4] o) {
)" + trip +
         R"(
      more = Identity (go)
    }>
  })";
}

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

TEST(ControlNumbers, AScanIsItsSteps) {
  at::manual_seed(3);
  const std::string text =
      R"(agraph (double[batch, steps, 4] x, double[batch, 4] h, double[4, 4] w) => (double[batch, 4] y, double[batch, steps, 4] all, double[steps, batch, 4] rows) {
    y, all, rows = Scan <num_scan_inputs = 2, scan_input_axes = [1, -2], scan_output_axes = [1, 0],
                         scan_input_directions = [1, 0], scan_output_directions = [0, 1],
        body = body (double[batch, 4] s, double[batch, 4] row, double[batch, 4] again) => (double[batch, 4] n, double[batch, 4] o, double[batch, 4] p) {
      fed = MatMul (s, w)
      both = Add (fed, row)
      n = Tanh (both)
      o = Mul (n, again)
      p = Add (o, row)
    }> (h, x, x)
  })";
  expect_same(text, replaced(text, "steps", "3"), {{"x", drawn({2, 3, 4})}, {"h", drawn({2, 4})}, {"w", drawn({4, 4})}},
              {{"batch", 2}, {"steps", 3}});
}

TEST(ControlNumbers, ALoopIsItsTrips) {
  at::manual_seed(4);
  // The number of the trip is data: it picks a row.
  const std::string text = loop_over_columns(R"(      row = Gather <axis = 1> (table, i)
      n = Mul (s, row)
      o = Sin (n)
)");
  expect_same(text, replaced(text, "steps", "5"), {{"x", drawn({2, 4})}, {"table", drawn({4, 5})}},
              {{"batch", 2}, {"steps", 5}});
}

TEST(ControlNumbers, ALoopDrawsOtherNumbersInEachTrip) {
  at::manual_seed(8);
  const std::string text = loop_over_columns(R"(      r = RandomNormalLike (s)
      n = Mul (s, r)
      o = Add (n, r)
)");
  const auto task = test::import_graph(text, 21), flat = test::import_graph(replaced(text, "steps", "3"), 21);
  ASSERT_TRUE(task.ok()) << task.diagnostic().str();
  ASSERT_TRUE(flat.ok()) << flat.diagnostic().str();
  ASSERT_EQ(tasks_with_bodies(*task), 1U);
  const at::Tensor rows = drawn({3, 2, 4});
  Tensors inputs = {{"x", drawn({2, 4})}, {"table", drawn({4, 3})}};
  const auto with_draws = [&](const ir::Graph& graph) {
    Tensors all = inputs;
    std::vector<std::string> names;
    for (const ValueId value : graph.values()) {
      if (graph.random_input(value) != nullptr) names.emplace_back(graph.value(value).name);
    }
    for (size_t i = 0; i < names.size(); ++i) all[names[i]] = names.size() == 1 ? rows : rows[static_cast<int64_t>(i)];
    return std::pair(names.size(), all);
  };
  const auto [one, whole] = with_draws(*task);
  const auto [three, parts] = with_draws(*flat);
  EXPECT_EQ(one, 1U);
  EXPECT_EQ(three, 3U);
  expect_equal(run(*task, whole, {{"batch", 2}, {"steps", 3}}), run(*flat, parts, {{"batch", 2}}));
}

TEST(ControlNumbers, ALoopEndsAsItsConditionSays) {
  at::manual_seed(5);
  // After three trips the state is beyond the limit.
  const std::string whole =
      R"(agraph (double[4] x, double[4] by) => (double[4] y) <double limit = {2.5}, bool yes = {1}> {
    y = Loop ("", yes, x) <body = body (int64 i, bool go, double[4] s) => (bool more, double[4] n) {
      n = Add (s, by)
      most = ReduceMax <keepdims = 0> (n)
      more = Less (most, limit)
    }>
  })";
  const std::string flat = R"(agraph (double[4] x, double[4] by) => (double[4] y) {
    a = Add (x, by)
    b = Add (a, by)
    y = Add (b, by)
  })";
  const at::Tensor x = at::tensor({0.0, -1.0, -2.0, -0.5}, at::kDouble),
                   by = at::tensor({0.9, 0.5, 0.1, 0.2}, at::kDouble);
  expect_same(whole, flat, {{"x", x}, {"by", by}}, {}, {.max_trips = 3});

  const auto few = test::import_graph(whole, 21, {.max_trips = 2});
  ASSERT_TRUE(few.ok());
  runtime::GraphValues values(few->value_count());
  for (const ValueId value : few->values()) {
    if (few->value(value).data.present())
      values[value.index()] = runtime::to_tensor({few->type(value), few->value(value).data}).value();
  }
  values[few->find("x").index()] = x;
  values[few->find("by").index()] = by;
  const auto ran = runtime::run_graph(*few, {.sizes = {}}, values);
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.diagnostic().message.find("a loop makes more than 2 trips"), std::string::npos);
}

TEST(ControlNumbers, ABranchIsTheOneThatItsConditionNames) {
  at::manual_seed(6);
  for (const bool holds : {true, false}) {
    const std::string branches = R"( {
      r = Sin (x)
      y = If (c) <then_branch = one () => (double[batch, 4] t) { t = MatMul (r, w) },
                  else_branch = two () => (double[batch, 4] e) { e = Mul (r, x) }>
    })";
    const std::string head = "agraph (double[batch, 4] x, double[4, 4] w";
    const std::string value = holds ? "1" : "0";
    expect_same(head + ", bool c) => (double[batch, 4] y)" + branches,
                head + ") => (double[batch, 4] y) <bool c = {" + value + "}>" + branches,
                {{"x", drawn({3, 4})}, {"w", drawn({4, 4})}, {"c", at::scalar_tensor(holds, at::kBool)}},
                {{"batch", 3}});
  }
}

}  // namespace
}  // namespace rannc::frontend
