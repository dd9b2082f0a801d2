// Cost models and the profile database.
#include <gtest/gtest.h>

#include <random>

#include "partition/cost/analytic.h"
#include "partition/cost/profile_database.h"
#include "partition/cost/table.h"

namespace rannc::partition {
namespace {

const DeviceKind kDevice{"d", 1 << 30, 1e12, 1e11, 500};

TEST(AnalyticCosts, TakeTheLargerOfWorkAndTraffic) {
  const auto model = analytic_costs();
  TaskFacts facts{"k", "matmul", 2e9, 1e6, 4096, 1000, true};
  const TaskCost compute = model->price(facts, 1, kDevice).value();
  EXPECT_DOUBLE_EQ(compute.forward_ns, 2e6 + 500);
  EXPECT_DOUBLE_EQ(compute.backward_ns(), 2 * (2e6 + 500));
  facts.traffic_bytes = 1e9;
  facts.parameter_bytes = 0;
  const TaskCost traffic = model->price(facts, 1, kDevice).value();
  EXPECT_DOUBLE_EQ(traffic.forward_ns, 1e7 + 500);
  EXPECT_DOUBLE_EQ(traffic.weight_gradient_ns, 0);
}

TEST(SizeCurve, IsLinearBetweenItsEntriesOnly) {
  const SizeCurve curve{{1, {.forward_ns = 100}}, {4, {.forward_ns = 130}}, {8, {.forward_ns = 250}}};
  EXPECT_DOUBLE_EQ(at_samples(curve, 1).forward_ns, 100);
  EXPECT_DOUBLE_EQ(at_samples(curve, 2).forward_ns, 110);
  EXPECT_DOUBLE_EQ(at_samples(curve, 6).forward_ns, 190);
  EXPECT_DOUBLE_EQ(at_samples(curve, 12).forward_ns, 370);
  EXPECT_DOUBLE_EQ(at_samples({{4, {.forward_ns = 40}}}, 2).forward_ns, 20);
}

TEST(TableCosts, NameTheTaskTheyDoNotKnow) {
  const auto model = table_costs({{"known", {{1, {.forward_ns = 3}}}}});
  EXPECT_DOUBLE_EQ(model->price({"known", "add"}, 2, kDevice)->forward_ns, 6);
  EXPECT_NE(model->price({"other", "add 'layer1'"}, 2, kDevice).diagnostic().message.find("add 'layer1'"),
            std::string::npos);
}

ProfileDatabase sample_database() {
  ProfileDatabase database;
  database.describe("cpu-1", {{"device", "cpu"}, {"library", "libtorch 2.11.0"}});
  for (const uint64_t samples : {1, 2, 8}) {
    const double n = static_cast<double>(samples);
    database.add("cpu-1", "core.linear f32[B,4]x[4,4]", samples, {10 * n, 11 * n, 12 * n, 10 * n, 16 * n, -8 * n, 3});
  }
  database.add("cpu-1", "core.relu f32[B,4]", 1, {.forward_ns = 1.5});
  return database;
}

TEST(ProfileDatabase, ReadsWhatItPrints) {
  const ProfileDatabase database = sample_database();
  EXPECT_EQ(ProfileDatabase::parse(database.print(), "p.json").value(), database);
  EXPECT_EQ(database.entries("cpu-1"), 2u);
}

TEST(ProfileDatabase, FingerprintFollowsTheNumbers) {
  ProfileDatabase database = sample_database();
  const std::string before = database.fingerprint("cpu-1");
  EXPECT_EQ(before, sample_database().fingerprint("cpu-1"));
  database.add("cpu-2", "core.relu f32[B,4]", 1, {.forward_ns = 2});
  EXPECT_EQ(before, database.fingerprint("cpu-1"));
  database.add("cpu-1", "core.relu f32[B,4]", 1, {.forward_ns = 2});
  EXPECT_NE(before, database.fingerprint("cpu-1"));
}

TEST(MeasuredCosts, FallBackOnlyWhereNothingWasMeasured) {
  const std::shared_ptr<const CostModel> analytic = analytic_costs();
  const auto model = measured_costs(sample_database(), "cpu-1", analytic);
  EXPECT_DOUBLE_EQ(model->price({"core.linear f32[B,4]x[4,4]", ""}, 4, kDevice)->forward_ns, 40);
  EXPECT_DOUBLE_EQ(model->price({"core.exp f32[B]", ""}, 4, kDevice)->forward_ns, 500);
  const auto strict = measured_costs(sample_database(), "cpu-1", nullptr);
  EXPECT_FALSE(strict->price({"core.exp f32[B]", "exp"}, 4, kDevice).ok());
}

TEST(ProfileDatabase, RejectsForeignNewerAndDamagedFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not a complete JSON"},
      {"{\"rannc_profile\": 1, \"entr", "not a complete JSON"},
      {"[]", "not a profile database"},
      {"{\"rannc_profile\": 2}", "version 2"},
      {R"({"rannc_profile":1,"entries":{"e":{"k":{"0":{}}}}})", "'0' is not a number of samples"},
      {R"({"rannc_profile":1,"entries":{"e":{"k":{"1":{"forward_ns":-1}}}}})", "'forward_ns' is -1"},
      {R"({"rannc_profile":1,"entries":{"e":{"k":{"1":{"forward":1}}}}})", "unknown quantity 'forward'"},
      {R"({"rannc_profile":1,"entries":{"e":{"k":3}}})", "maps numbers of samples"},
      {R"({"rannc_profile":1,"entries":7})", "must be an object"},
      {R"({"rannc_profile":1,"environments":7})", "must be an object"},
  };
  for (const auto& [text, message] : cases) {
    const auto result = ProfileDatabase::parse(text, "p.json");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.diagnostic().where.file, "p.json");
    EXPECT_NE(result.diagnostic().message.find(message), std::string::npos) << result.diagnostic().str();
  }
}

TEST(ProfileDatabase, MutatedFilesNeverCrash) {
  std::mt19937_64 random(5);
  const std::string original = sample_database().print();
  for (int i = 0; i < 3000; ++i) {
    std::string text = original;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) text[at] = static_cast<char>(random() % 128);
      else text.erase(at, 1 + random() % 5);
    }
    const auto result = ProfileDatabase::parse(text, "mutated");
    EXPECT_TRUE(!result.ok() || !result->print().empty());
  }
}

}  // namespace
}  // namespace rannc::partition
