// The executor over fake programs: what it calls, what it carries, how it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "ir/op/op.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/execute/fake_program.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc::testing {
namespace {

using runtime::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Three stages, one task each, x -> a -> b -> loss numerator; the last also reads a (a skip). Every task reads the
/// parameter w0 of its own, and the first and the last share w.
ir::Graph chain_graph() {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::Dim batch = ir::Dim::symbol("batch");
  const ir::ValueType samples = {.dtype = ir::DType::kF64, .shape = ir::Shape{batch}, .batch = {.axis = 0}};
  const ir::ValueType scalar = {.dtype = ir::DType::kF64, .shape = ir::Shape{}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", samples);
  graph.add_input(x);
  const ValueId w = graph.add_value(ir::ValueKind::kParameter, "w", scalar);
  const ValueId w0 = graph.add_value(ir::ValueKind::kParameter, "w0", scalar);
  const ValueId w1 = graph.add_value(ir::ValueKind::kParameter, "w1", scalar);
  const ir::OpInfo& op = graph.foreign_op("test_task");
  const ValueId a = graph.add(op, {x, w, w0}, {}, "a");
  const ValueId b = graph.add(op, {a, w1}, {}, "b");
  const ValueId loss = graph.add(op, {b, a, w}, {}, "loss");
  graph.set_type(a, samples);
  graph.set_type(b, samples);
  graph.set_type(loss, scalar);
  graph.add_output(b);
  graph.add_loss({.numerator = loss});
  return graph;
}

/// Sample i of the mini-batch is the number 100 i.
class CountingFeed final : public runtime::Feed {
 public:
  Result<runtime::Value> input(const runtime::Port& port, ir::SampleRange samples) override {
    if (port.name == missing) return error({.node = port.name}, "the batch has no such input");
    std::vector<double> values;
    for (int64_t i = samples.first; i < samples.last; ++i) values.push_back(100.0 * static_cast<double>(i));
    return runtime::Value(std::make_shared<FakeValue>(std::move(values)));
  }
  std::string missing;
};

class RecordingObserver final : public runtime::Observer {
 public:
  void finished(const runtime::ActionRecord& record) override { records.push_back(record); }
  std::vector<runtime::ActionRecord> records;
};

/// All devices of a plan as threads.
class Pipelined {
 public:
  /// Replicas of the stages of `joint` sum within passes.
  explicit Pipelined(const PlanSpec& spec, FakeProgram::Trap trap = {},
                     std::chrono::milliseconds timeout = std::chrono::seconds(60),
                     const std::vector<StageId>& joint = {})
      : plan_(build_plan(chain_graph(), spec)), pipeline_(runtime::make_pipeline(plan_)) {
    for (const StageId stage : joint) pipeline_.stages[stage.index()].synchronised = {true};
    const uint32_t count = pipeline_.shape.devices;
    transports_ = runtime::make_local_transports(count, timeout);
    observers_.resize(count);
    for (uint32_t d = 0; d < count; ++d) {
      logs_.push_back(std::make_unique<Log>());
      programs_.emplace_back();
      std::vector<runtime::Program*> pointers;
      for (const auto& stage : plan_.stages) {
        const bool here = std::find(stage.devices.begin(), stage.devices.end(), DeviceId(d)) != stage.devices.end();
        const size_t index = pointers.size();
        programs_.back().push_back(
            here ? std::make_unique<FakeProgram>(pipeline_.stages[index], logs_.back().get(), trap) : nullptr);
        pointers.push_back(programs_.back().back().get());
      }
      executors_.push_back(
          std::make_unique<runtime::Executor>(pipeline_, DeviceId(d), pointers, *transports_[d], &observers_[d]));
    }
    input.feed = &feed;
    input.loss_seeds = {std::make_shared<FakeValue>(std::vector<double>{1}, true)};
    input.keep_outputs = true;
  }

  void go() {
    outcomes.assign(executors_.size(), error("did not end"));
    std::vector<std::thread> threads;
    for (size_t d = 0; d < executors_.size(); ++d)
      threads.emplace_back([&, d] { outcomes[d] = executors_[d]->run(input); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::string> calls(size_t device) const { return logs_[device]->lines(); }
  double gradient(size_t device, size_t stage, const char* name) {
    FakeProgram& program = *programs_[device][stage];
    for (uint32_t i = 0; i < program.signature().parameters.size(); ++i) {
      if (program.signature().parameters[i].name == name) return program.gradients({&i, 1})[0]->item();
    }
    return -1;
  }
  const std::vector<runtime::ActionRecord>& records(size_t device) const { return observers_[device].records; }
  const ir::Plan& plan() const { return plan_; }
  runtime::Transport& transport(size_t device) { return *transports_[device]; }
  size_t devices() const { return executors_.size(); }

  runtime::StepInput input;
  CountingFeed feed;
  std::vector<Result<runtime::StepOutcome>> outcomes;

 private:
  ir::Plan plan_;
  runtime::Pipeline pipeline_;
  std::vector<std::unique_ptr<runtime::Transport>> transports_;
  std::vector<std::unique_ptr<Log>> logs_;
  std::vector<RecordingObserver> observers_;
  std::vector<std::vector<std::unique_ptr<FakeProgram>>> programs_;
  std::vector<std::unique_ptr<runtime::Executor>> executors_;
};

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
