/// Splits the outputs of stages into messages and assembles inputs from messages.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/now.h"
#include "runtime/internal/mailbox.h"

namespace rannc::runtime {

/// The traffic of one device in one step. Replicas own contiguous ranges of a micro-batch's samples. A message carries
/// the intersection of a producer's and a consumer's range, or the whole value if it has no samples. For a sum over
/// samples, each replica's part goes to its first reader, and the other readers get zeros.
class Router {
 public:
  Router(const Pipeline& pipeline, const ir::Dependencies& dependencies, DeviceId device, Transport& transport)
      : pipeline_(pipeline), dependencies_(dependencies), device_(device), transport_(transport) {}

  void begin_step(const StepInput& input);
  /// Returns the samples of a micro-batch that this device's replica of a stage owns.
  ir::SampleRange own(StageId stage, uint32_t micro_batch) const;
  /// The same, counted within the mini-batch.
  ir::SampleRange within_mini_batch(StageId stage, uint32_t micro_batch) const;

  /// Returns the inputs of a stage's program, fed or assembled from messages.
  Result<Values> inputs(StageId stage, uint32_t micro_batch);
  /// Splits a stage's outputs into messages and stores them.
  void file_outputs(StageId stage, uint32_t micro_batch, const Values& outputs);
  /// Returns the gradients of a stage's outputs. Adds the seed of a loss first, then the readers from the last stage to
  /// the first. Autograd over the whole graph would use the same order, so the cut does not change the sum.
  Result<Values> output_gradients(StageId stage, uint32_t micro_batch);
  void file_input_gradients(StageId stage, uint32_t micro_batch, const Values& gradients);

  Result<void> send(const ir::Action& action);
  Result<void> receive(const ir::Action& action);

  uint64_t bytes() const { return mailbox_.bytes(); }
  int64_t waited_ns() const { return waited_ns_; }
  void add_wait(int64_t ns) { waited_ns_ += ns; }
  /// Makes the router stamp the beginning and the end of each wait of an asynchronous device.
  void time_waits() { times_waits_ = hardware().is_asynchronous(); }
  /// Waits of the compute stream since the last call, as pairs of stamps.
  std::vector<std::pair<EventRef, EventRef>> take_waits() { return std::exchange(waits_, {}); }

 private:
  const Signature& signature(StageId stage) const { return pipeline_.stages[stage.index()]; }
  MessageKey key(const Slot& slot) const { return {input_->step, slot.route, slot.micro_batch, slot.direction}; }
  SampleAxis axis_of(const Port& port) const;
  Result<TensorSpec> spec_of(const Port& port, int64_t samples) const;
  bool is_first_reader(uint32_t route, const ir::Message& message, uint32_t micro_batch) const;
  Device& hardware() const { return transport_.hardware(); }
  Result<Value> arrived(const Slot& slot);
  Result<Value> gather(const Slot& slot, const Port& port, const std::vector<ir::Message>& messages);

  const Pipeline& pipeline_;
  const ir::Dependencies& dependencies_;
  DeviceId device_;
  Transport& transport_;
  const StepInput* input_ = nullptr;
  Values loss_seeds_;  ///< of the input, in the device's memory
  Mailbox mailbox_;
  int64_t waited_ns_ = 0;
  bool times_waits_ = false;
  std::vector<std::pair<EventRef, EventRef>> waits_;
};

}  // namespace rannc::runtime
