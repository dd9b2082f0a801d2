// What --list prints is what the flags take.
#include "tools/compile/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/cluster.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/registry.h"
#include "passes/loss/loss_spec.h"

namespace rannc::tools {
namespace {

using testing::HasSubstr;

TEST(Listing, EveryNameHasALine) {
  for (const std::string& name : partition::stage_planner_names())
    EXPECT_THAT(listing("planner"), HasSubstr(name + " "));
  for (const std::string_view name : partition::schedule_names())
    EXPECT_THAT(listing("schedule"), HasSubstr(std::string(name) + " "));
  for (const std::string_view name : passes::loss_names())
    EXPECT_THAT(listing("loss"), HasSubstr(std::string(name) + " "));
  EXPECT_THAT(listing("optimizer"), HasSubstr("  "));
}

TEST(Listing, EveryClusterThatIsListedExists) {
  for (std::string name : partition::preset_cluster_names()) {
    EXPECT_THAT(listing("cluster"), HasSubstr(name + " "));
    if (name.ends_with("N")) name.replace(name.size() - 1, 1, "3");
    if (name.starts_with("Mx-KIND")) name.replace(0, 7, "3x-h100");
    EXPECT_TRUE(partition::preset_cluster(name).ok()) << name;
  }
}

}  // namespace
}  // namespace rannc::tools
