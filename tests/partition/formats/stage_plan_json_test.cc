// Stage plans survive their file; files that are none end in a diagnostic that names the field.
#include "partition/formats/stage_plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace rannc::partition {
namespace {

using ::testing::HasSubstr;

StagePlan random_plan(std::mt19937_64& random) {
  StagePlan plan;
  const auto number = [&] { return std::uniform_real_distribution<>(0, 1e12)(random); };
  plan.planner = "auto";
  plan.schedule = "warmup";
  plan.objective_name = "simulated time of a mini-batch, ns";
  plan.bound_name = "work";
  plan.bottleneck = "stage 0 \"takes\" long\n";
  plan.objective = number();
  plan.step_ns = number();
  plan.lower_bound = number();
  plan.micro_batches = 1 + random() % 64;
  uint32_t block = 0, device = 0;
  for (size_t s = 1 + random() % 4; s > 0; --s) {
    PlannedStage stage;
    stage.first = block;
    block += 1 + random() % 9;
    stage.end = block;
    for (size_t d = 1 + random() % 3; d > 0; --d) stage.devices.push_back(DeviceId(device++));
    stage.recompute = random() % 2 == 0;
    stage.forward_ns = number();
    stage.backward_ns = number();
    stage.all_reduce_ns = number();
    stage.exposed_ns = number();
    stage.peak_bytes = number();
    plan.stages.push_back(stage);
    plan.warm_up.push_back(static_cast<uint32_t>(s));
  }
  if (random() % 2 == 0) plan.pattern = parse_pattern("F0 [F0 B0]* B0; [F1 I1 W1]*").value();
  plan.runners_up.push_back({"gpipe: 1:1 at 3", number(), "2 % slower"});
  plan.notes.push_back("found by own search");
  return plan;
}

TEST(StagePlanJson, RoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const StagePlan plan = random_plan(random);
    const StagePlanOrigin origin = seed % 2 == 0 ? StagePlanOrigin{} : StagePlanOrigin{"0123", "4567"};
    const std::string text = write_stage_plan(plan, {}, origin);
    const auto read = read_stage_plan(text, "plan.json");
    ASSERT_TRUE(read.ok()) << read.diagnostic().str();
    EXPECT_EQ(read->plan, plan);
    EXPECT_EQ(read->origin, origin);
    EXPECT_EQ(write_stage_plan(read->plan, {}, read->origin), text);
  }
}

TEST(StagePlanJson, NamesOfBlocksAreForPeople) {
  std::mt19937_64 random(7);
  const StagePlan plan = random_plan(random);
  std::vector<std::string> names;
  for (uint32_t b = 0; b < plan.stages.back().end; ++b) names.push_back("node" + std::to_string(b));
  const std::string text = write_stage_plan(plan, names);
  EXPECT_THAT(text, HasSubstr("node0"));
  EXPECT_EQ(read_stage_plan(text, "plan.json")->plan, plan);
}

TEST(StagePlanJson, BadFilesNameTheField) {
  std::mt19937_64 random(3);
  const std::string good = write_stage_plan(random_plan(random));
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
  };
  const struct {
    std::string text, part;
  } cases[] = {
      {"{", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "format"},
      {replaced("rannc-stage-plan", "other"), "format"},
      {replaced("\"version\": 1", "\"version\": 2"), "version"},
      {replaced("\"objective\":", "\"objectiv\":"), "objective"},
      {replaced("\"first\": 0", "\"first\": -1"), "first"},
      {replaced("\"first\": 0", "\"first\": 0.5"), "first"},
      {replaced("\"first\": 0", "\"first\": \"0\""), "first"},
      {replaced("\"first\": 0", "\"first\": 1e99"), "first"},
      {replaced("\"recompute\": ", "\"recompute\": 7, \"x\": "), "recompute"},
      {replaced("\"stages\": [", "\"stages\": [3, "), "each stage must be an object"},
      {replaced("\"micro_batches\": ", "\"micro_batches\": 0, \"x\": "), "micro_batches"},
      {replaced("\"notes\": [", "\"notes\": [1, "), "notes"},
      {replaced("\"stages\": [", "\"pattern\": 1, \"stages\": ["), "pattern"},
      {replaced("\"stages\": [", "\"pattern\": \"F0 [F0 B0]* B9\", \"stages\": ["),
       "'pattern': error: at column 1: the period has no action of stage 9"},
  };
  for (const auto& one : cases) {
    const auto read = read_stage_plan(one.text, "plan.json");
    ASSERT_FALSE(read.ok()) << one.part;
    EXPECT_THAT(read.diagnostic().str(), HasSubstr("plan.json"));
    EXPECT_THAT(read.diagnostic().str(), HasSubstr(one.part));
  }
}

}  // namespace
}  // namespace rannc::partition
