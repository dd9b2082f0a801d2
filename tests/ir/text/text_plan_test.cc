// Text of plans: round trips, located errors, hostile input.
#include <gtest/gtest.h>

#include <random>

#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_plan.h"

namespace rannc::ir {
namespace {

TEST(TextPlan, RandomPlansRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const testing::PlanShape shape{1 + static_cast<uint32_t>(seed % 4),
                                   1 + static_cast<uint32_t>(seed / 4 % 3),
                                   7,
                                   1 + static_cast<uint32_t>(seed % 5),
                                   seed % 2 == 0,
                                   seed % 3 == 0};
    const Plan plan = testing::small_plan(testing::random_graph({.seed = seed, .tasks = 20}), shape);
    const auto found = verify(plan);
    ASSERT_TRUE(found.empty()) << found[0].str();
    const std::string text = print(plan);
    const auto again = parse_plan(text, "t.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str() << "\n" << text;
    EXPECT_TRUE(equal(plan, *again)) << text << "\n" << print(*again);
    EXPECT_EQ(print(*again), text);
  }
}

// With limits from one gradient per bucket to one bucket per stage.
TEST(TextPlan, BucketsRoundTrip) {
  size_t most = 0;
  for (const uint64_t limit : {uint64_t{0}, uint64_t{64}, kBucketBytes}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", limit " << limit);
      Plan plan = testing::small_plan(testing::random_graph({.seed = seed, .tasks = 20}),
                                      {.replicas = 2, .bucket_bytes = limit});
      for (size_t s = 0; s < plan.stages.size(); ++s) {
        most = std::max(most, plan.stages[s].buckets.size());
        for (size_t b = 0; b < plan.stages[s].buckets.size(); ++b)
          plan.finish_times[s].sums.push_back({static_cast<int64_t>(10 * s + b), static_cast<int64_t>(b)});
      }
      const auto found = verify(plan);
      ASSERT_TRUE(found.empty()) << found[0].str();
      const std::string text = print(plan);
      const auto again = parse_plan(text, "t.rir");
      ASSERT_TRUE(again.ok()) << again.diagnostic().str() << "\n" << text;
      EXPECT_TRUE(equal(plan, *again)) << text << "\n" << print(*again);
      EXPECT_EQ(print(*again), text);
      for (size_t s = 0; s < plan.stages.size(); ++s) {
        EXPECT_EQ(again->stages[s].buckets, plan.stages[s].buckets);
        EXPECT_EQ(again->finish_times[s].sums, plan.finish_times[s].sums);
        if (plan.stages[s].buckets.empty()) continue;
        EXPECT_NE(text.find("\nbucket @s" + std::to_string(s) + " %"), std::string::npos) << text;
        EXPECT_NE(text.find(" sum_ns " + std::to_string(10 * s) + " ahead_ns 0"), std::string::npos) << text;
      }
    }
  }
  EXPECT_GT(most, 1U);
}

TEST(TextPlan, WrongBucketsAreErrors) {
  const std::string text = print(testing::small_plan(testing::random_graph({.seed = 3}), {.stages = 1, .replicas = 2}));
  const size_t at = text.find("\nbucket ") + 1;
  ASSERT_NE(at, 0U) << text;
  const auto expect_error = [&](const std::string& line) {
    std::string changed = text;
    changed.replace(at, text.find('\n', at) - at, line);
    const auto parsed = parse_plan(changed, "t.rir");
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_EQ(parsed.diagnostic().where.line,
              std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1)
        << parsed.diagnostic().str();
  };
  for (const char* line : {"bucket", "bucket @s0", "bucket @s99 %w", "bucket @s0 %nothing", "bucket @s0 3"})
    expect_error(line);
}

TEST(TextPlan, InstructionSetsRoundTrip) {
  for (const InstructionSet set : kInstructionSets) {
    SCOPED_TRACE(str(set));
    Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
    plan.devices[0].instructions = set;
    const std::string text = print(plan);
    EXPECT_EQ(text.find(" instructions ") != std::string::npos, set != kDefaultInstructions);
    const auto again = parse_plan(text, "t.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    EXPECT_TRUE(equal(plan, *again));
    EXPECT_EQ(again->devices[0].instructions, set);
  }
}

TEST(TextPlan, OptimizersRoundTrip) {
  Grouping grouping{.groups = {parse_group("*: rate=0.1x, weight_decay=0").value()}, .no_decay = true, .average = 0.9};
  for (const PlanOptimizer& optimizer : {PlanOptimizer{"sgd", 0, false, {}},
                                         {"sgd", 0.9, false, {}},
                                         {"adam", 0, true, {}},
                                         {"muon", 0.9, false, {.no_decay_embeddings = true}},
                                         {"adafactor", 0, false, grouping}}) {
    SCOPED_TRACE(optimizer.name);
    Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
    plan.optimizer = optimizer;
    const std::string text = print(plan);
    EXPECT_NE(text.find("\noptimizer " + optimizer.name), std::string::npos) << text;
    const auto again = parse_plan(text, "t.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    EXPECT_EQ(again->optimizer, optimizer);
    EXPECT_EQ(print(*again), text);
  }
}

// Statements that memory reads before the plan is verified.
TEST(TextPlan, DamagedStateIsAnError) {
  const Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  const std::string text = print(plan);
  const size_t at = text.find("inputs [");
  ASSERT_NE(at, std::string::npos);
  std::string name;
  for (const ValueId value : plan.graph.values()) {
    if (plan.graph.kind(value) == ValueKind::kParameter) name = plan.graph.value(value).name;
  }
  for (const char* part : {"from [100000000000] extent [2] axes [0]", "from [0] extent [2] axes [7]",
                           "from [0,0,0] extent [1,1,1] axes [0,1,2]", "from [0] extent [-2] axes [0]"}) {
    const std::string line = "state \"x\" [2] = %\"" + name + "\" " + part + "\n";
    const auto broken = parse_plan(text.substr(0, at) + line + text.substr(at), "t.rir");
    EXPECT_FALSE(broken.ok()) << line;
  }
}

TEST(TextPlan, TimesOncePerStepRoundTrip) {
  Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  EXPECT_EQ(print(plan).find("begin"), std::string::npos);
  EXPECT_EQ(print(plan).find("gradients_ns"), std::string::npos);
  plan.begin_ns.assign(plan.stages.size(), 0);
  plan.begin_ns.back() = 70;
  plan.finish_times.back().gradients_ns = 30;
  const std::string text = print(plan);
  const std::string last = std::to_string(plan.stages.size() - 1);
  EXPECT_NE(text.find("\nbegin @s" + last + " ns 70\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" gradients_ns 30\n"), std::string::npos) << text;
  const auto again = parse_plan(text, "t.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_TRUE(equal(plan, *again));
  EXPECT_EQ(print(*again), text);
}

TEST(TextPlan, AssumedSizesRoundTrip) {
  Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  plan.sizes = {{"past length", 4}, {"sequence", 16}};
  const std::string text = print(plan);
  EXPECT_NE(text.find("\nsize \"past length\" 4\nsize sequence 16\n"), std::string::npos) << text;
  const auto again = parse_plan(text, "t.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_EQ(again->sizes, plan.sizes);
  EXPECT_EQ(print(*again), text);
}

TEST(TextPlan, ClonesAreEqualAndTheirOwn) {
  const Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  Plan copy = plan.clone();
  EXPECT_TRUE(equal(plan, copy));
  EXPECT_EQ(print(plan), print(copy));
  copy.optimizer.name = "adam";
  EXPECT_FALSE(equal(plan, copy));
  copy = plan.clone();
  copy.schedule.lowered = false;
  EXPECT_FALSE(equal(plan, copy));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Texts from before schedules said that they are lowered.
TEST(TextPlan, OlderSchedulesOfPlansAreLowered) {
  for (const bool training : {true, false}) {
    Plan plan = testing::small_plan(testing::random_graph({.seed = 3}), {1});
    if (!training) {
      plan.training = false;
      plan.optimizer = {};
      derive_routes(plan);
      for (auto& row : plan.schedule.rows) {
        std::erase_if(row, [](const Action& action) { return action.kind != ActionKind::kForward; });
      }
    }
    const std::string older = replaced(print(plan), "schedule gpipe lowered\n", "schedule gpipe\n");
    const auto again = parse_plan(older, "t.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    EXPECT_TRUE(equal(plan, *again)) << older;
  }
}

TEST(TextPlan, CommentsAndBlankLinesAreDropped) {
  const Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  std::string text;
  for (const char c : print(plan)) text += c == '\n' ? std::string("  // 1.5 GiB\n\n") : std::string(1, c);
  const auto again = parse_plan(text, "t.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_TRUE(equal(plan, *again));
}

TEST(TextPlan, ErrorsSayWhere) {
  const std::string text = print(testing::small_plan(testing::random_graph({.seed = 3})));
  const auto line_of = [&](std::string_view start) {
    return 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(text.find(start)), '\n');
  };
  const struct {
    std::string from, to, message;
  } faults[] = {
      {"\nplan \"even cut\"", "\nplan even", "planner"},
      {"\nstage @s1", "\nstage @s2", "expected stage @s1, found @s2"},
      {"\ndevice d1", "\ndevice d0", "expected device d1, found d0"},
      {"\nroute 0 %", "\nroute 0 %no_such_", "no value"},
      {"\nblock b0 tasks [#", "\nblock b0 tasks [#99999,#", "#99999 does not exist"},
      {"\npredict d0 busy_ns 5000", "\npredict d0 busy_ns -1", "a number"},
      {"\nd0: F0.0", "\nd0: Q0.0", "`Q0.0` is no action"},
      {"\nstep_ns", "\nstep_s", "a statement"},
  };
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.to);
    const auto result = parse_plan(replaced(text, fault.from, fault.to), "t.rir");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().where.line, line_of(fault.from) + 1) << result.diagnostic().str();
    EXPECT_NE(result.diagnostic().message.find(fault.message), std::string::npos) << result.diagnostic().str();
  }
}

TEST(TextPlan, DraftsHaveTheCutAlone) {
  const Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  std::string text = print(plan);
  for (const char* statement : {"\nroute ", "\nshare ", "\ntime ", "\nfinish ", "\npredict ", "\nstep_ns "}) {
    for (size_t at = text.find(statement); at != std::string::npos; at = text.find(statement))
      text.erase(at, text.find('\n', at + 1) - at);
  }
  for (const std::string& each : {print(plan), text}) {
    const auto draft = parse_draft(each, "t.rir");
    ASSERT_TRUE(draft.ok()) << draft.diagnostic().str();
    EXPECT_EQ(draft->plan.stages, plan.stages);
    EXPECT_EQ(draft->plan.devices, plan.devices);
    EXPECT_EQ(draft->plan.micro_batches, plan.micro_batches);
    EXPECT_TRUE(draft->plan.routes.empty() && draft->plan.predictions.empty() && draft->plan.stage_times.empty());
    EXPECT_EQ(draft->schedule, plan.schedule.name);
    const auto rows = parse_schedule(draft->computations, pipeline_shape(plan), "t.rir");
    ASSERT_TRUE(rows.ok()) << rows.diagnostic().str();
    for (size_t d = 0; d < plan.schedule.rows.size(); ++d) {
      std::vector<Action> computed = plan.schedule.rows[d];
      std::erase_if(computed, [](const Action& action) {
        return action.kind != ActionKind::kForward && action.kind != ActionKind::kBackward;
      });
      EXPECT_EQ(rows->rows[d], computed);
    }
  }
}

TEST(TextPlan, DraftsKeepTheRulesOfCuts) {
  const std::string text = print(testing::small_plan(testing::random_graph({.seed = 3})));
  EXPECT_EQ(parse_draft(replaced(text, "mini_batch 7", "mini_batch 8"), "t.rir").diagnostic().rule, "P8");
  EXPECT_EQ(parse_draft(text.substr(0, text.find("\nschedule ") + 1), "t.rir").diagnostic().rule, "P13");
  EXPECT_FALSE(parse_draft(replaced(text, "rannc.plan 1", "rannc.plan 2"), "t.rir").ok());
}

TEST(TextPlan, TheParserVerifies) {
  const std::string text = print(testing::small_plan(testing::random_graph({.seed = 3})));
  const auto result = parse_plan(replaced(text, "mini_batch 7", "mini_batch 8"), "t.rir");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().rule, "P8") << result.diagnostic().str();
}

// A verifier's message is placed at the statement of what it names.
TEST(TextPlan, BrokenRulesAreLocated) {
  const std::string text = print(testing::small_plan(testing::random_graph({.seed = 3})));
  const auto line_of = [](const std::string& in, std::string_view start) {
    return 1 + std::count(in.begin(), in.begin() + static_cast<ptrdiff_t>(in.find(start)) + 1, '\n');
  };
  const struct {
    std::string from, to, line, rule;
  } faults[] = {
      {"mini_batch 7", "mini_batch 8", "\ntraining", "P8"},
      {"lower_bound_ns 6000", "lower_bound_ns 60000", "\nstep_ns", "P11"},
      {"device d1 \"node0/cpu1\"", "device d1 \"node0/cpu0\"", "\ndevice d1", "P7"},
      {"devices [d1]", "devices []", "\nstage @s1", "P7"},
      {"d1 busy_ns 5000 peak_bytes 100000", "d1 busy_ns 5000 peak_bytes 9999999999", "\ndevice d1", "P10"},
      {" gradient", "", "\nroute 0", "P5"},
  };
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.to);
    const std::string broken = replaced(text, fault.from, fault.to);
    const auto result = parse_plan(broken, "t.rir");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().rule, fault.rule) << result.diagnostic().str();
    EXPECT_EQ(result.diagnostic().where.file, "t.rir");
    EXPECT_EQ(result.diagnostic().where.line, line_of(broken, fault.line)) << result.diagnostic().str();
  }
}

TEST(TextPlan, MutatedTextNeverCrashes) {
  std::mt19937_64 random(21);
  std::vector<std::string> bases;
  for (uint64_t seed : {3, 4}) {
    bases.push_back(print(testing::small_plan(testing::random_graph({.seed = seed, .tasks = 10}),
                                              {2, 1 + static_cast<uint32_t>(seed % 2)})));
  }
  const std::string_view pieces[] = {"0", "9",  "#0", "@s1",        "d0",   "[]",      ",",
                                     "-", "\n", " ",  "4294967295", "F0.0", "RA0.0<d0"};
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string text = bases[i % bases.size()];
    const size_t start = random() % 4 == 0 ? 0 : text.find("\nplan ");  // most mutations hit the plan, not its graph
    for (uint64_t edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t at = start + random() % (text.size() - start);
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>('0' + random() % 10);
          break;
        case 1:
          text.erase(at, 1 + random() % 6);
          break;
        case 2:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    const auto result = parse_plan(text, "t.rir");
    if (!result.ok()) continue;
    ++accepted;
    const auto again = parse_plan(print(*result), "t.rir");
    ASSERT_TRUE(again.ok()) << "mutation " << i << ": " << again.diagnostic().str();
    ASSERT_TRUE(equal(*result, *again)) << "mutation " << i;
  }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace rannc::ir
