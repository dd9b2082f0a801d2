/// Walks one device's row of a schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "runtime/execute/pipeline.h"
#include "runtime/execute/program.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One finished action, for traces. Times are of a monotonic clock.
struct ActionRecord {
  uint64_t step = 0;
  DeviceId device;
  ir::Action action;
  int64_t start_ns = 0, end_ns = 0;
  int64_t waited_ns = 0;    ///< of that time: blocked on messages or on peers of a collective
  uint64_t live_bytes = 0;  ///< held for backward passes and in mailboxes, after the action
};

/// Told of every action by the device's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An action begins, or what `clipped` will tell of.
  virtual void started(DeviceId) {}
  virtual void finished(const ActionRecord& record) = 0;
  /// Outside of actions, in training that clips: the device took norms of its gradients, or updated its parameters.
  virtual void clipped(DeviceId, int64_t /*start_ns*/, int64_t /*end_ns*/) {}
};

/// Where the samples of a mini-batch come from.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Samples [first, last) of the mini-batch of a graph input; the whole value where it has no samples.
  virtual Result<Value> input(const Port& port, ir::SampleRange samples) = 0;
};

/// What to do in one step.
struct StepInput {
  uint64_t step = 0;
  uint64_t seed = 0;
  bool training = true;       ///< false: the schedule's forward actions alone
  bool keep_outputs = false;  ///< return graph outputs, not only loss numerators
  /// Go on from the gradients and statistics that the last call left, summed over their holders as they are.
  bool carry = false;
  uint64_t samples_before = 0;  ///< samples of the step that went before this mini-batch: random factors go on
  ir::Bindings symbols;         ///< all symbols but the batch symbol
  Values loss_seeds;            ///< per loss term: the scalar weight / denominator; unread when not training
  Feed* feed = nullptr;
  /// The optimizer: called at the action S of each stage on this device, once its running statistics are committed.
  /// Empty: gradients and running statistics are left as they are.
  std::function<Result<void>(StageId, Program&)> update;
};

/// A piece of a graph output or loss numerator as one device computed it.
struct OutputPart {
  ValueId value;
  uint32_t micro_batch = 0;
  ir::SampleRange samples;  ///< within the mini-batch
  Value part;
};

struct StepOutcome {
  /// In the order of samples per value, whatever the schedule.
  std::vector<OutputPart> outputs;
  /// Per loss term: this device's parts, in the order of micro-batches.
  std::vector<std::vector<OutputPart>> numerators;
};

/// One device of a run. Knows no schedule by name: it does what the row says, in the order of the row.
/// The first error wins: it aborts the transport, which ends the other devices, and names stage, action and
/// micro-batch, with the row around the action as a note.
class Executor {
 public:
  /// `programs` is by stage; those of stages that are not on `device` are null. All arguments outlive the executor.
  Executor(const Pipeline& pipeline, DeviceId device, std::vector<Program*> programs, Transport& transport,
           Observer* observer = nullptr);
  ~Executor();
  Result<StepOutcome> run(const StepInput& input);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
