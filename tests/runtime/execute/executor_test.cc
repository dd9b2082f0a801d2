// The executor over fake programs: what it calls, what it carries, how it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/runtime/execute/fake_pipeline.h"

namespace rannc::testing {
namespace {

using runtime::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanSpec three_stages(std::vector<uint32_t> micro_batches) {
  return {.cuts = {1, 2}, .micro_batches = std::move(micro_batches)};
}

TEST(Executor, CallsProgramsInTheOrderOfTheRow) {
  Pipelined run(three_stages({2, 1, 1}));
  run.go();
  for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_THAT(run.calls(0), ElementsAre("F0.0", "F0.1", "F0.2", "I0.0", "W0.0", "I0.1", "W0.1", "I0.2", "W0.2"));
  EXPECT_THAT(run.calls(1), ElementsAre("F1.0", "F1.1", "I1.0", "W1.0", "F1.2", "I1.1", "W1.1", "I1.2", "W1.2"));
  EXPECT_THAT(run.calls(2), ElementsAre("F2.0", "I2.0", "W2.0", "F2.1", "I2.1", "W2.1", "F2.2", "I2.2", "W2.2"));
}

TEST(Executor, RecomputesWhereTheRowSays) {
  PlanSpec spec = three_stages({1, 1});
  spec.recompute = true;
  Pipelined run(spec);
  run.go();
  for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_THAT(run.calls(0), ::testing::Contains("R0.0"));
  EXPECT_THAT(run.calls(2), ::testing::Not(::testing::Contains("R2.0")))
      << "a backward pass at once needs no recompute";
}

/// The next stage hands on its gradient only once this one has begun to recompute.
TEST(Executor, RecomputesWhileTheGradientIsOnItsWay) {
  std::mutex mutex;
  std::condition_variable changed;
  bool recomputed = false;
  const auto trap = [&](const char* call, const At& at) -> Result<void> {
    std::unique_lock lock(mutex);
    if (call[0] == 'R' && at.stage == StageId(0)) {
      recomputed = true;
      changed.notify_all();
    }
    if (call[0] != 'I' || at.stage != StageId(1) || at.micro_batch != 0) return {};
    if (changed.wait_for(lock, std::chrono::seconds(10), [&] { return recomputed; })) return {};
    return error("stage 0 waits for this gradient before it recomputes");
  };
  PlanSpec spec = three_stages({1, 1});
  spec.recompute = true;
  Pipelined run(spec, trap);
  run.go();
  for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_TRUE(recomputed);
}

TEST(Executor, CarriesActivationsSkipsAndGradients) {
  Pipelined run(three_stages({2, 1}));
  run.go();
  for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  // a = x + 1, b = a + 1, loss = sum (b + a + 1) = sum (2 x + 4), over x = 0, 100 | 200.
  const auto& terms = run.outcomes[2]->numerators[0];
  ASSERT_EQ(terms.size(), 2U);
  EXPECT_EQ(terms[0].part->item(), 208);
  EXPECT_EQ(terms[1].part->item(), 404);
  const auto& outputs = run.outcomes[1]->outputs;
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_THAT(numbers(outputs[0].part), ElementsAre(2, 102));
  EXPECT_THAT(numbers(outputs[1].part), ElementsAre(202));
  EXPECT_EQ(outputs[1].samples.first, 2);
  // Per sample: seed 1 -> 10 for b and a; b's stage hands on 100; a's stage sees 100 + 10.
  EXPECT_EQ(run.gradient(1, 1, "w1"), 3 * 10);
  EXPECT_EQ(run.gradient(0, 0, "w0"), 3 * 110);
}

TEST(Executor, AddsSharedParametersOverTheirStages) {
  Pipelined run(three_stages({2, 1}));
  run.go();
  const double expected = 3 * 110 + 3 * 1;
  EXPECT_EQ(run.gradient(0, 0, "w"), expected);
  EXPECT_EQ(run.gradient(2, 2, "w"), expected);
}

TEST(Executor, ReplicasShareMicroBatchesBySampleRanges) {
  for (const auto& replicas : std::vector<std::vector<uint32_t>>{{2, 1, 1}, {1, 3, 2}, {3, 2, 4}}) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    PlanSpec spec = three_stages({3, 2});
    spec.replicas = replicas;
    Pipelined run(spec);
    run.go();
    double loss = 0;
    for (const auto& outcome : run.outcomes) {
      ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
      for (const auto& part : outcome->numerators[0]) loss += part.part->item();
    }
    EXPECT_EQ(loss, 2 * 1000 + 5 * 4);
    for (size_t r = 0; r < replicas[0]; ++r) {
      EXPECT_EQ(run.gradient(r, 0, "w0"), 5 * 110);
      EXPECT_EQ(run.gradient(r, 0, "w"), 5 * 110 + 5 * 1);
    }
    EXPECT_EQ(run.gradient(replicas[0], 1, "w1"), 5 * 10);
  }
}

TEST(Executor, ForwardOnlyCallsNothingElse) {
  Pipelined run(three_stages({1, 1}));
  run.input.training = false;
  run.go();
  for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_THAT(run.calls(0), ElementsAre("F0.0", "F0.1"));
  EXPECT_EQ(run.outcomes[2]->numerators[0].size(), 2U);
}

TEST(Executor, StepsOncePerStageAfterItsGradients) {
  Pipelined run(three_stages({1, 1}));
  std::mutex mutex;
  std::vector<uint32_t> stepped;
  run.input.update = [&](StageId stage, runtime::Program&) -> Result<void> {
    const std::lock_guard lock(mutex);
    stepped.push_back(stage.index());
    return {};
  };
  run.go();
  EXPECT_THAT(stepped, ::testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(run.calls(0).back(), "commit0");
}

TEST(Executor, HoldsNoMoreThanTheWarmUpWhateverTheNumberOfMicroBatches) {
  const auto peak = [](uint32_t count) {
    Pipelined run(three_stages(std::vector<uint32_t>(count, 1)));
    run.go();
    uint64_t most = 0;
    for (const auto& record : run.records(0)) most = std::max(most, record.live_bytes);
    return most;
  };
  EXPECT_EQ(peak(4), peak(16));
  EXPECT_EQ(peak(16), peak(64));
}

TEST(Executor, EndsEmpty) {
  Pipelined run(three_stages({2, 1, 1}));
  run.go();
  for (size_t d = 0; d < run.devices(); ++d) EXPECT_EQ(run.records(d).back().live_bytes, 0U) << "device " << d;
}

TEST(Executor, ReportsEveryActionOfTheRow) {
  Pipelined run(three_stages({1, 1}));
  run.go();
  for (size_t d = 0; d < run.devices(); ++d) {
    const auto& row = run.plan().schedule.rows[d];
    ASSERT_EQ(run.records(d).size(), row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(run.records(d)[i].action, row[i]);
      EXPECT_LE(run.records(d)[i].start_ns, run.records(d)[i].end_ns);
    }
  }
}

/// The first error wins, on every device, wherever it happens.
TEST(Executor, FirstErrorEndsAllDevicesAndNamesThePlace) {
  for (const char* call : {"F", "R", "I", "W"}) {
    for (uint32_t stage = 0; stage < 3; ++stage) {
      SCOPED_TRACE(::testing::Message() << call << stage);
      if (call[0] == 'R' && stage == 2) continue;  // the last stage has no recompute
      PlanSpec spec = three_stages({1, 1, 1});
      spec.recompute = true;
      spec.split_backward = true;
      const uint32_t wanted = call[0] == 'R' ? 0 : 1;
      Pipelined run(spec, [&](const char* name, const At& at) -> Result<void> {
        if (name[0] == call[0] && at.stage.index() == stage && at.micro_batch == wanted)
          return error("the kernel gave up");
        return {};
      });
      run.go();
      for (size_t d = 0; d < run.devices(); ++d) {
        const auto& outcome = run.outcomes[d];
        if (outcome.ok() && d != stage) continue;  // had done its row before
        ASSERT_FALSE(outcome.ok());
        EXPECT_THAT(outcome.diagnostic().message, HasSubstr("the kernel gave up"));
        EXPECT_THAT(outcome.diagnostic().message, HasSubstr("stage " + std::to_string(stage)));
        EXPECT_THAT(outcome.diagnostic().message, HasSubstr("micro-batch " + std::to_string(wanted)));
        ASSERT_FALSE(outcome.diagnostic().notes.empty());
        EXPECT_THAT(outcome.diagnostic().notes[0].message, HasSubstr(">>" + std::string(call) + std::to_string(stage)));
      }
    }
  }
}

/// What a call of a program sums over the replicas of its stage: the ordinals of all, after others of its own.
Result<void> sum_ordinals(const At& at, std::atomic<int>& sums) {
  for (int i = 0; at.replicas != nullptr && i < 2; ++i) {
    const double own = (i + 1) * (at.replicas->replica() + 1);
    RANNC_ASSIGN(const runtime::Value sum,
                 at.replicas->sum(std::make_shared<FakeValue>(std::vector<double>{own}, true)));
    const double expected = (i + 1) * (at.replicas->replicas() * (at.replicas->replicas() + 1)) / 2.0;
    if (sum->item() != expected) return error("another sum");
    ++sums;
  }
  return {};
}

TEST(Executor, ReplicasSumWithinPassesOfTheirStage) {
  PlanSpec spec = three_stages({4, 3});
  spec.replicas = {3, 2, 1};
  spec.recompute = true;
  std::atomic<int> sums = 0;
  Pipelined run(spec, [&](const char*, const At& at) { return sum_ordinals(at, sums); }, std::chrono::seconds(60),
                {StageId(0), StageId(2)});
  for (int step = 0; step < 2; ++step) {
    run.go();
    for (const auto& outcome : run.outcomes) ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  }
  // Twice in each call: F, R, I and W of two micro-batches on three replicas of stage 0; nothing where one is alone.
  EXPECT_EQ(sums, 2 * 2 * 4 * 2 * 3);
  run.input.training = false;
  run.go();
  EXPECT_EQ(sums, 2 * 2 * 4 * 2 * 3) << "an evaluation sums nothing";
}

TEST(Executor, AnErrorEndsReplicasThatWaitWithinAPass) {
  PlanSpec spec = three_stages({4});
  spec.replicas = {1, 3, 1};
  std::atomic<int> sums = 0;
  Pipelined run(spec,
                [&](const char* call, const At& at) -> Result<void> {
                  if (call[0] == 'I' && at.replicas != nullptr && at.replicas->replica() == 1)
                    return error("the kernel gave up");
                  return sum_ordinals(at, sums);
                },
                std::chrono::seconds(60), {StageId(1)});
  run.go();
  for (size_t d = 0; d < run.devices(); ++d) {
    if (run.outcomes[d].ok()) continue;  // the last stage had done its row before
    EXPECT_THAT(run.outcomes[d].diagnostic().message, HasSubstr("the kernel gave up"));
    EXPECT_THAT(run.outcomes[d].diagnostic().message, HasSubstr("stage 1, micro-batch 0"));
  }
  for (size_t d = 1; d < 4; ++d) EXPECT_FALSE(run.outcomes[d].ok()) << "device " << d;
}

TEST(Executor, ExceptionsOfProgramsBecomeErrors) {
  Pipelined run(three_stages({1, 1}), [](const char* name, const At& at) -> Result<void> {
    if (name[0] == 'I' && at.stage.index() == 1) throw std::runtime_error("out of paper");
    return {};
  });
  run.go();
  for (const auto& outcome : run.outcomes) {
    ASSERT_FALSE(outcome.ok()) << "device 0 waits for that gradient, device 2 for device 0";
    EXPECT_THAT(outcome.diagnostic().message, HasSubstr("out of paper"));
  }
}

TEST(Executor, ErrorsOfFeedAndUpdateEndAllDevices) {
  Pipelined fed(three_stages({1}));
  fed.feed.missing = "x";
  fed.go();
  for (const auto& outcome : fed.outcomes) EXPECT_THAT(outcome.diagnostic().message, HasSubstr("no such input"));
  Pipelined stepped(three_stages({1}));
  stepped.input.update = [](StageId stage, runtime::Program&) -> Result<void> {
    if (stage.index() == 2) return error("not a number");
    return {};
  };
  stepped.go();
  EXPECT_THAT(stepped.outcomes[2].diagnostic().message, HasSubstr("not a number"));
}

TEST(Executor, APeerThatNeverComesIsATimeOutOnAll) {
  Pipelined run(three_stages({1}), {}, std::chrono::milliseconds(50));
  run.transport(0).abort(error("device 0 was told to stop"));
  run.go();
  for (const auto& outcome : run.outcomes) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.diagnostic().message, "device 0 was told to stop");
  }
}

TEST(LocalTransport, WaitsNoLongerThanItsTimeOut) {
  const auto ends = runtime::make_local_transports(2, std::chrono::milliseconds(20));
  const auto receipt = ends[0]->receive({.route = 3, .micro_batch = 1}, DeviceId(1), {}).value();
  const auto value = receipt->wait();
  ASSERT_FALSE(value.ok());
  EXPECT_THAT(value.diagnostic().message,
              HasSubstr("20 ms for device 1 to send the activation of route 3, micro-batch 1"));
}

TEST(LocalTransport, AddsInTheOrderOfMembers) {
  const auto ends = runtime::make_local_transports(3, std::chrono::seconds(60));
  const std::vector<DeviceId> members = {DeviceId(2), DeviceId(0), DeviceId(1)};
  const std::vector<double> terms = {1e16, -1e16, 1};  // by device: only (2 + 0) + 1 = 1 + 1e16 - 1e16 gives 0
  std::vector<double> sums(3);
  std::vector<std::thread> threads;
  for (uint32_t d = 0; d < 3; ++d) {
    threads.emplace_back([&, d] {
      auto total = ends[d]->all_reduce({}, members, {std::make_shared<FakeValue>(std::vector<double>{terms[d]}, true)});
      sums[d] = std::move(total).value()[0]->item();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace rannc::testing
