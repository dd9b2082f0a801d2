// Kept values by minimum cut against exhaustive enumeration, and the functions of stages that keep them.
#include "passes/training/selective_recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ir/graph/execution_frequency.h"
#include "ir/graph/views.h"
#include "ir/op/op.h"
#include "ir/state/statistics.h"
#include "ir/text/text.h"
#include "passes/training/cut_functions.h"
#include "tests/codegen/random_program.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::passes {
namespace {

using ir::FunctionKind;
using ir::FunctionTable;
using ir::Joint;
using rannc::testing::build_plan;

constexpr int64_t kNever = RecomputeCosts::kNever;

int64_t below(std::mt19937_64& random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

/// Small numbers with many ties and zeros; one task in twelve never runs again.
RecomputeCosts random_costs(const Joint& joint, std::mt19937_64& random) {
  RecomputeCosts costs;
  for (uint32_t i = 0; i < joint.graph.value_count(); ++i) {
    costs.bytes.push_back(below(random, 9));
    costs.random_ns.push_back(below(random, 9));
  }
  for (uint32_t i = 0; i < joint.graph.task_count(); ++i) {
    costs.forward_ns.push_back(below(random, 12) == 0 ? kNever : below(random, 9));
  }
  return costs;
}

/// Bytes of the memory of values, from distinct bases, and time of what R does, value by value.
class Judge {
 public:
  Judge(const Joint& joint, const RecomputeCosts& costs) : graph_(joint.graph), costs_(costs), views_(graph_) {}

  KeptChoice judged(const Joint& joint, const std::vector<ValueId>& kept) const {
    const FunctionTable table = ir::function_table(joint, kept);
    KeptChoice found{.kept = kept};
    std::set<ValueId> bases;
    for (const ValueId value : kept) bases.insert(views_.base(value));
    for (const ValueId base : bases) found.kept_bytes += costs_.bytes[base.index()];
    for (const TaskId task : table[FunctionKind::kRebuild].tasks) found.recompute_ns += time(task);
    for (const ValueId value : table[FunctionKind::kRebuild].arguments) {
      const bool drawn =
          graph_.kind(value) == ir::ValueKind::kRandomInput && !std::binary_search(kept.begin(), kept.end(), value);
      if (drawn) found.recompute_ns += costs_.random_ns[value.index()];
    }
    return found;
  }
  int64_t time(TaskId task) const {
    const auto outputs = graph_.outputs(task);
    const bool is_view = std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return views_.base(v) != v; });
    return is_view ? 0 : costs_.forward_ns[task.index()];
  }
  ValueId base(ValueId value) const { return views_.base(value); }

 private:
  const ir::Graph& graph_;
  const RecomputeCosts& costs_;
  const ir::Views views_;
};

/// Enumerates every set of values that F could keep.
class Exhaustive {
 public:
  static constexpr size_t kMost = 14;

  Exhaustive(const Joint& joint, const RecomputeCosts& costs)
      : graph_(joint.graph), costs_(costs), judge_(joint, costs), table_(ir::function_table(joint, {})) {
    for (const ValueId value : table_.saved) reach(value);
    std::sort(values_.begin(), values_.end());
  }
  size_t size() const { return values_.size(); }

  /// Least time by bytes; -1: no set of so many bytes.
  std::vector<int64_t> least_time() {
    prepare();
    std::vector<int64_t> least;
    for (uint32_t kept = 0; kept < uint32_t{1} << size(); ++kept) {
      const int64_t time = time_of(kept);
      if (time < 0) continue;
      const auto bytes = static_cast<size_t>(bytes_of(kept));
      if (bytes >= least.size()) least.resize(bytes + 1, -1);
      if (least[bytes] < 0 || time < least[bytes]) least[bytes] = time;
    }
    return least;
  }

 private:
  struct Item {
    uint32_t operands = 0;
    int task = -1;
    bool random_input = false;
    uint32_t base = 0;
  };

  bool is_fixed(ValueId value) const {
    const TaskId maker = graph_.producer(value);
    if (maker.valid()) return table_.place[maker.index()] != FunctionKind::kForward;
    return graph_.kind(value) != ir::ValueKind::kInput && graph_.kind(value) != ir::ValueKind::kRandomInput;
  }
  template <class F>
  void each_operand(TaskId task, F&& f) const {
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (ir::reads_operand(graph_, task, i) && !is_fixed(inputs[i])) f(inputs[i]);
    }
  }
  void reach(ValueId value) {
    if (std::find(values_.begin(), values_.end(), value) != values_.end()) return;
    values_.push_back(value);
    if (graph_.producer(value).valid()) each_operand(graph_.producer(value), [&](ValueId each) { reach(each); });
  }
  uint32_t bit(ValueId value) const {
    return uint32_t{1} << (std::lower_bound(values_.begin(), values_.end(), value) - values_.begin());
  }
  void prepare() {
    std::vector<TaskId> tasks;
    std::vector<ValueId> bases;
    const auto number = [](auto& list, auto item) {
      const auto at = std::find(list.begin(), list.end(), item);
      if (at != list.end()) return static_cast<size_t>(at - list.begin());
      list.push_back(item);
      return list.size() - 1;
    };
    for (const ValueId value : values_) {
      Item item{.random_input = graph_.kind(value) == ir::ValueKind::kRandomInput};
      const ValueId base = judge_.base(value);
      item.base = uint32_t{1} << number(bases, base);
      if (graph_.producer(value).valid()) {
        item.task = static_cast<int>(number(tasks, graph_.producer(value)));
        each_operand(graph_.producer(value), [&](ValueId each) { item.operands |= bit(each); });
      }
      items_.push_back(item);
    }
    for (const TaskId task : tasks) {
      const bool joint = ir::synchronised(graph_, task).value_or(false);
      task_ns_.push_back(joint ? kNever : judge_.time(task));
    }
    for (const ValueId base : bases) base_bytes_.push_back(is_fixed(base) ? 0 : costs_.bytes[base.index()]);
    for (const ValueId value : table_.saved) saved_ |= bit(value);
  }
  /// Time of R; -1: it cannot start from these values.
  int64_t time_of(uint32_t kept) const {
    int64_t time = 0;
    uint32_t needed = saved_, ran = 0;
    for (size_t i = size(); i-- > 0;) {
      if ((needed >> i & 1) == 0 || (kept >> i & 1) != 0) continue;
      const Item& item = items_[i];
      if (item.random_input) time += costs_.random_ns[values_[i].index()];
      if (!item.random_input && item.task < 0) return -1;
      if (item.task < 0 || (ran >> item.task & 1) != 0) continue;
      const int64_t ns = task_ns_[static_cast<size_t>(item.task)];
      if (ns == kNever) return -1;
      ran |= uint32_t{1} << item.task;
      time += ns;
      needed |= item.operands;
    }
    return time;
  }
  int64_t bytes_of(uint32_t kept) const {
    uint32_t bases = 0;
    for (size_t i = 0; i < size(); ++i) {
      if ((kept >> i & 1) != 0) bases |= items_[i].base;
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < base_bytes_.size(); ++i) bytes += (bases >> i & 1) != 0 ? base_bytes_[i] : 0;
    return bytes;
  }

  const ir::Graph& graph_;
  const RecomputeCosts& costs_;
  const Judge judge_;
  const FunctionTable table_;
  std::vector<ValueId> values_;
  std::vector<Item> items_;
  std::vector<int64_t> task_ns_, base_bytes_;
  uint32_t saved_ = 0;
};

using Point = std::pair<int64_t, int64_t>;  // bytes, ns

/// Vertices of the lower convex hull, from least bytes to least time.
std::vector<Point> lower_hull(const std::vector<int64_t>& least_time) {
  std::vector<Point> hull;
  int64_t best = INT64_MAX;
  for (size_t bytes = 0; bytes < least_time.size(); ++bytes) {
    if (least_time[bytes] < 0 || least_time[bytes] >= best) continue;
    best = least_time[bytes];
    const Point next(bytes, best);
    while (hull.size() >= 2) {
      const auto [ax, ay] = hull[hull.size() - 2];
      const auto [bx, by] = hull.back();
      if ((bx - ax) * (next.second - ay) - (by - ay) * (next.first - ax) > 0) break;
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

/// Calls `f(joint, random)` for the stages of random models of up to `tasks` operators.
template <class F>
void each_stage(uint64_t seeds, uint32_t tasks, F&& f) {
  for (uint64_t seed = 0; seed < seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    ir::Graph graph = ir::testing::random_program(seed, 1 + static_cast<uint32_t>(seed) % tasks);
    const uint32_t count = graph.task_count();
    std::vector<uint32_t> cuts;
    if (count > 3 && seed % 4 != 0) cuts = {count / 2};
    const ir::Plan plan = build_plan(std::move(graph), {.cuts = cuts});
    for (const auto& stage : plan.functions) f(stage->joint, random);
  }
}

TEST(SelectiveRecompute, IsTheBestOfAllChoicesOnSmallStages) {
  size_t stages = 0, of_several = 0;
  each_stage(1500, 10, [&](const Joint& joint, std::mt19937_64& random) {
    const RecomputeCosts costs = random_costs(joint, random);
    Exhaustive exhaustive(joint, costs);
    if (exhaustive.size() == 0 || exhaustive.size() > Exhaustive::kMost) return;
    const std::vector<int64_t> least = exhaustive.least_time();
    const Judge judge(joint, costs);
    const SelectiveRecompute selective(joint, costs);
    for (const RecomputePrice price : {RecomputePrice{1, 0}, {5, 1}, {1, 1}, {2, 3}, {1, 4}, {0, 1}}) {
      const KeptChoice found = selective.cheapest(price);
      EXPECT_EQ(judge.judged(joint, found.kept), found);
      int64_t best = INT64_MAX;
      for (size_t bytes = 0; bytes < least.size(); ++bytes) {
        if (least[bytes] >= 0)
          best = std::min(best, price.per_byte * static_cast<int64_t>(bytes) + price.per_ns * least[bytes]);
      }
      EXPECT_EQ(price.per_byte * found.kept_bytes + price.per_ns * found.recompute_ns, best)
          << price.per_byte << " per byte, " << price.per_ns << " per ns";
    }
    std::vector<Point> hull;
    for (const KeptChoice& each : selective.hull(1000)) hull.emplace_back(each.kept_bytes, each.recompute_ns);
    EXPECT_EQ(hull, lower_hull(least));
    EXPECT_EQ(SelectiveRecompute(joint, costs, ir::CutNetwork::Solver::kDinic).hull(1000), selective.hull(1000));
    ++stages;
    of_several += hull.size() > 2;
  });
  EXPECT_GE(stages, 1000U);
  EXPECT_GE(of_several, 100U);
}

TEST(SelectiveRecompute, FunctionsOfEveryHullPointAreValid) {
  size_t points = 0;
  each_stage(300, 30, [&](const Joint& joint, std::mt19937_64& random) {
    const RecomputeCosts costs = random_costs(joint, random);
    const Judge judge(joint, costs);
    for (const KeptChoice& point : SelectiveRecompute(joint, costs).hull()) {
      EXPECT_EQ(judge.judged(joint, point.kept), point);
      ++points;
    }
  });
  EXPECT_GE(points, 1000U);
}

TEST(SelectiveRecompute, CutFunctionsAcceptsEveryHullPoint) {
  size_t most = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    ir::Graph graph = ir::testing::random_program(seed, 4 + static_cast<uint32_t>(seed % 20));
    const uint32_t half = graph.task_count() / 2;
    ir::Plan plan = build_plan(std::move(graph), {.cuts = {half}, .recompute = true});
    size_t points = 1;
    for (size_t at = 0; at < points; ++at) {
      std::mt19937_64 random(seed);
      const auto cut = cut_functions(plan, [&](StageId, const Joint& joint) {
        const auto hull = SelectiveRecompute(joint, random_costs(joint, random)).hull();
        points = std::max(points, hull.size());
        return hull[std::min(at, hull.size() - 1)].kept;
      });
      ASSERT_TRUE(cut.ok()) << cut.diagnostic().str();
      if (at > 0) continue;
      const auto again = ir::parse_plan(ir::print(plan), "plan.rir");
      ASSERT_TRUE(again.ok()) << again.diagnostic().str();
      EXPECT_TRUE(ir::equal(*again, plan));
    }
    most = std::max(most, points);
  }
  EXPECT_GE(most, 5U);
}

TEST(SelectiveRecompute, AChoiceThatRCannotStartFromIsReported) {
  ir::Plan plan = build_plan(rannc::testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .recompute = true});
  const auto nothing = cut_functions(plan, [](StageId, const Joint&) { return std::vector<ValueId>(); });
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.diagnostic().rule, "H5");
  EXPECT_THAT(nothing.diagnostic().message, ::testing::HasSubstr("%x"));
}

TEST(SelectiveRecompute, ALimitedHullHoldsBothEnds) {
  size_t shortened = 0;
  each_stage(60, 40, [&](const Joint& joint, std::mt19937_64& random) {
    const SelectiveRecompute selective(joint, random_costs(joint, random));
    const auto all = selective.hull(1000), few = selective.hull(3);
    ASSERT_LE(few.size(), 3U);
    EXPECT_EQ(few.front(), all.front());
    EXPECT_EQ(few.back(), all.back());
    for (const KeptChoice& each : few) EXPECT_NE(std::find(all.begin(), all.end(), each), all.end());
    shortened += all.size() > few.size();
  });
  EXPECT_GE(shortened, 10U);
}

TEST(SelectiveRecompute, LargeCostsGiveTheSameHull) {
  each_stage(40, 20, [](const Joint& joint, std::mt19937_64& random) {
    RecomputeCosts costs = random_costs(joint, random);
    const auto small = SelectiveRecompute(joint, costs).hull(1000);
    for (int64_t& bytes : costs.bytes) bytes <<= 35;
    for (int64_t& ns : costs.random_ns) ns <<= 30;
    for (int64_t& ns : costs.forward_ns) ns = ns == kNever ? kNever : ns << 30;
    const auto large = SelectiveRecompute(joint, costs).hull(1000);
    ASSERT_EQ(large.size(), small.size());
    for (size_t i = 0; i < large.size(); ++i) {
      EXPECT_EQ(large[i].kept_bytes, small[i].kept_bytes << 35);
      EXPECT_EQ(large[i].recompute_ns, small[i].recompute_ns << 30);
    }
  });
}

/// Costs of 1 ns per task and draw, and of 1000 bytes per value but the inputs.
RecomputeCosts plain_costs(const Joint& joint) {
  RecomputeCosts costs;
  for (const ValueId value : joint.graph.values()) {
    costs.bytes.push_back(joint.graph.kind(value) == ir::ValueKind::kInput ? 0 : 1000);
  }
  costs.random_ns.assign(joint.graph.value_count(), 1);
  costs.forward_ns.assign(joint.graph.task_count(), 1);
  return costs;
}

/// Whether R repeats a normalization over the batch if memory alone counts.
bool repeats_norms(ir::Graph graph) {
  const ir::Plan plan = build_plan(std::move(graph), {});
  const Joint& joint = plan.functions[0]->joint;
  const KeptChoice least = SelectiveRecompute(joint, plain_costs(joint)).hull().front();
  const FunctionTable table = ir::function_table(joint, least.kept);
  EXPECT_TRUE(table[FunctionKind::kRebuild].results.empty());  // statistics are results
  EXPECT_FALSE(table[FunctionKind::kForward].results.empty());
  const auto& tasks = table[FunctionKind::kRebuild].tasks;
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](TaskId task) { return ir::synchronised(joint.graph, task).has_value(); });
}

TEST(SelectiveRecompute, ASynchronisedNormalizationNeverRunsAgain) {
  EXPECT_TRUE(repeats_norms(rannc::testing::norm_model(ir::DType::kF32)));
  EXPECT_FALSE(repeats_norms(rannc::testing::joint_norm_model(ir::DType::kF32)));
}

TEST(SelectiveRecompute, AMaskIsKeptWhereItsNumbersAreSlowToGenerate) {
  const ir::Plan plan = build_plan(rannc::testing::dropout_model(ir::DType::kF32), {});
  const Joint& joint = plan.functions[0]->joint;
  const auto kept_masks = [&](int64_t random_ns) {
    RecomputeCosts costs = plain_costs(joint);
    costs.random_ns.assign(costs.random_ns.size(), random_ns);
    const KeptChoice found = SelectiveRecompute(joint, costs).cheapest({1, 1});
    return std::count_if(found.kept.begin(), found.kept.end(),
                         [&](ValueId value) { return joint.graph.kind(value) == ir::ValueKind::kRandomInput; });
  };
  EXPECT_EQ(kept_masks(999), 0);
  EXPECT_EQ(kept_masks(1001), 2);
}

}  // namespace
}  // namespace rannc::passes
