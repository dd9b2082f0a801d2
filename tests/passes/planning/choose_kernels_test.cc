// The cheapest kernels and orders in memory, copies between orders included.
#include "passes/planning/choose_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/planning/internal/least_cut.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::operators;
using test::short_graph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Items with what they pay on either side, and groups with what they pay unless they agree.
struct Problem {
  std::vector<std::pair<int64_t, int64_t>> items;
  std::vector<std::pair<std::vector<uint32_t>, int64_t>> groups;

  int64_t cost(const std::vector<bool>& second) const {
    int64_t sum = 0;
    for (size_t i = 0; i < items.size(); ++i) sum += second[i] ? items[i].second : items[i].first;
    for (const auto& [group, each] : groups) {
      const bool apart =
          std::any_of(group.begin(), group.end(), [&](uint32_t i) { return second[i] != second[group[0]]; });
      sum += apart ? each : 0;
    }
    return sum;
  }
  std::vector<bool> solved() const {
    LeastCut cut(0);
    for (const auto& [first, second] : items) cut.pay(cut.add_item(), first, second);
    for (const auto& [group, each] : groups) cut.keep_together(group, each);
    return cut.second_side();
  }
};

TEST(LeastCut, IsTheLeastOfAllChoices) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (int round = 0; round < 300; ++round) {
    Problem problem;
    const auto count = static_cast<uint32_t>(2 + draw(9));
    for (uint32_t i = 0; i < count; ++i) problem.items.emplace_back(draw(10), draw(10));
    for (uint32_t i = 0; i < count; ++i) {
      auto& [group, cost] = problem.groups.emplace_back();
      for (int64_t k = 0; k < 2 + draw(3); ++k) group.push_back(static_cast<uint32_t>(draw(count)));
      cost = draw(12);
    }
    int64_t least = INT64_MAX;
    for (uint32_t bits = 0; bits < 1U << count; ++bits) {
      std::vector<bool> second(count);
      for (uint32_t i = 0; i < count; ++i) second[i] = (bits >> i & 1) != 0;
      least = std::min(least, problem.cost(second));
    }
    EXPECT_EQ(problem.cost(problem.solved()), least) << "round " << round;
  }
}

TEST(LeastCut, LeavesEqualChoicesOnTheFirstSide) {
  const Problem problem{{{3, 3}, {0, 0}, {2, 2}}, {{{0, 1}, 5}}};
  EXPECT_THAT(problem.solved(), ElementsAre(false, false, false));
}

/// What a task takes, by its short name, its kernel and whether it is channels last; below 0: not known.
class TestTimes final : public KernelTimes {
 public:
  using Rule = std::function<double(std::string_view op, const std::string& kernel, bool last)>;
  explicit TestTimes(Rule rule) : rule_(std::move(rule)) {}

  std::optional<double> ns(const ir::Graph& graph, TaskId task,
                           const std::vector<ir::GradientRole>& roles) const override {
    EXPECT_EQ(roles.size(), graph.value_count());
    const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
    const double ns =
        rule_(graph.op(task).name.substr(5), attributes.declares(ir::kAlgorithm) ? attributes.text(ir::kAlgorithm) : "",
              attributes.declares(ir::kChannelsLast) && attributes.flag(ir::kChannelsLast));
    return ns < 0 ? std::nullopt : std::optional(ns);
  }

 private:
  Rule rule_;
};

/// Whether anything was changed.
bool choose(ir::Graph& graph, TestTimes::Rule rule) {
  PassContext context;
  const std::vector<ValueId> outputs = graph.outputs();
  const bool changed = ChooseKernels(std::make_shared<TestTimes>(std::move(rule))).run(graph, context).value().changed;
  EXPECT_THAT(ir::verify(graph), IsEmpty());
  EXPECT_EQ(context.remarks.size(), changed ? 1U : 0U);
  return changed;
}

const std::string kBlock =
    "input x [batch,4,6,6] samples 0\nparameter w [4,4,3,3]\nparameter v [4,4,1,1]\n"
    "a = conv(x, w) {pads=[1,1,1,1]}\nb = relu(a)\nc = conv(b, v)\nd = add(c, b)\nflat = reshape(d) "
    "{shape=[batch,144]}\noutputs flat\n";

ir::Graph block() { return short_graph(kBlock, "f32"); }

bool last(const ir::Graph& graph, std::string_view value) {
  return ir::channels_last(graph)[graph.find(value).index()];
}

TEST(ChooseKernels, LeavesAGraphAloneOfWhichNothingIsKnown) {
  ir::Graph graph = block();
  EXPECT_FALSE(choose(graph, [](auto, auto&, bool) { return -1.0; }));
  EXPECT_FALSE(choose(graph, [](auto, auto&, bool) { return 100.0; })) << "equal times";
  EXPECT_FALSE(choose(graph, [](auto, auto&, bool last) { return last ? 99.0 : 100.0; })) << "hardly a gain";
}

TEST(ChooseKernels, CopiesOnceWhereARunOfTasksIsFasterSo) {
  ir::Graph graph = block();
  EXPECT_TRUE(choose(graph, [](auto op, auto&, bool last) { return op == "contiguous" ? 10.0 : last ? 50.0 : 100.0; }));
  EXPECT_THAT(operators(graph), ElementsAre("contiguous", "conv", "relu", "conv", "add", "contiguous", "reshape"));
  for (const char* value : {"a", "b", "c", "d"}) EXPECT_TRUE(last(graph, value)) << value;
  EXPECT_FALSE(last(graph, "x"));
}

TEST(ChooseKernels, PaysForCopies) {
  ir::Graph graph = block();
  EXPECT_FALSE(choose(graph, [](auto op, auto&, bool last) {
    return op == "contiguous" ? 60.0 : last ? 50.0 : 100.0;
  }));
  EXPECT_TRUE(choose(graph, [](auto op, auto&, bool last) { return op == "contiguous" ? 45.0 : last ? 50.0 : 100.0; }));
  EXPECT_THAT(operators(graph), ElementsAre("contiguous", "conv", "relu", "conv", "add", "contiguous", "reshape"));
}

TEST(ChooseKernels, DoesNotCopyWhereACopyIsNotTimed) {
  ir::Graph graph = block();
  EXPECT_FALSE(choose(graph, [](auto op, auto&, bool last) {
    return op == "contiguous" ? -1.0 : last ? 50.0 : 100.0;
  }));
}

TEST(ChooseKernels, TakesTheFastestKernelOfTheOrder) {
  ir::Graph graph = block();
  EXPECT_TRUE(choose(graph, [](auto op, auto& kernel, bool last) {
    return op == "contiguous" ? 1.0 : kernel == "onednn" && !last ? 20.0 : 100.0;
  }));
  EXPECT_THAT(operators(graph), ElementsAre("conv", "relu", "conv", "add", "reshape"));
  for (const char* value : {"a", "c"})
    EXPECT_EQ(graph.attributes(graph.producer(graph.find(value))).text("algorithm"), "onednn") << value;
  ir::Graph other = block();
  EXPECT_TRUE(choose(other, [](auto op, auto& kernel, bool) {
    return op == "contiguous" ? 1.0 : kernel == "linear" ? 20.0 : 100.0;
  }));
  EXPECT_EQ(other.attributes(other.producer(other.find("a"))).text("algorithm"), "") << "a window of nine places";
  EXPECT_EQ(other.attributes(other.producer(other.find("c"))).text("algorithm"), "linear");
  EXPECT_TRUE(last(other, "c"));
}

TEST(ChooseKernels, OffersOnlyKernelsThatTheElementTypeHas) {
  ir::Graph graph = short_graph(kBlock, "f64");
  bool requested = false;
  choose(graph, [&](auto, auto& kernel, bool) {
    requested = requested || kernel == "onednn";
    return 1.0;
  });
  EXPECT_FALSE(requested);
}

// The stretched operand of `mul` is no image of the result's sizes: whatever its order, nothing is copied.
TEST(ChooseKernels, KeepsOperandsOfElementwiseTasksInOneOrder) {
  ir::Graph graph = short_graph(
      "input x [batch,4,6,6] samples 0\ninput gate [batch,4,1,1] samples 0\ninput other [batch,4,6,6] samples 0\n"
      "parameter w [4,4,3,3]\na = conv(x, w) {pads=[1,1,1,1]}\nb = mul(a, gate)\nc = add(b, other)\noutputs c\n",
      "f32");
  EXPECT_TRUE(choose(graph, [](auto op, auto&, bool last) { return op == "contiguous" ? 10.0 : last ? 50.0 : 100.0; }));
  EXPECT_THAT(operators(graph), ElementsAre("contiguous", "conv", "contiguous", "mul", "add"));
  EXPECT_FALSE(last(graph, "c"));
}

// LibTorch lays a sum out as its first operand, and a concatenation of different orders as the axes say.
TEST(ChooseKernels, TakesWhatDoesNotFollowImagesAsTheAxesSay) {
  for (const char* task : {"b = add(fixed, a)", "b = concat(a, fixed) {axis=1}"}) {
    ir::Graph graph =
        short_graph(std::string("input x [2,4,2,1]\nparameter w [4,4,1,1]\nconstant fixed [2,4,2,1] 1 2 3 4 5 6 7 "
                                "8 1 2 3 4 5 6 7 8\na = conv(x, w)\n") +
                        task + "\noutputs b\n",
                    "f32");
    EXPECT_TRUE(choose(graph, [](auto op, auto&, bool last) {
      return op == "contiguous" ? 10.0 : last ? 50.0 : 100.0;
    }));
    EXPECT_TRUE(last(graph, "a"));
    EXPECT_FALSE(last(graph, "b")) << task;
    EXPECT_EQ(operators(graph)[2], "contiguous") << task;
  }
}

TEST(ChooseKernels, IsNotDoneTwice) {
  const auto rule = [](auto op, auto&, bool last) { return op == "contiguous" ? 10.0 : last ? 50.0 : 100.0; };
  ir::Graph graph = block();
  EXPECT_TRUE(choose(graph, rule));
  EXPECT_FALSE(choose(graph, rule));
}

TEST(WithAlternatives, AddsEachKindOnceAndKeepsTheGraph) {
  const ir::Graph graph = block();
  const ir::Graph more = with_alternatives(graph);
  std::vector<std::string> added;
  for (uint32_t i = graph.task_count(); i < more.task_count(); ++i) added.push_back(operators(more)[i]);
  // Of the first convolution three more ways, of the second, a product for each place, four; of inputs and results,
  // which do or do not pass gradients on, copies into both orders.
  EXPECT_EQ(std::count(added.begin(), added.end(), "conv"), 7);
  EXPECT_EQ(std::count(added.begin(), added.end(), "contiguous"), 4);
  EXPECT_EQ(added.size(), 11U);
  EXPECT_THAT(ir::verify(more), IsEmpty());
  const ir::Graph plain = short_graph("input x [batch,4] samples 0\ny = relu(x)\noutputs y\n");
  EXPECT_EQ(with_alternatives(plain).task_count(), plain.task_count());
}

}  // namespace
}  // namespace rannc::passes
