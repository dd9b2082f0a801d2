/// Runs jobs on the devices of a plan that belong to this process.
#pragma once

#include <ATen/core/Tensor.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/execute/executor.h"
#include "runtime/internal/device_thread.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/optimizer.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One device of the plan, with the thread that all its work runs on.
struct TrainedDevice {
  DeviceId id;
  std::shared_ptr<Transport> transport;
  std::vector<std::unique_ptr<Program>> programs;           ///< by stage; null for stages of other devices
  std::vector<std::unique_ptr<StageOptimizer>> optimizers;  ///< by stage
  std::unique_ptr<Executor> executor;                       ///< of whole mini-batches
  std::unique_ptr<Executor> smaller;                        ///< of evaluations with fewer samples; may be null
  std::unique_ptr<DeviceThread> thread;
};

/// Runs a job on the device's thread, on its compute stream. Returns when the device has done its work.
Result<void> run_on(TrainedDevice& device, const std::function<Result<void>()>& job);

/// The devices of this process, and the end of the run: the first failure closes it for all workers. Collectives must
/// be called by every worker of the run in the same order. Not thread-safe.
class DeviceSet {
 public:
  /// `devices`: number of devices of the plan, of which this process may have fewer.
  explicit DeviceSet(size_t devices) : plan_devices_(devices) {}

  void add(std::unique_ptr<TrainedDevice> device) { devices_.push_back(std::move(device)); }
  const std::vector<std::unique_ptr<TrainedDevice>>& all() const { return devices_; }
  size_t plan_devices() const { return plan_devices_; }
  /// Whether this process has all devices of the plan.
  bool whole() const { return devices_.size() == plan_devices_; }
  bool contains(DeviceId id) const;
  /// Index of a device of this set in `all()`.
  int64_t position_of(const TrainedDevice& device) const;
  /// Whether a device of this process has the stage.
  bool has_stage(StageId stage) const;

  /// Runs the job on all devices, each on its own thread, and waits for all. After a failure the transports are
  /// aborted, and the first reason is returned, whichever device noticed it first.
  Result<void> for_each(const std::function<Result<void>(TrainedDevice&)>& job) { return run(job, JobEnd::kDone); }
  /// The same, but returns when the jobs have enqueued their work.
  Result<void> enqueue_each(const std::function<Result<void>(TrainedDevice&)>& job) {
    return run(job, JobEnd::kEnqueued);
  }

  /// Returns the sum over the processes of the run; the values themselves if one process has all devices.
  Result<at::Tensor> sum_over_processes(at::Tensor values);
  /// Whether `own` is true in every process of the run.
  Result<bool> all_agree(bool own);
  /// Returns the failure of the first process that has one, in every process. Others name that process as a worker.
  Result<void> first_failure(const Result<void>& own);
  /// Returns `own` of the process of device `from` in the process of device 0, an empty text in others.
  Result<std::string> text_of(DeviceId from, const std::string& own);

  /// Ends the run with the first failure that it is called with, and returns that.
  Diagnostic close(Diagnostic failure);
  /// Ends what the devices do at their next message. Any thread may call it.
  void abort(const Diagnostic& failure) const;
  /// The end of the run, if it has ended. A process forked from that of the devices cannot use them.
  std::optional<Diagnostic> failure() const;
  /// Whether this process has made the set.
  bool is_own() const { return process_ == ::getpid(); }

 private:
  enum class JobEnd : uint8_t { kDone, kEnqueued };  ///< of the work on devices
  Result<void> run(const std::function<Result<void>(TrainedDevice&)>& job, JobEnd end);
  static Result<void> attempt(TrainedDevice& device, const std::function<Result<void>()>& job, JobEnd end);
  friend Result<void> run_on(TrainedDevice& device, const std::function<Result<void>()>& job);
  /// Returns the sum over the processes of `members`. Processes that are not members skip it.
  Result<at::Tensor> sum_over(std::span<const DeviceId> members, at::Tensor values, const CollectiveKey& key);

  const pid_t process_ = ::getpid();
  size_t plan_devices_;
  std::vector<std::unique_ptr<TrainedDevice>> devices_;
  uint32_t exchanges_ = 0;  ///< number of collectives so far, equal in all processes
  std::optional<Diagnostic> failure_;
};

/// Returns parameters, optimizer states and buffers of a device under the names of checkpoints.
CheckpointTensors checkpoint_tensors(const TrainedDevice& device);

/// Returns the copies of each parameter and buffer that these devices have.
std::map<ValueId, Values> held_weights(const DeviceSet& devices);

}  // namespace rannc::runtime
