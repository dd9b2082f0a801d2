// Attention and its kin with a batch symbol: samples stay apart, numbers and gradients are those of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

struct Form {
  std::string name;
  int opset;
  std::string inputs;   ///< beside q, k, v, which are scaled by parameters
  std::string outputs;  ///< as the graph declares them
  std::string call;     ///< of qs, ks, vs
  Numbers more = {};    ///< of `inputs`
  std::string sizes = "batch, 4, 3, 8|batch, 4, 5, 8|batch, 4, 5, 8";
};

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

size_t count_of(const std::string& sizes) {
  size_t count = 3;  // samples
  const size_t of_sequence = sizes.find("seq");
  if (of_sequence != std::string::npos) {
    return count_of(sizes.substr(0, of_sequence) + "5" + sizes.substr(of_sequence + 3));
  }
  for (size_t at = sizes.find(','); at != std::string::npos; at = sizes.find(',', at + 1)) {
    count *= std::stoul(sizes.substr(at + 1));
  }
  return count;
}

class Attention : public ::testing::TestWithParam<Form> {};

TEST_P(Attention, KeepsSamplesApart) {
  const Form& form = GetParam();
  const std::vector<std::string> sizes = parts(form.sizes);
  const std::string graph = "agraph (float[" + sizes[0] + "] q, float[" + sizes[1] + "] k, float[" + sizes[2] +
                            "] v, float a, float b, float c" + form.inputs + ") => (" + form.outputs +
                            ") { qs = Mul (q, a)\n ks = Mul (k, b)\n vs = Mul (v, c)\n " + form.call + " }";
  Numbers inputs = form.more;
  inputs["q"] = spread(count_of(sizes[0]), 1);
  inputs["k"] = spread(count_of(sizes[1]), 2);
  inputs["v"] = spread(count_of(sizes[2]), 3);
  inputs["a"] = {1.5};
  inputs["b"] = {1.25};
  inputs["c"] = {0.75};
  const bool masked = form.inputs.find("float[3, 5] m") != std::string::npos;
  EXPECT_EQ(fault_of_samples(graph, form.opset, inputs, masked ? 4 : 3), "");
}

const std::string kY = "float[batch, 4, 3, 8] y";
const std::string kGrouped = "batch, 4, 3, 8|batch, 2, 5, 8|batch, 2, 5, 8";
const std::string kFlat = "batch, 3, 32|batch, 5, 32|batch, 5, 32";
const std::string kPast = ", float[batch, 4, 2, 8] pk, float[batch, 4, 2, 8] pv";
const std::string kPresent = kY + ", float[batch, 4, 7, 8] nk, float[batch, 4, 7, 8] nv";

std::vector<double> truths(size_t count) {
  std::vector<double> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = i % 5 == 0 || i % 3 == 1;
  return made;
}

std::vector<Form> forms() {
  const Numbers past = {{"pk", spread(192, 4)}, {"pv", spread(192, 5)}};
  std::vector<Form> all = {
      {"plain", 23, "", kY, "y = Attention (qs, ks, vs)"},
      {"scaled", 23, "", kY, "y = Attention <scale = 0.3> (qs, ks, vs)"},
      {"causal", 23, "", kY, "y = Attention <is_causal = 1> (qs, ks, vs)"},
      {"grouped", 23, "", kY, "y = Attention (qs, ks, vs)", {}, kGrouped},
      {"grouped_causal", 23, "", kY, "y = Attention <is_causal = 1> (qs, ks, vs)", {}, kGrouped},
      {"soft_capped", 23, "", kY, "y = Attention <softcap = 2.0> (qs, ks, vs)"},
      {"float_mask", 23, ", float[3, 5] m", kY, "y = Attention (qs, ks, vs, m)", {{"m", spread(15, 6)}}},
      {"float_mask_of_samples",
       23,
       ", float[batch, 1, 3, 5] m",
       kY,
       "y = Attention (qs, ks, vs, m)",
       {{"m", spread(45, 6)}}},
      {"bool_mask", 23, ", bool[3, 5] m", kY, "y = Attention (qs, ks, vs, m)", {{"m", truths(15)}}},
      {"bool_mask_of_samples",
       23,
       ", bool[batch, 4, 3, 5] m",
       kY,
       "y = Attention (qs, ks, vs, m)",
       {{"m", truths(180)}}},
      {"mask_of_keys", 23, ", bool[batch, 1, 1, 5] m", kY, "y = Attention (qs, ks, vs, m)", {{"m", truths(15)}}},
      {"mask_and_causal",
       23,
       ", bool[batch, 1, 3, 5] m",
       kY,
       "y = Attention <is_causal = 1> (qs, ks, vs, m)",
       {{"m", truths(45)}}},
      {"past", 23, kPast, kPresent, "y, nk, nv = Attention (qs, ks, vs, , pk, pv)", past},
      {"past_causal", 23, kPast, kPresent, "y, nk, nv = Attention <is_causal = 1> (qs, ks, vs, , pk, pv)", past},
      {"double_softmax", 23, "", kY, "y = Attention <softmax_precision = 11> (qs, ks, vs)"},
      {"flat",
       23,
       "",
       "float[batch, 3, 32] y",
       "y = Attention <q_num_heads = 4, kv_num_heads = 4> (qs, ks, vs)",
       {},
       kFlat},
      {"flat_grouped",
       23,
       "",
       "float[batch, 3, 32] y",
       "y = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1> (qs, ks, vs)",
       {},
       "batch, 3, 32|batch, 5, 16|batch, 5, 16"},
      {"unequal_heads",
       23,
       "",
       "float[batch, 4, 3, 6] y",
       "y = Attention (qs, ks, vs)",
       {},
       "batch, 4, 3, 8|batch, 4, 5, 8|batch, 4, 5, 6"},
      {"lengths", 24, ", int64[batch] n", kY, "y = Attention (qs, ks, vs, , , , n)", {{"n", {5, 2, 3}}}},
      {"sequence",
       23,
       "",
       "float[batch, 4, seq, 8] y",
       "y = Attention <is_causal = 1> (qs, ks, vs)",
       {},
       "batch, 4, seq, 8|batch, 2, seq, 8|batch, 2, seq, 8"},
      {"flat_sequence",
       24,
       ", bool[batch, 1, seq, seq] m",
       "float[batch, seq, 32] y",
       "y = Attention <q_num_heads = 4, kv_num_heads = 4> (qs, ks, vs, m)",
       {{"m", truths(75)}},
       "batch, seq, 32|batch, seq, 32|batch, seq, 32"},
      {"short_mask", 24, ", bool[3, 4] m", kY, "y = Attention (qs, ks, vs, m)", {{"m", truths(12)}}},
      {"plain", 24, "", kY, "y = Attention (qs, ks, vs)"},
      {"past", 24, kPast, kPresent, "y, nk, nv = Attention <is_causal = 1> (qs, ks, vs, , pk, pv)", past},
  };
  for (const char* mode : {"0", "1", "2", "3"}) {
    for (const int opset : {23, 24}) {
      all.push_back(
          {std::string("products_") + mode,
           opset,
           ", float[3, 5] m",
           kY + ", float[batch, 4, 3, 5] p",
           std::string("y, , , p = Attention <softcap = 2.0, qk_matmul_output_mode = ") + mode + "> (qs, ks, vs, m)",
           {{"m", spread(15, 6)}}});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Attention, ::testing::ValuesIn(forms()), [](const auto& info) {
  return info.param.name + std::to_string(info.param.opset) + "_" + std::to_string(info.index);
});

/// Queries are the last of a sample before its padding. ONNX's definition has said so since 1.23.
TEST(AttentionOfLengths, IsCausalFromTheEnd) {
  const auto attended = [](const std::string& inputs, const std::string& call, const Numbers& more) {
    Numbers numbers = {{"q", spread(48, 1)}, {"k", spread(80, 2)}, {"v", spread(80, 3)}};
    numbers.insert(more.begin(), more.end());
    const auto run = run_onnx("agraph (float[batch, 1, 3, 8] q, float[batch, 1, 5, 8] k, float[batch, 1, 5, 8] v, " +
                                  inputs + ") => (float[batch, 1, 3, 8] y) { y = Attention " + call + " }",
                              24, numbers);
    EXPECT_TRUE(run.ok()) << run.diagnostic().str();
    return run.ok() ? run->numbers[0] : std::vector<double>();
  };
  const std::vector<double> lengths = {3, 5};
  std::vector<double> seen;
  for (const double length : lengths) {
    for (int query = 0; query < 3; ++query) {
      for (int key = 0; key < 5; ++key) seen.push_back(key <= query + length - 3);
    }
  }
  const std::vector<double> expected = attended("bool[batch, 1, 3, 5] m", "(q, k, v, m)", {{"m", seen}});
  ASSERT_EQ(expected.size(), 48U);
  EXPECT_EQ(attended("int64[batch] n", "<is_causal = 1> (q, k, v, , , , n)", {{"n", lengths}}), expected);
}

std::vector<std::string> names_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

std::vector<std::string> ops(const std::string& call, const std::string& keys) {
  const auto imported = import_graph("agraph (float[batch, 4, seq, 8] q, float[batch, " + keys +
                                         ", seq, 8] k) => "
                                         "(float[batch, 4, seq, 8] y) { y = Attention " +
                                         call + " }",
                                     23);
  return imported.ok() ? names_of(*imported) : std::vector<std::string>{imported.diagnostic().str()};
}

TEST(AttentionTasks, AreFew) {
  using testing::ElementsAre;
  EXPECT_THAT(ops("(q, k, k)", "4"), ElementsAre("full", "mul", "permute", "matmul", "softmax", "matmul"));
  EXPECT_THAT(ops("<scale = 1.0> (q, k, k)", "4"), ElementsAre("permute", "matmul", "softmax", "matmul"));
  // Keys and values of a group of heads are not copied: its queries stand one below another.
  EXPECT_THAT(ops("<scale = 1.0> (q, k, k)", "2"),
              ElementsAre("permute", "reshape", "matmul", "reshape", "softmax", "reshape", "matmul", "reshape"));
  EXPECT_THAT(ops("<scale = 1.0, is_causal = 1> (q, k, k)", "4"),
              ElementsAre("permute", "matmul", "range", "unsqueeze", "range", "ge", "full", "full", "where", "add",
                          "softmax", "matmul"));
}

// ONNX's definition computes the scale from sizes when it runs.
TEST(AttentionTasks, AreTheDefinitionsWhereHeadsHaveNoSize) {
  const std::string text =
      "agraph (float[batch, 4, 3, seq] q, float[batch, 4, 6, seq] k) => (float[batch, 4, 3, seq] y) "
      "{ y = Attention (q, k, k) }";
  const auto imported = import_graph(text, 23);
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  EXPECT_GT(imported->task_count(), 20U);
  EXPECT_EQ(fault_of_samples(text, 23, {{"q", spread(180)}, {"k", spread(360, 2)}}, 0), "");
}

TEST(AttentionTasks, RefuseHeadsThatDoNotDivide) {
  EXPECT_THAT(ops("(q, k, k)", "3")[0],
              testing::HasSubstr("in 3 heads: the number of heads must divide the last axis, and that of"));
}

// Of a domain of its own, written out with the graphs that it is given.
TEST(FlexAttention, KeepsSamplesApart) {
  const std::string head =
      "<ir_version: 8, opset_import: [\"\" : 26, \"ai.onnx.preview\" : 1]>\n"
      "agraph (float[batch, 4, 3, 8] q, float[batch, 2, 5, 8] k, float a) => (float[batch, 4, 3, 8] y) "
      "{ s = Mul (q, a)\n y = ai.onnx.preview.FlexAttention ";
  const Numbers numbers = {{"q", spread(288)}, {"k", spread(240, 2)}, {"a", {1.5}}};
  EXPECT_EQ(fault_of_samples(head + "(s, k, k) }", 26, numbers, 1), "");
  EXPECT_EQ(fault_of_samples(head + "<score_mod: graph = capped (float[B, H, L, S] p) => (float[B, H, L, S] c) "
                                    "{ c = Tanh (p) }> (s, k, k) }",
                             26, numbers, 1),
            "");
}

TEST(CausalConvWithState, KeepsSamplesApart) {
  const std::string graph =
      "agraph (float[batch, 4, 6] x, float[4, 1, 3] w, float[4] b, float[batch, 4, 2] p) => "
      "(float[batch, 4, 6] y, float[batch, 4, 2] n) { y, n = CausalConvWithState (x, w, b, p) }";
  EXPECT_EQ(fault_of_samples(graph, 27,
                             {{"x", spread(72)}, {"w", spread(12, 2)}, {"b", spread(4, 3)}, {"p", spread(24, 4)}}, 2),
            "");
}

TEST(RotaryEmbedding, IsTurnedWithoutPermutations) {
  const auto imported = import_graph(
      "agraph (float[batch, 2, seq, 6] x, float[1, seq, 3] c, float[1, seq, 3] d) => (float[batch, 2, seq, 6] y) "
      "{ y = RotaryEmbedding (x, c, d) }",
      23);
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  EXPECT_THAT(names_of(*imported), testing::ElementsAre("split", "unsqueeze", "unsqueeze", "mul", "mul", "sub", "mul",
                                                        "mul", "add", "concat"));
}

TEST(RotaryEmbedding, RefusesWhatCannotBeHalved) {
  const auto refused = [](const std::string& attributes) {
    const auto imported = import_graph(
        "agraph (float[batch, 5, 6] x, float[1, 5, 3] c, float[1, 5, 3] d) => "
        "(float[batch, 5, 6] y) { y = RotaryEmbedding " +
            attributes + " (x, c, d) }",
        23);
    return imported.ok() ? "" : imported.diagnostic().message;
  };
  EXPECT_THAT(refused("<num_heads = 4>"), testing::HasSubstr("[batch,5,6] with 4 heads; heads must divide"));
  EXPECT_THAT(refused("<num_heads = 2>"), testing::HasSubstr("3 of 3 elements to rotate"));
  EXPECT_THAT(refused("<num_heads = 1, rotary_embedding_dim = 8>"), testing::HasSubstr("8 of 6 elements to rotate"));
}

TEST(RotaryEmbedding, KeepsSamplesApart) {
  const Numbers x = {{"x", spread(3 * 2 * 4 * 6)}, {"w", {1.5}}};
  const auto with = [&](Numbers more) {
    more.insert(x.begin(), x.end());
    return more;
  };
  const std::string scaled = ") => (float[batch, 2, 4, 6] y) { s = Mul (x, w)\n y = RotaryEmbedding ";
  const std::string head = "agraph (float[batch, 2, 4, 6] x, float w, ";
  const std::string flat = "agraph (float[batch, 4, 12] x, float w, ";
  const Numbers table =
      with({{"c", spread(7 * 3, 2)}, {"d", spread(7 * 3, 3)}, {"p", {0, 1, 2, 3, 3, 2, 1, 0, 6, 5, 4, 0}}});
  const Numbers rows = with({{"c", spread(3 * 4 * 3, 2)}, {"d", spread(3 * 4 * 3, 3)}});
  const Numbers one = with({{"c", spread(4 * 3, 2)}, {"d", spread(4 * 3, 3)}});
  const Numbers half =
      with({{"c", spread(7 * 2, 2)}, {"d", spread(7 * 2, 3)}, {"p", {0, 1, 2, 3, 3, 2, 1, 0, 6, 5, 4, 0}}});
  const std::string ids = "float[7, 3] c, float[7, 3] d, int64[batch, 4] p";
  EXPECT_EQ(fault_of_samples(head + ids + scaled + "(s, c, d, p) }", 23, table, 3), "");
  EXPECT_EQ(fault_of_samples(head + ids + scaled + "<interleaved = 1> (s, c, d, p) }", 23, table, 3), "");
  EXPECT_EQ(fault_of_samples(head + "float[7, 2] c, float[7, 2] d, int64[batch, 4] p" + scaled +
                                 "<rotary_embedding_dim = 4> (s, c, d, p) }",
                             23, half, 3),
            "");
  EXPECT_EQ(fault_of_samples(head + "float[batch, 4, 3] c, float[batch, 4, 3] d" + scaled + "(s, c, d) }", 23, rows, 1),
            "");
  // One row of tables for all samples, as exports of language models have it.
  EXPECT_EQ(fault_of_samples(head + "float[1, 4, 3] c, float[1, 4, 3] d" + scaled + "(s, c, d) }", 23, one, 3), "");
  EXPECT_EQ(fault_of_samples(flat + ids +
                                 ") => (float[batch, 4, 12] y) { s = Mul (x, w)\n "
                                 "y = RotaryEmbedding <num_heads = 2> (s, c, d, p) }",
                             23, table, 3),
            "");
}

// A row of nothing but -infinity is zero, and passes zeros back: a softmax of it, whose NaN is replaced, would pass
// NaN.
TEST(SoftmaxOfHiddenRows, PassesNoNanBack) {
  const auto run = run_onnx(
      "agraph (float[batch, 2, 3] x, float[3, 3] w) => (float[batch, 2, 3] y) <float[2, 3] shown = {1, 1, 0, 0, 0, 0}, "
      "float zero = {0}> {"
      " s = MatMul (x, w)\n hidden = Log (shown)\n m = Add (s, hidden)\n p = Softmax <axis = -1> (m)\n n = IsNaN (p)\n "
      "y = Where (n, zero, p) }",
      17, {{"x", spread(6)}, {"w", spread(9, 2)}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  for (size_t i = 2; i < 6; ++i) EXPECT_EQ(run->numbers[0][i], 0);
  EXPECT_NEAR(run->numbers[0][0] + run->numbers[0][1], 1, 1e-6);
  EXPECT_EQ(run->graph.attributes(run->graph.producer(run->graph.outputs()[0])).text("hidden_rows"), "zero");
  for (const TaskId task : run->graph.tasks()) EXPECT_NE(run->graph.op(task).name, "core.isnan");
  const auto checked = check_gradients(run->graph, run->inputs);
  ASSERT_TRUE(checked.ok()) << checked.diagnostic().str();
  EXPECT_EQ(checked->differentiable, 1U);
  EXPECT_EQ(checked->fault, "");
}

/// A query that a mask lets see no key takes nothing of their values, and passes zeros back.
TEST(SoftmaxOfHiddenRows, OfTheAttentionOperatorAreZero) {
  for (const std::string mask :
       {"bool[2, 3] m = {1, 1, 0, 0, 0, 0}", "float[2, 3] m = {0, 0, -inf, -inf, -inf, -inf}"}) {
    const auto run = run_onnx(
        "agraph (float[batch, 2, 2, 4] x, float[4, 4] w, float[batch, 2, 3, 4] k, float[batch, 2, 3, 4] v) => "
        "(float[batch, 2, 2, 4] y) <" +
            mask + "> { q = MatMul (x, w)\n y = Attention (q, k, v, m) }",
        23, {{"x", spread(16)}, {"w", spread(16, 2)}, {"k", spread(24, 3)}, {"v", spread(24, 4)}});
    ASSERT_TRUE(run.ok()) << run.diagnostic().str();
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(run->numbers[0][i] == 0, i % 8 >= 4) << i;
      EXPECT_TRUE(std::isfinite(run->numbers[0][i])) << i;
    }
    const auto checked = check_gradients(run->graph, run->inputs);
    ASSERT_TRUE(checked.ok()) << checked.diagnostic().str();
    EXPECT_EQ(checked->fault, "");
  }
}

// What replaces its NaN by another number, or keeps them for another reader, is left as it is.
TEST(SoftmaxOfHiddenRows, OtherUsesOfItsNanStay) {
  const auto ops = [](const std::string& nodes) {
    const auto graph = test::import_graph(
        "agraph (float[batch, 3] x) => (float[batch, 3] y) <float zero = {0}, float one = {1}> { " + nodes + " }", 17);
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
    std::vector<std::string> names;
    for (const TaskId task : graph->tasks()) names.push_back(graph->op(task).name);
    return names;
  };
  const std::string found = "p = Softmax <axis = -1> (x)\n n = IsNaN (p)\n ";
  EXPECT_EQ(ops(found + "y = Where (n, zero, p)"), std::vector<std::string>{"core.softmax"});
  EXPECT_EQ(ops(found + "y = Where (n, one, p)").size(), 3U);
  EXPECT_EQ(ops(found + "y = Where (n, p, zero)").size(), 3U);
  EXPECT_EQ(ops(found + "w = Where (n, zero, p)\n y = Add (w, p)").size(), 4U);
}

}  // namespace
}  // namespace rannc::test
