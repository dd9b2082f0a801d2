/// Patterns say for any number of micro-batches what rows say for one.
#include "partition/schedule/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition {
namespace {

using ir::PipelineShape;
using testing::HasSubstr;

struct Case {
  std::string name;
  uint32_t ranks = 1, made = 0;  ///< micro-batches of the rows that give the pattern
  uint32_t period = 1;           ///< micro-batches of its period
  uint32_t same_from = 1;        ///< smallest number for which the family has the pattern's rows
};

PipelineShape shape_of(const Case& of, uint32_t micro_batches) {
  return laid_out(find_schedule(of.name)->layout, of.ranks, micro_batches);
}

ir::Schedule family_rows(const Case& of, const PipelineShape& shape) {
  ir::Schedule schedule = make_schedule(shape, {.name = of.name}).value();
  schedule.name.clear();
  return schedule;
}

class PatternOf : public testing::TestWithParam<Case> {};

TEST_P(PatternOf, HasTheRowsOfTheFamily) {
  const PipelineShape made = shape_of(GetParam(), GetParam().made);
  const SchedulePattern pattern = pattern_of(family_rows(GetParam(), made), made).value();
  EXPECT_EQ(counts_of(pattern).period, GetParam().period) << to_string(pattern);
  for (uint32_t m = 1; m <= 40; ++m) {
    SCOPED_TRACE(testing::Message() << m << " micro-batches of " << to_string(pattern));
    const PipelineShape shape = shape_of(GetParam(), m);
    const ir::Schedule rows = rows_of(pattern, shape).value();
    if (m >= GetParam().same_from || m == GetParam().made) {
      EXPECT_EQ(ir::print_compute_rows(rows), ir::print_compute_rows(family_rows(GetParam(), shape)));
    }
    const auto lowered = ir::lower_schedule(shape, rows);
    ASSERT_TRUE(lowered.ok()) << lowered.diagnostic().str();
    EXPECT_EQ(ir::verify_schedule(shape, *lowered), std::vector<Diagnostic>());
  }
}

TEST_P(PatternOf, TextRoundTrips) {
  const PipelineShape made = shape_of(GetParam(), GetParam().made);
  const SchedulePattern pattern = pattern_of(family_rows(GetParam(), made), made).value();
  const std::string text = to_string(pattern);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto read = parse_pattern(text);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_EQ(*read, pattern);
  EXPECT_EQ(to_string(*read), text);
}

INSTANTIATE_TEST_SUITE_P(Families, PatternOf,
                         testing::Values(Case{"1f1b", 1, 4}, Case{"1f1b", 4, 7}, Case{"1f1b", 4, 16},
                                         Case{"dapple-b", 3, 9}, Case{"zb-h1", 4, 12}, Case{"zb-h2", 3, 16},
                                         Case{"interleaved", 4, 24, 4}, Case{"interleaved", 3, 12, 3},
                                         Case{"zb-v", 3, 16}, Case{"zb-v", 4, 20}, Case{"v-half", 4, 24, 1, 6},
                                         Case{"v-min", 4, 24}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name + "_" + std::to_string(info.param.ranks) + "_" + std::to_string(info.param.made);
                         });

TEST(Pattern, Of1F1BIsShort) {
  const PipelineShape shape = ir::chain_shape(3, 8);
  const SchedulePattern pattern = pattern_of(make_schedule(shape, {.name = "1f1b"}).value(), shape).value();
  EXPECT_EQ(to_string(pattern), "F0 F0 [F0 B0]* B0 B0; F1 [F1 B1]* B1; [F2 B2]*");
}

TEST(Pattern, OfRowsWithoutPeriodRepeatsThemWhole) {
  const PipelineShape shape = ir::chain_shape(2, 3);
  const ir::Schedule rows = ir::parse_schedule("0: F0 F1 F2 B0 B1 B2\n1: F0 B0 F1 F2 B1 B2\n", shape).value();
  const SchedulePattern pattern = pattern_of(rows, shape).value();
  EXPECT_EQ(to_string(pattern), "[F0 F0 F0 B0 B0 B0]*; [F1 B1 F1 F1 B1 B1]*");
  EXPECT_EQ(ir::print_compute_rows(rows_of(pattern, ir::chain_shape(2, 4)).value()),
            "0: F0 F1 F2 B0 B1 B2 F3 B3\n1: F0 B0 F1 F2 B1 B2 F3 B3\n");
  EXPECT_EQ(ir::print_compute_rows(rows_of(pattern, ir::chain_shape(2, 2)).value()),
            "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n");
}

/// Rows of a chain in which each device computes what can be computed, in a random order.
ir::Schedule random_rows(const PipelineShape& shape, std::mt19937_64& random) {
  struct Next {
    uint32_t forward = 0, input = 0, weight = 0;
  };
  const size_t stages = shape.stages.size();
  std::vector<Next> next(stages);
  ir::Schedule schedule;
  schedule.rows.resize(shape.devices);
  for (size_t left = 3 * stages * shape.micro_batch_count(); left > 0;) {
    const size_t s = random() % stages;
    auto& [forward, input, weight] = next[s];
    std::vector<std::pair<ir::ActionKind, uint32_t*>> possible;
    if (forward < shape.micro_batch_count() && (s == 0 || next[s - 1].forward > forward))
      possible.emplace_back(ir::ActionKind::kForward, &forward);
    if (input < forward && (s + 1 == stages || next[s + 1].input > input))
      possible.emplace_back(ir::ActionKind::kInputGradient, &input);
    if (weight < input) possible.emplace_back(ir::ActionKind::kWeightGradient, &weight);
    if (possible.empty()) continue;
    const auto& [kind, number] = possible[random() % possible.size()];
    const DeviceId device = shape.stages[s].devices[0];
    schedule.rows[device.index()].push_back(ir::compute_action(kind, StageId::from(s), (*number)++));
    --left;
  }
  return schedule;
}

/// A pattern whose rows may deadlock.
SchedulePattern random_pattern(const PipelineShape& shape, std::mt19937_64& random) {
  std::vector<std::vector<size_t>> stages(shape.devices);
  for (size_t s = 0; s < shape.stages.size(); ++s) stages[shape.stages[s].devices[0].index()].push_back(s);
  const size_t period = 1 + random() % 2;
  std::string text;
  for (const auto& own : stages) {
    std::vector<std::string> before, between, after;
    const size_t fixed = period * (random() % 4);
    for (const size_t s : own) {
      size_t most = fixed;
      for (const char kind : {'F', 'I', 'W'}) {
        const std::string word = std::string(1, kind) + std::to_string(s);
        const size_t early = most - random() % (most + 1);
        before.insert(before.end(), early, word);
        after.insert(after.end(), fixed - early, word);
        between.insert(between.end(), period, word);
        most = early;
      }
    }
    std::shuffle(between.begin(), between.end(), random);
    for (const auto& word : before) text += word + " ";
    text += "[ ";
    for (const auto& word : between) text += word + " ";
    text += "]* ";
    for (const auto& word : after) text += word + " ";
    text += "\n";
  }
  return parse_pattern(text).value();
}

TEST(Pattern, OfRandomRowsRunsForAnyNumberOfMicroBatches) {
  std::mt19937_64 random(7);
  size_t repeated = 0;
  for (int round = 0; round < 4'000; ++round) {
    const auto ranks = static_cast<uint32_t>(1 + random() % 3);
    const StageLayout layout = random() % 2 == 0 ? StageLayout::kOnePerRank : StageLayout::kV;
    uint32_t made = static_cast<uint32_t>(1 + random() % 6);
    ir::Schedule rows;
    if (round % 2 == 0) {
      rows = random_rows(laid_out(layout, ranks, made), random);
    } else {
      const SchedulePattern cycle = random_pattern(laid_out(layout, ranks, 1), random);
      const auto [fixed, period] = counts_of(cycle);
      made = fixed + period * (1 + random() % 3);
      rows = rows_of(cycle, laid_out(layout, ranks, made)).value();
    }
    const PipelineShape shape = laid_out(layout, ranks, made);
    const auto given = ir::lower_schedule(shape, rows);
    if (!given.ok() || !ir::verify_schedule(shape, *given, 1).empty()) continue;
    const SchedulePattern pattern = pattern_of(rows, shape).value();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << ir::print_compute_rows(rows) << to_string(pattern));
    EXPECT_EQ(rows_of(pattern, shape).value().rows, rows.rows);
    EXPECT_EQ(parse_pattern(to_string(pattern)).value(), pattern);
    repeated += counts_of(pattern).period < made;
    for (uint32_t m = 1; m <= 20; ++m) {
      const PipelineShape other = laid_out(layout, ranks, m);
      const auto lowered = ir::lower_schedule(other, rows_of(pattern, other).value());
      ASSERT_TRUE(lowered.ok()) << m << ": " << lowered.diagnostic().str();
      ASSERT_EQ(ir::verify_schedule(other, *lowered), std::vector<Diagnostic>()) << m;
    }
  }
  EXPECT_GT(repeated, 100u);
}

/// F I W repeats in all rows, early in some and late in others. Without these repetitions the rest would deadlock.
TEST(Pattern, OfRowsThatWouldDeadlockForFewerMicroBatchesIsLonger) {
  const PipelineShape shape = ir::chain_shape(3, 6);
  const ir::Schedule rows = ir::parse_schedule(
                                "0: F0 F1 I0 W0 I1 F2 F3 W1 F4 I2 W2 F5 I3 W3 I4 W4 I5 W5\n"
                                "1: F0 I0 W0 F1 I1 W1 F2 I2 F3 W2 F4 F5 I3 W3 I4 W4 I5 W5\n"
                                "2: F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3 F4 I4 W4 F5 I5 W5\n",
                                shape)
                                .value();
  EXPECT_EQ(counts_of(pattern_of(rows, shape).value()).period, 6u);
}

/// An R belongs to the next micro-batch whose backward pass does not directly follow its forward pass.
TEST(Pattern, KeepsRecomputes) {
  for (const auto which : {ir::RecomputedMicroBatches::kUnlessBackwardFollows, ir::RecomputedMicroBatches::kAll}) {
    const auto shape_for = [](uint32_t micro_batches) {
      PipelineShape shape = ir::chain_shape(3, micro_batches);
      for (auto& stage : shape.stages) stage.recompute = true;
      return shape;
    };
    const auto rows_for = [&](uint32_t micro_batches) {
      return make_schedule(shape_for(micro_batches), {.name = "1f1b", .recomputed = which}).value();
    };
    const SchedulePattern pattern = pattern_of(rows_for(9), shape_for(9)).value();
    EXPECT_EQ(counts_of(pattern).period, 1u);
    EXPECT_THAT(to_string(pattern), HasSubstr("[F0 R0 B0]* R0 B0 R0 B0"));
    for (uint32_t m = 3; m <= 20; ++m) {
      EXPECT_EQ(ir::print_compute_rows(rows_of(pattern, shape_for(m)).value()), ir::print_compute_rows(rows_for(m)));
    }
  }
}

TEST(Pattern, FitsReplicasAndAnyNumbersOfDevices) {
  const SchedulePattern pattern = parse_pattern("F0 [F0 B0]* B0\n[F1 B1]*").value();
  PipelineShape shape = ir::chain_shape(2, 3);
  shape.devices = 3;
  shape.stages[0].devices = {DeviceId(2), DeviceId(0)};
  EXPECT_EQ(ir::print_compute_rows(rows_of(pattern, shape).value()),
            "0: F0 F1 B0 F2 B1 B2\n1: F0 B0 F1 B1 F2 B2\n2: F0 F1 B0 F2 B1 B2\n");
}

TEST(Pattern, RefusesOtherStages) {
  const auto why = [](const char* text, const PipelineShape& shape) {
    const auto rows = rows_of(parse_pattern(text).value(), shape);
    return rows.ok() ? std::string() : rows.diagnostic().message;
  };
  EXPECT_THAT(why("[F0 B0]*", ir::chain_shape(2, 3)), HasSubstr("no row with stages 1, which device 1 holds"));
  EXPECT_THAT(why("[F0 F1 B1 B0]*", ir::chain_shape(2, 3)), HasSubstr("no row with stages 0, which device 0 holds"));
  EXPECT_THAT(why("[F0 B0]*; [F1 B1]*", ir::chain_shape(1, 3)), HasSubstr("pattern's row with stage 1"));
  EXPECT_THAT(why("[F0 B0]* F0 B0 F0 B0 R0", ir::chain_shape(1, 3)), HasSubstr("R of stage 0"));
}

TEST(Pattern, OfDescendingMicroBatchesIsRefused) {
  const PipelineShape shape = ir::chain_shape(2, 3);
  const auto pattern = pattern_of(make_schedule(shape, {.name = "gpipe"}).value(), shape);
  ASSERT_FALSE(pattern.ok());
  EXPECT_EQ(pattern.diagnostic().message, "the rows have no pattern: B0.2 on device 0 stands where B0.0 was expected");
  const ir::Schedule ascending = in_ascending_order(make_schedule(shape, {.name = "gpipe"}).value(), shape).value();
  EXPECT_EQ(ir::print_compute_rows(ascending), "0: F0 F1 F2 B0 B1 B2\n1: F0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(to_string(pattern_of(ascending, shape).value()), "[F0 F0 F0 B0 B0 B0]*; [F1 F1 F1 B1 B1 B1]*");
}

TEST(Pattern, ErrorsNameThePlace) {
  struct Fault {
    const char *text, *place, *message;
  };
  for (const Fault& one : {
           Fault{"", "p:1: ", "a pattern has at least one row"},
           {"F0 [F0 B0]* B0; F1 [X1]*", "p:1:21: ", "`X1` is no action of a pattern"},
           {"F0 [F0 B0]* B0; F1 [SA1]*", "p:1:21: ", "`SA1` is no action of a pattern"},
           {"F0 [F0 B0.1]*", "p:1:8: ", "`B0.1` is no action"},
           {"# text\nF0 F0 B0", "p:2:1: ", "the row has no period"},
           {"F0 [F0 B0", "p:1:1: ", "has no end"},
           {"F0 [F0 [B0]*", "p:1:8: ", "one period"},
           {"F0 [F0 B0] B0", "p:1:10: ", "expected `]*`"},
           {"F0 B0]*", "p:1:6: ", "`]` without `[`"},
           {"[F0 B0]*;  []*", "p:1:12: ", "the period is empty"},
           {"[F0 B0]*\n[F0 B0]*", "p:2:1: ", "row 0 already has stage 0"},
           {"[F0 B0]*\nF1 [B1]*", "p:2:1: ", "the period has no F of stage 1"},
           {"F1 [F0 B0]* B1", "p:1:1: ", "the period has no action of stage 1"},
           {"[F0 B0]*; [F1 F1 B1 B1]*", "p:1:11: ", "a period has 2 F of stage 1, where 1 of another were found"},
           {"[F0 I0]*", "p:1:1: ", "a period has 0 W of stage 0, where 1 I were found"},
           {"F0 [F0 B0]* B0 B0", "p:1:1: ", "a warm-up with its drain has 2 B or I of stage 0, where 1 F were found"},
           {"F0 [F0 B0]*", "p:1:1: ", "only some parts and stages have a B or I"},
           {"[F0 B0 F0 B0]*; F1 [F1 F1 B1 B1]* B1", "p:1:17: ", "has 1 F of stage 1, which is no multiple"},
       }) {
    const auto read = parse_pattern(one.text, "p");
    ASSERT_FALSE(read.ok()) << one.text;
    EXPECT_THAT(read.diagnostic().str(), HasSubstr(one.place)) << one.text;
    EXPECT_THAT(read.diagnostic().message, HasSubstr(one.message)) << one.text;
  }
}

}  // namespace
}  // namespace rannc::partition
