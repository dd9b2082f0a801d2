// Losses of PyTorch's library beside LibTorch: x and y are doubles [batch, 4, 6], z integers 0 to 3 [batch, 4].
#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/torchscript/import.h"
#include "ir/op/foreign.h"
#include "tests/frontend/torchscript/program.h"

namespace rannc::test {
namespace {

using testing::HasSubstr;

std::vector<at::Tensor> inputs() {
  at::manual_seed(7);
  return {at::randn({3, 4, 6}, at::kDouble), at::randn({3, 4, 6}, at::kDouble), at::randint(0, 4, {3, 4}, at::kLong)};
}

std::string program(const std::string& expression) {
  return "def forward(self, x, y, z):\n  return " + expression + "\n";
}

/// A call, without its closing parenthesis.
class LibraryLosses : public testing::TestWithParam<const char*> {
 protected:
  static std::string reduced(int reduction) {
    return std::string(GetParam()) + ", reduction=" + std::to_string(reduction) + ")";
  }
};

TEST_P(LibraryLosses, EqualLibTorchs) {
  for (const int reduction : {0, 1, 2}) {
    SavedModule module(program(reduced(reduction)));
    // A mean over samples is no result of a divided mini-batch.
    EXPECT_EQ(difference(module, inputs(), reduction == 0), "") << reduction;
  }
}

TEST_P(LibraryLosses, AreCoreOperators) {
  for (const int reduction : {0, 1, 2}) {
    SavedModule module(program(reduced(reduction)));
    const auto imported = frontend::read_torch(module.path(), {.inputs = input_flags(inputs())});
    ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
    for (const TaskId task : imported->graph.tasks())
      EXPECT_FALSE(ir::is_foreign(imported->graph.op(task))) << imported->graph.op(task).name;
  }
}

constexpr const char* kLosses[] = {
    "torch.triplet_margin_loss(x, y, x * y",
    "torch.triplet_margin_loss(x, y, x * y, 0.5, 3.0, 0.01, True",
    "torch.triplet_margin_loss(x, y, x[:, :1], 2.0, 1.0",
    "torch.cosine_embedding_loss(x[:, 0], y[:, 0], z[:, 0] - 1, 0.25",
    "torch.cosine_embedding_loss(x[:, 0].float(), y[:, 0].float(), z[:, 0] - 1.0",
    "torch.margin_ranking_loss(x, y, torch.sign(x * y), 0.3",
    "torch.margin_ranking_loss(x[:, :, 0], y[:, :, 0], z",
    "torch.hinge_embedding_loss(x, torch.sign(y)",
    "torch.hinge_embedding_loss(x[:, :, 0], z - 1, 0.25",
    "torch.soft_margin_loss(x, torch.sign(y)",
    "torch.multi_margin_loss(x[:, 0], z[:, 0]",
    "torch.multi_margin_loss(x[:, 0], z[:, 0], 2, 0.75, torch.arange(6, dtype=7)",
    "torch.multilabel_margin_loss(x[:, :, 0], z - 1",
    "torch.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)",
    "torch.binary_cross_entropy(torch.clamp(x, 0, 1), torch.sigmoid(y), torch.exp(y)",
    "torch.binary_cross_entropy(torch.sigmoid(x[:, :, 0]), torch.sigmoid(y[:, :, 0]), torch.arange(4, dtype=7)",
    "torch.kl_div(torch.log_softmax(x, 2), torch.softmax(y, 2)",
    "torch.kl_div(x[:, :, 0], z.double()",
    "torch.kl_div(torch.log_softmax(x, 2), torch.log_softmax(y, 2), log_target=True",
    "torch.poisson_nll_loss(x[:, :, 0], z, True, False, 1e-8",
    "torch.poisson_nll_loss(x[:, :, 0], z, True, True, 1e-8",
    "torch.poisson_nll_loss(torch.exp(x), torch.exp(y), False, True, 0.1",
};
INSTANTIATE_TEST_SUITE_P(All, LibraryLosses, testing::ValuesIn(kLosses));

class Sequences : public testing::Test {
 protected:
  static constexpr const char* kLog = "torch.log_softmax(x, 1).permute(2, 0, 1)";  // 6 places, 4 classes

  static std::string ctc(const std::string& targets, const std::string& lengths, int reduction, bool zero = false) {
    return std::string("torch.ctc_loss(") + kLog + ", " + targets + ", " + lengths + ", 0, " +
           std::to_string(reduction) + (zero ? ", True)" : ")");
  }
};

TEST_F(Sequences, AreComputedEachByItself) {
  for (const int reduction : {0, 1, 2}) {
    for (const char* const lengths : {"z[:, 0] + 3, z[:, 1]", "z[:, 0], z[:, 1]"}) {
      SavedModule module(program(ctc("z[:, :3] % 3 + 1", lengths, reduction, true)));
      EXPECT_EQ(difference(module, inputs(), reduction == 0), "") << reduction << ' ' << lengths;
      const auto imported = frontend::read_torch(module.path(), {.inputs = input_flags(inputs())});
      ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
      for (const TaskId task : imported->graph.tasks()) {
        const auto& graph = imported->graph;
        if (!ir::is_foreign(graph.op(task))) continue;
        EXPECT_EQ(graph.type(graph.outputs(task)[0]).batch.axis, 0) << reduction;
      }
    }
  }
}

TEST_F(Sequences, MayHaveLengthsAsLists) {
  for (const char* const lengths : {"[6, 6, 6], [3, 3, 3]", "[6, 5, 4], [3, 0, 1]", "[6, 5, 4], [2, 2, 2]"}) {
    SavedModule module(program(ctc("z[:, :3] % 3 + 1", lengths, 1)));
    EXPECT_EQ(difference(module, inputs(), false), "") << lengths;
  }
}

TEST_F(Sequences, AreAsManyAsListedLengths) {
  SavedModule module(program(ctc("z[:, :3] % 3 + 1", "[6, 5, 4], [3, 0, 1]", 1)));
  EXPECT_THAT(difference(module, inputs()),
              HasSubstr("target_lengths lists the lengths of 3 sequences, but log_probs has batch"));
}

TEST_F(Sequences, MayHaveTargetsInARow) {
  SavedModule module(program(ctc("(z % 3 + 1).reshape(-1)[:6]", "[6, 5, 4], [3, 1, 2]", 1)));
  EXPECT_EQ(difference(module, inputs(), false), "");
}

TEST(Logarithms, OfNothingTimesNothingAreZero) {
  for (const char* const text : {"torch.xlogy(z, z)", "torch.xlogy(z.unsqueeze(2), x)",
                                 "torch.xlogy(x.relu(), y.relu())", "torch.xlogy(x, 2.5)"}) {
    SavedModule module(program(text));
    EXPECT_EQ(difference(module, inputs()), "") << text;
  }
}

TEST(Margins, MayBeOfOneSample) {
  for (const char* const text :
       {"torch.multi_margin_loss(x[0, 0], z[0, 0])", "torch.multilabel_margin_loss(x[0, :, 0], z[0] - 1)",
        "torch.cosine_embedding_loss(x[0, 0], y[0, 0], torch.tensor(1))",
        "torch.triplet_margin_loss(x[0, 0], y[0, 0], x[1, 0])"}) {
    SavedModule module(program(text));
    EXPECT_EQ(difference(module, inputs(), false), "") << text;
  }
}

TEST(Margins, OfOtherPowersAreRefused) {
  SavedModule module(program("torch.multi_margin_loss(x[:, 0], z[:, 0], 3)"));
  EXPECT_THAT(difference(module, inputs()), HasSubstr("p is 3; expected 1 or 2"));
}

}  // namespace
}  // namespace rannc::test
