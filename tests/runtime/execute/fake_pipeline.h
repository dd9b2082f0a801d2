/// All devices of a plan as threads, over fake programs.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/transport/transport_local.h"
#include "tests/runtime/execute/fake_program.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc::testing {

/// Three stages, one task each, x -> a -> b -> loss numerator; the last also reads a (a skip). Every task reads the
/// parameter w0 of its own, and the first and the last share w.
ir::Graph chain_graph();

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

/// How devices execute a plan.
struct FakeRun {
  FakeProgram::Trap trap;
  FakeProgram::Completes completes;
  uint32_t marks = UINT32_MAX;  ///< buckets of a stage that are reported
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::vector<StageId> joint;  ///< stages whose replicas sum within passes
  /// Puts another endpoint around that of a device. May be empty.
  std::function<std::unique_ptr<runtime::Transport>(std::unique_ptr<runtime::Transport>)> wrap;
};

/// All devices of a plan as threads.
class Pipelined {
 public:
  /// Of `chain_graph`. Replicas of the stages of `joint` sum within passes.
  explicit Pipelined(const PlanSpec& spec, FakeProgram::Trap trap = {},
                     std::chrono::milliseconds timeout = std::chrono::seconds(60), std::vector<StageId> joint = {})
      : Pipelined(build_plan(chain_graph(), spec),
                  {.trap = std::move(trap), .timeout = timeout, .joint = std::move(joint)}) {}
  Pipelined(ir::Plan plan, const FakeRun& how) : plan_(std::move(plan)), pipeline_(runtime::make_pipeline(plan_)) {
    for (const StageId stage : how.joint) pipeline_.stages[stage.index()].synchronised = {true};
    const uint32_t count = pipeline_.shape.devices;
    transports_ = runtime::make_local_transports(count, how.timeout);
    for (auto& end : transports_) {
      if (how.wrap) end = how.wrap(std::move(end));
    }
    observers_.resize(count);
    for (uint32_t d = 0; d < count; ++d) {
      logs_.push_back(std::make_unique<Log>());
      programs_.emplace_back();
      std::vector<runtime::Program*> pointers;
      for (const auto& stage : plan_.stages) {
        const bool here = std::find(stage.devices.begin(), stage.devices.end(), DeviceId(d)) != stage.devices.end();
        const size_t index = pointers.size();
        std::unique_ptr<FakeProgram>& made = programs_.back().emplace_back();
        if (here) {
          made = std::make_unique<FakeProgram>(pipeline_.stages[index], logs_.back().get(), how.trap, how.completes);
          made->marks = how.marks;
        }
        pointers.push_back(made.get());
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

}  // namespace rannc::testing
