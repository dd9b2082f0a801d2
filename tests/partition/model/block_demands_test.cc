// Demands on atoms become constraints on the blocks that hold them, or name the two atoms that contradict each other.
#include "partition/model/block_demands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rannc::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<uint32_t> kBlockOf = {0, 0, 2,
                                        1, 3, 3};  // atoms of parallel branches need not lie in their own order

std::string name(uint32_t atom) { return "task" + std::to_string(atom); }

Result<StageConstraints> constraints_of(const AtomDemands& demands) {
  StageConstraints constraints;
  RANNC_TRY(add_demands(demands, kBlockOf, name, constraints));
  return constraints;
}

TEST(BlockDemands, PinsAscendByBlockOncePerBlock) {
  const auto found = constraints_of({{{4, 2}, {5, 2}, {3, 1}, {0, 0}}, {}});
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  ASSERT_EQ(found->pins.size(), 3u);
  EXPECT_EQ(found->pins[0].block, 0u);
  EXPECT_EQ(found->pins[1].block, 1u);
  EXPECT_EQ(found->pins[2].block, 3u);
  EXPECT_EQ(found->pins[2].stage, 2u);
}

TEST(BlockDemands, TogetherForbidsEveryCutBetween) {
  EXPECT_THAT(constraints_of({{}, {{0, 3}}})->forbidden_cuts, ElementsAre(1));
  EXPECT_THAT(constraints_of({{}, {{5, 3}}})->forbidden_cuts, ElementsAre(2, 3));
  EXPECT_THAT(constraints_of({{}, {{0, 3}, {4, 1}}})->forbidden_cuts, ElementsAre(1, 2, 3));
  EXPECT_THAT(constraints_of({{}, {{0, 1}}})->forbidden_cuts, IsEmpty()) << "one block has no cut";
}

TEST(BlockDemands, ContradictionsNameBothTasks) {
  const auto one_block = constraints_of({{{0, 0}, {1, 1}}, {}});
  ASSERT_FALSE(one_block.ok());
  EXPECT_EQ(one_block.diagnostic().rule, "C5");
  EXPECT_THAT(one_block.diagnostic().message, HasSubstr("'task0' is pinned to stage 0 and 'task1' to stage 1"));
  EXPECT_THAT(one_block.diagnostic().message, HasSubstr("both lie in block 0"));
  const auto backwards = constraints_of({{{2, 0}, {3, 1}}, {}});
  ASSERT_FALSE(backwards.ok());
  EXPECT_THAT(backwards.diagnostic().message, HasSubstr("'task3' is pinned to stage 1 and 'task2' to stage 0"));
  EXPECT_THAT(backwards.diagnostic().message, HasSubstr("block 1 comes before block 2"));
}

}  // namespace
}  // namespace rannc::partition
