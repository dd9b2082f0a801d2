/// Times of whole plans in profile databases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/cost/profile_database.h"

namespace rannc::partition {
namespace {

ProfileDatabase with_runs() {
  ProfileDatabase database;
  database.add_run("cpu", "0123", {{"forward", {5, 0, 7}}, {"sums", {}}});
  database.add_run("cpu", "4567", {{"forward", {1}}});
  return database;
}

TEST(Runs, AreReadAsWritten) {
  const ProfileDatabase database = with_runs();
  const ProfileDatabase again = ProfileDatabase::parse(database.print(), "p.json").value();
  EXPECT_EQ(again, database);
  ASSERT_NE(again.find_run("cpu", "0123"), nullptr);
  EXPECT_EQ(*again.find_run("cpu", "0123"), (RunTimes{{"forward", {5, 0, 7}}, {"sums", {}}}));
  EXPECT_EQ(again.find_run("gpu", "0123"), nullptr) << "another environment";
  EXPECT_EQ(again.find_run("cpu", "89ab"), nullptr);
}

TEST(Runs, AreNoSectionOfADatabaseWithoutThem) {
  EXPECT_THAT(ProfileDatabase().print(), ::testing::Not(::testing::HasSubstr("runs")));
}

TEST(Runs, AreNoPrices) {
  ProfileDatabase database;
  database.add("cpu", "key", 1, {.forward_ns = 3});
  const std::string before = database.fingerprint("cpu");
  database.add_run("cpu", "0123", {{"forward", {5}}});
  EXPECT_EQ(database.fingerprint("cpu"), before);
}

TEST(Runs, InvalidOnesAreLocated) {
  for (const char* run : {R"({})", R"([1])", R"({"forward": 3})", R"({"forward": [1.5]})", R"({"forward": [-1]})",
                          R"({"forward": ["1"]})", R"({"forward": [2000000000000000000]})"}) {
    const std::string text = std::string(R"({"rannc_profile": 2, "environments": {}, "tasks": {}, "blocks": {}, )") +
                             R"("exchanges": {}, "runs": {"cpu": {"0123": )" + run + "}}}";
    const auto parsed = ProfileDatabase::parse(text, "p.json");
    ASSERT_FALSE(parsed.ok()) << run;
    EXPECT_THAT(parsed.diagnostic().str(), ::testing::HasSubstr("runs/cpu/0123")) << run;
  }
}

}  // namespace
}  // namespace rannc::partition
