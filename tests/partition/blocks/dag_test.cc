// The task graph's order and rules, and the metrics that judge partitions.
#include <gtest/gtest.h>

#include <cmath>

#include "partition/metrics.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

using testing::DagBuilder;

/// 0 -> {1, 2, 3}, 1 -> 3; works 1 2 3 4; value of 0 costs 10, of 1 costs 20.
Dag small() {
  DagBuilder builder;
  for (double work : {1.0, 2.0, 3.0, 4.0}) builder.task(work, 100);
  for (uint32_t t : {1, 2, 3}) builder.read(0, t);
  builder.read(1, 3);
  return std::move(builder).build({10, 20, 0, 0});
}

TEST(Dag, OrdersDepthFirstSmallestIdFirst) {
  EXPECT_EQ(*topological_order(small()), (std::vector<uint32_t>{0, 1, 3, 2}));
}

TEST(Dag, NamesACycle) {
  Dag dag = small();
  dag.names = {"embed", "attend", "norm", "loss"};
  dag.value_producer.push_back(3);
  dag.value_bytes.push_back(0);
  dag.value_cost.push_back(0);
  dag.value_readers.items.push_back(1);
  dag.value_readers.offsets.push_back(static_cast<uint32_t>(dag.value_readers.items.size()));
  index_tasks(dag);
  const auto order = topological_order(dag);
  ASSERT_FALSE(order.ok());
  EXPECT_EQ(order.diagnostic().rule, "A5");
  EXPECT_EQ(order.diagnostic().message, "the graph has a cycle of 2 tasks: #1 (attend) -> #3 (loss) -> #1 (attend)");
  EXPECT_EQ(validate(dag).diagnostic().rule, "A5");
}

TEST(Dag, RefusesReadersThatAreNotAscending) {
  Dag dag = small();
  std::swap(dag.value_readers.items[0], dag.value_readers.items[1]);
  EXPECT_EQ(validate(dag).diagnostic().rule, "A4");
}

TEST(Dag, RefusesTimesWhoseSumOverflows) {
  Dag dag = small();
  dag.forward[0] = dag.forward[1] = 1e308;
  EXPECT_EQ(validate(dag).diagnostic().rule, "A3");
  dag = small();
  dag.resident_bytes[0] = dag.resident_bytes[1] = UINT64_MAX;
  EXPECT_EQ(validate(dag).diagnostic().rule, "A3");
}

TEST(Dag, AcceptsTheEmptyGraph) {
  Dag dag = DagBuilder().build();
  EXPECT_TRUE(validate(dag).ok());
  EXPECT_TRUE(topological_order(dag)->empty());
}

TEST(Metrics, CountsAValueOncePerReceivingBlock) {
  const Dag dag = small();
  const PartitionMetrics metrics = measure(dag, std::vector<uint32_t>{0, 0, 1, 1}, 2);
  EXPECT_EQ(metrics.crossing_values, 2u) << "0's value is read twice in block 1";
  EXPECT_DOUBLE_EQ(metrics.crossing_cost, 30);
  EXPECT_DOUBLE_EQ(metrics.blocks[0].load(), 1 + 2 + 30);
  EXPECT_DOUBLE_EQ(metrics.blocks[1].load(), 3 + 4 + 30);
  EXPECT_DOUBLE_EQ(metrics.largest_load, 37);
  EXPECT_EQ(metrics.largest_memory_bytes, 200u);

  const PartitionMetrics three = measure(dag, std::vector<uint32_t>{0, 1, 2, 2}, 3);
  EXPECT_EQ(three.crossing_values, 3u);
  EXPECT_DOUBLE_EQ(three.crossing_cost, 40);
  EXPECT_DOUBLE_EQ(three.blocks[0].out, 10) << "sent to two blocks, priced once for the sender";
  EXPECT_DOUBLE_EQ(three.blocks[1].load(), 2 + 10 + 20);
}

TEST(Metrics, TellsConvexityAndAcyclicityApart) {
  DagBuilder builder;
  for (int i = 0; i < 3; ++i) builder.task(1);
  builder.read(0, 1);
  builder.read(1, 2);
  const Dag chain = std::move(builder).build();
  const std::vector<uint32_t> around{0, 1, 0};
  EXPECT_FALSE(block_is_convex(chain, around, 0));
  EXPECT_TRUE(block_is_convex(chain, around, 1));
  EXPECT_FALSE(quotient_is_acyclic(chain, around, 2));
}

TEST(Metrics, ChecksEachRule) {
  const Dag dag = small();
  auto rule = [&](BlockPartition partition, uint64_t limit) {
    const auto checked = check_partition(dag, partition, limit, 1);
    return checked.ok() ? std::string("none") : checked.diagnostic().rule;
  };
  EXPECT_EQ(rule({2, {0, 0, 1, 1}}, UINT64_MAX), "none");
  EXPECT_EQ(rule({2, {0, 0, 1, 2}}, UINT64_MAX), "Q1");
  EXPECT_EQ(rule({2, {0, 0, 1}}, UINT64_MAX), "Q1");
  EXPECT_EQ(rule({3, {0, 0, 1, 1}}, UINT64_MAX), "Q2");
  EXPECT_EQ(rule({2, {0, 1, 0, 0}}, UINT64_MAX), "Q3");
  EXPECT_EQ(rule({2, {0, 0, 1, 1}}, 199), "Q4");
}

}  // namespace
}  // namespace rannc::partition
