/// What every schedule promises: it runs, it is exact, it costs what its computations cost.
#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition {
namespace {

using ir::PipelineShape;

/// Of any allocation, one stage per rank.
StageLayout layout_of(std::string_view name) {
  const StageLayout layout = find_schedule(name)->layout;
  return layout == StageLayout::kAny ? StageLayout::kOnePerRank : layout;
}

/// What makes pipelines hard beside their length.
enum class Variant { kPlain, kSkips, kReplicas, kEverything };

/// Rank r runs on 1 + r mod 3 devices.
void replicate(PipelineShape& shape, uint32_t ranks) {
  std::vector<std::vector<DeviceId>> devices(ranks);
  uint32_t next = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t i = 0; i < 1 + rank % 3; ++i) devices[rank].push_back(DeviceId(next++));
  }
  for (auto& stage : shape.stages) stage.devices = devices[stage.devices[0].index()];
  shape.devices = next;
}

PipelineShape shape_of(std::string_view name, Variant variant, uint32_t ranks, uint32_t m) {
  PipelineShape shape = laid_out(layout_of(name), ranks, m);
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  const bool all = variant == Variant::kEverything;
  if (variant == Variant::kSkips || all) {
    for (uint32_t s = 0; s + 2 < stages; ++s) shape.routes.push_back({StageId(s), StageId(s + 2), 1, s % 2 == 0});
    if (stages > 3) shape.routes.push_back({StageId(0), StageId(stages - 1), 1, true});
  }
  if (variant == Variant::kReplicas || all) {
    replicate(shape, ranks);
    for (uint32_t j = 0; j < m; ++j) shape.micro_batches[j] = j % 2 == 0 ? 4 : 1;  // 1: some replicas have no samples
  }
  if (all) {
    if (stages > 1) shape.shared.push_back({{StageId(0), StageId(stages - 1)}, 8});
    if (stages > 2) shape.shared.push_back({{StageId(0), StageId(1), StageId(2)}, 8});
    for (auto& stage : shape.stages) stage.recompute = true;
  }
  return shape;
}

ScheduleSpec spec_of(std::string_view name, const PipelineShape& shape) {
  ScheduleSpec spec{.name = std::string(name), .k = 2};
  const size_t p = shape.stages.size();
  spec.times.forward.assign(p, 1);
  spec.times.backward.assign(p, 2);
  spec.times.hop.assign(p - 1, 0.5);
  for (uint32_t s = 0; s < p; ++s) spec.warmup.push_back(s + 1 < p ? 3 : 1);
  if (name == "found") spec.pattern = pattern_of(make_schedule(shape, {.name = "zb-h1"}).value(), shape).value();
  if (name == "table") spec.table = ir::print_compute_rows(make_schedule(shape, {.name = "gpipe"}).value());
  return spec;
}

class EverySchedule : public testing::TestWithParam<std::string_view> {
 protected:
  template <class Check>
  void over_grid(Check&& check) {
    for (const Variant variant : {Variant::kPlain, Variant::kSkips, Variant::kReplicas, Variant::kEverything}) {
      for (const uint32_t ranks : {1, 2, 3, 4, 5, 8}) {
        for (const uint32_t m : {1, 2, 3, 5, 8, 13, 16}) {
          const PipelineShape shape = shape_of(GetParam(), variant, ranks, m);
          SCOPED_TRACE(testing::Message() << GetParam() << " variant " << static_cast<int>(variant) << ", " << ranks
                                          << " ranks, " << m << " micro-batches");
          check(shape, spec_of(GetParam(), shape));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

/// Grids at least as wide as those of PyTorch's tests, with fewer micro-batches than stages and uneven rounds.
TEST_P(EverySchedule, IsProvedByTheRules) {
  over_grid([](const PipelineShape& shape, const ScheduleSpec& spec) {
    const auto schedule = make_schedule(shape, spec);
    ASSERT_TRUE(schedule.ok()) << schedule.diagnostic().str();
    const auto lowered = ir::lower_schedule(shape, *schedule);
    ASSERT_TRUE(lowered.ok()) << lowered.diagnostic().str() << "\n" << ir::print_compute_rows(*schedule);
    const auto proved = ir::check_schedule(shape, *lowered);
    ASSERT_TRUE(proved.ok()) << proved.diagnostic().str() << "\n" << ir::print_schedule(*lowered);
    ASSERT_EQ(ir::parse_schedule(ir::print_schedule(*lowered), shape).value(), *lowered);
  });
}

/// As where every stage normalises over its replicas, each of which has samples then.
TEST_P(EverySchedule, EndsWhereReplicasWaitForEachOtherInEveryPass) {
  over_grid([](PipelineShape shape, const ScheduleSpec& spec) {
    for (size_t j = 0; j < shape.micro_batches.size(); ++j) shape.micro_batches[j] = j % 2 == 0 ? 4 : 3;
    const auto lowered = ir::lower_schedule(shape, make_schedule(shape, spec).value()).value();
    const auto faults = ir::verify_schedule(shape, lowered, std::vector<bool>(shape.stages.size(), true));
    ASSERT_TRUE(faults.empty()) << faults[0].str() << "\n" << ir::print_schedule(lowered);
  });
}

TEST_P(EverySchedule, LoweringChangesNoTime) {
  over_grid([](const PipelineShape& shape, const ScheduleSpec& spec) {
    const auto schedule = make_schedule(shape, spec).value();
    const auto lowered = ir::lower_schedule(shape, schedule).value();
    const auto costs = uniform_costs(shape, {1, 1.25, 0.75, 1}, 0.5);
    const Timeline a = simulate(shape, schedule, costs).value(), b = simulate(shape, lowered, costs).value();
    ASSERT_DOUBLE_EQ(a.makespan, b.makespan);
    for (uint32_t d = 0; d < shape.devices; ++d) ASSERT_DOUBLE_EQ(a.devices[d].busy, b.devices[d].busy);
  });
}

TEST_P(EverySchedule, ContentionWithoutTrafficChangesNoTime) {
  over_grid([](const PipelineShape& shape, const ScheduleSpec& spec) {
    const auto schedule = ir::lower_schedule(shape, make_schedule(shape, spec).value()).value();
    const auto costs = uniform_costs(shape, {1, 1.25, 0.75, 1}, 0.5);
    const Timeline a = simulate(shape, schedule, costs).value();
    const Timeline b = simulate(shape, schedule, costs, {.contention = true}).value();
    for (uint32_t d = 0; d < shape.devices; ++d) {
      for (size_t i = 0; i < a.spans[d].size(); ++i) {
        ASSERT_DOUBLE_EQ(a.spans[d][i].start, b.spans[d][i].start);
        ASSERT_DOUBLE_EQ(a.spans[d][i].end, b.spans[d][i].end);
      }
    }
  });
}

TEST_P(EverySchedule, EndsUnderRendezvous) {
  over_grid([](const PipelineShape& shape, const ScheduleSpec& spec) {
    const auto schedule = ir::lower_schedule(shape, make_schedule(shape, spec).value()).value();
    const auto costs = uniform_costs(shape, {1, 1.25, 0.75, 1}, 0.5);
    const double buffered = simulate(shape, schedule, costs).value().makespan;
    for (const bool contention : {false, true}) {
      const auto blocking = simulate(shape, schedule, costs, {.contention = contention, .blocking = true});
      ASSERT_TRUE(blocking.ok()) << blocking.diagnostic().str();
      ASSERT_GE(blocking->makespan, buffered - 1e-9);
    }
  });
}

TEST_P(EverySchedule, InferenceIsTheForwardPart) {
  over_grid([](PipelineShape shape, const ScheduleSpec& spec) {
    shape.training = false;
    const auto lowered = ir::lower_schedule(shape, make_schedule(shape, spec).value()).value();
    const auto proved = ir::check_schedule(shape, lowered);
    ASSERT_TRUE(proved.ok()) << proved.diagnostic().str();
  });
}

TEST_P(EverySchedule, SameBytesOnEveryCall) {
  const PipelineShape shape = shape_of(GetParam(), Variant::kEverything, 4, 8);
  const auto once = [&] {
    return ir::lower_schedule(shape, make_schedule(shape, spec_of(GetParam(), shape)).value()).value();
  };
  EXPECT_EQ(ir::digest(once()), ir::digest(once()));
}

INSTANTIATE_TEST_SUITE_P(Names, EverySchedule, testing::ValuesIn(schedule_names()), [](const auto& param) {
  std::string name(param.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

/// K-limited schedules hold as many micro-batches as they are deep, however many there are (D8).
TEST(EarlyBackward, PeakDoesNotDependOnMicroBatches) {
  for (const char* name : {"1f1b", "dapple-b", "zb-h1", "zb-h2"}) {
    const auto peaks = [&](uint32_t m) {
      const PipelineShape shape = ir::chain_shape(4, m);
      std::vector<int64_t> result;
      for (const auto& d : simulate(shape, make_schedule(shape, {.name = name}).value(), {}).value().devices) {
        result.push_back(d.peak_bytes);
      }
      return result;
    };
    EXPECT_EQ(peaks(8), peaks(64)) << name;
  }
}

/// Rows of `text` in a chain, or the error.
Result<ir::Schedule> of_table(const std::string& text, const PipelineShape& shape) {
  return make_schedule(shape, {.name = "table", .table = text, .table_file = "t"});
}

TEST(TableOfRows, IsTakenAsItIsIfItIsLowered) {
  for (const Variant variant : {Variant::kPlain, Variant::kEverything}) {
    const PipelineShape shape = shape_of("1f1b", variant, 4, 5);
    const ir::Schedule lowered = ir::lower_schedule(shape, make_schedule(shape, {.name = "1f1b"}).value()).value();
    const auto taken = of_table(ir::print_schedule(lowered), shape);
    ASSERT_TRUE(taken.ok()) << taken.diagnostic().str();
    EXPECT_EQ(*taken, lowered);
  }
}

TEST(TableOfRows, NamesTheLineOfWhatDoesNotHold) {
  const PipelineShape shape = ir::chain_shape(2, 2);
  const auto changed = [&](const std::string& what, const std::string& by) {
    std::string text =
        ir::print_schedule(ir::lower_schedule(shape, make_schedule(shape, {.name = "1f1b"}).value()).value());
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << text;
    const auto rows = of_table("# lowered\n" + text.replace(at, what.size(), by), shape);
    return rows.ok() ? "taken" : rows.diagnostic().str();
  };
  EXPECT_EQ(changed(" ", " "), "taken");
  EXPECT_NE(changed(" RA0.0<d0", "").find("t:3: error: device 0, action 1: SA0.0>d1 appears"), std::string::npos)
      << changed(" RA0.0<d0", "");
  EXPECT_NE(changed("F1.1 B1.1 SG0.1>d0", "SG0.1>d0 F1.1 B1.1").find("t:4: error: device 1"), std::string::npos)
      << changed("F1.1 B1.1 SG0.1>d0", "SG0.1>d0 F1.1 B1.1");
  EXPECT_NE(changed(" S0", "").find("t:3: error: device 0"), std::string::npos) << changed(" S0", "");
  EXPECT_NE(changed("1f1b lowered", "1f1b asynchronous lowered").find("t: error: schedule 1f1b changes weights"),
            std::string::npos);
}

TEST(TableOfRows, MayBeAPattern) {
  const PipelineShape shape = shape_of("1f1b", Variant::kReplicas, 3, 8);
  const auto rows = of_table("# 1F1B [of three]\nF0 F0 [F0 B0]* B0 B0\nF1 [F1 B1]* B1\n[F2 B2]*\n", shape);
  ASSERT_TRUE(rows.ok()) << rows.diagnostic().str();
  EXPECT_EQ(rows->rows, make_schedule(shape, {.name = "1f1b"}).value().rows);
  EXPECT_EQ(rows->name, "table");
  const auto wrong = of_table("F0 F0 [F0 B0]* B0 B0\nF1 [F1 X1]* B1\n[F2 B2]*\n", shape);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.diagnostic().str().substr(0, 13), "t:2:8: error:") << wrong.diagnostic().str();
}

struct Misuse {
  ScheduleSpec spec;
  PipelineShape shape;
  const char* message;
};

TEST(MakeSchedule, SaysWhyItCannotServe) {
  const PipelineShape line = ir::chain_shape(4, 4), v = laid_out(StageLayout::kV, 2, 4);
  const Misuse kCases[] = {
      {{.name = "1f2b"}, line, "`1f2b` is not a schedule; the schedules are 1f1b, dapple-b, gpipe"},
      {{.name = "gpipe"}, v, "schedule gpipe needs one stage per device: device 1 has stages 1 and 2"},
      {{.name = "zb-v"}, line, "stages 0 and 3 are not on the same devices"},
      {{.name = "zb-v"}, ir::chain_shape(3, 4), "there are 3 stages"},
      {{.name = "interleaved"}, v, "stages 0 and 2 are not on the same devices"},
      {{.name = "warmup", .warmup = {2, 2}}, line, "2 warm-up depths for 4 stages"},
      {{.name = "warmup", .warmup = {2, 3, 1, 1}}, line, "depth 3 of stage 1 exceeds 2"},
      {{.name = "warmup", .warmup = {2, 1, 0, 0}}, line, "depth of stage 2 is 0"},
      {{.name = "latency"}, line, "forward and backward times of all 4 stages"},
      {{.name = "table", .table = "0: F0 X0"}, line, "`X0` is no action"},
      {{.name = "table", .table = "0: F0 S0"}, line, "stage 0, micro-batch 0 on device 0: 1 F, 0 B"},
      {{.name = "table", .table = "[F0 B0]*"}, line, "no row with stages 1"},
      {{.name = "found"}, line, "schedule found has no rows for these stages"},
  };
  for (const Misuse& c : kCases) {
    const auto result = make_schedule(c.shape, c.spec);
    ASSERT_FALSE(result.ok()) << c.message;
    EXPECT_NE(result.diagnostic().message.find(c.message), std::string::npos) << result.diagnostic().str();
  }
}

}  // namespace
}  // namespace rannc::partition
