/// Executes one device's row of a schedule.
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

/// One finished action, for traces. Times come from a monotonic clock, on an asynchronous device from its own, which is
/// set to the host's at the beginning of each step.
struct ActionRecord {
  uint64_t step = 0;
  DeviceId device;
  ir::Action action;
  int64_t start_ns = 0, end_ns = 0;
  int64_t waited_ns = 0;    ///< part of that time: blocked on messages or on peers of a collective. An AR may run while
                            ///< the device computes
  uint64_t live_bytes = 0;  ///< held for backward passes and in mailboxes, after the action
};

/// Receives every action, on the device's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An action begins, or work that `clipped` will report.
  virtual void started(DeviceId) {}
  virtual void finished(const ActionRecord& record) = 0;
  /// Work outside of actions when gradients are clipped or scaled: the device computed gradient norms. The S, U and AG
  /// of such a step follow as actions.
  virtual void clipped(DeviceId, int64_t /*start_ns*/, int64_t /*end_ns*/) {}
};

/// The source of a mini-batch's samples.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Returns samples [first, last) of a graph input within the mini-batch, or the whole value if it has no samples.
  virtual Result<Value> input(const Port& port, ir::SampleRange samples) = 0;
};

/// Replaces a graph output of one micro-batch before it is kept. Null drops it. Called on the threads of devices, with
/// values in their memory.
using ReduceOutput = std::function<Value(ValueId output, const Value& part)>;

/// Parameters of one step.
struct StepInput {
  uint64_t step = 0;
  uint64_t seed = 0;
  bool training = true;        ///< false: run only the schedule's forward actions
  bool keep_outputs = false;   ///< return graph outputs in addition to loss numerators and the sums of metrics
  ReduceOutput reduce_output;  ///< of kept outputs; empty: they are kept as they are
  /// Add to the gradients and statistics of the last call, which are already summed over their holders.
  bool carry = false;
  uint64_t samples_before = 0;  ///< samples of the step before this mini-batch; offsets random inputs
  ir::Bindings symbols;         ///< all symbols but the batch symbol
  Values loss_seeds;            ///< per loss term: the scalar weight * factor / divisor; unused if not training
  Feed* feed = nullptr;
  /// The optimizer, called at action S or U of each stage on this device, after its running statistics are committed.
  /// If empty, gradients and running statistics are left unchanged, and gradients of sharded stages are summed on all
  /// replicas, so that the next step can add to them.
  std::function<Result<void>(StageId, Program&)> update;
  /// The optimizer runs after the step, in `Executor::update`: S and U only commit running statistics, AG does nothing,
  /// and the observer receives none of them.
  bool updates_later = false;
  bool overlaps_recompute = true;  ///< false: R is part of the B or I that it precedes, after the gradient has arrived
  bool overlaps_sums = true;       ///< false: the row waits at each AR, SC and RS, which begins there
};

/// The part of a graph output or loss numerator that one device computed.
struct OutputPart {
  ValueId value;
  uint32_t micro_batch = 0;
  ir::SampleRange samples;  ///< within the mini-batch
  Value part;
};

/// Values lie in host memory.
struct StepOutcome {
  /// Per value in sample order, regardless of the schedule.
  std::vector<OutputPart> outputs;
  /// Per loss term: this device's parts in micro-batch order.
  std::vector<std::vector<OutputPart>> numerators;
};

/// One device of a run. It executes its row action by action and does not depend on a particular schedule. On an
/// asynchronous device, a step can begin while the one before it runs.
/// The first error aborts the transport, which ends the other devices. The error names stage, action and micro-batch,
/// with the row around the action as a note.
class Executor {
 public:
  /// `programs` is indexed by stage, with null for stages on other devices. Their values lie in the memory of the
  /// transport's hardware. All arguments must outlive the executor.
  Executor(const Pipeline& pipeline, DeviceId device, std::vector<Program*> programs, Transport& transport,
           Observer* observer = nullptr);
  ~Executor();
  /// Runs a step and waits for it.
  Result<StepOutcome> run(const StepInput& input);
  /// Enqueues a step. The values of its feed must live until `end`, but not the input. At most one step that has begun
  /// may lack its `end`.
  Result<void> begin(const StepInput& input);
  /// Waits for the first step that has begun and not ended, and returns its results, even if the next one failed.
  Result<StepOutcome> end();
  /// Waits for all steps that have begun, and drops their results.
  void drop_begun();
  /// Performs the row's S, U and AG after a step that `updates_later`. Every device calls it. An error does not abort.
  Result<void> update(const std::function<Result<void>(StageId)>& optimizer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
