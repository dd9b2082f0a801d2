/// The engine-independent interface of a stage's program: forward, recompute and backward of one micro-batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"
#include "runtime/execute/signature.h"
#include "runtime/execute/value.h"

namespace rannc::ir {
struct StageFunctions;
}

namespace rannc::runtime {

/// Sums across the replicas of a stage in the middle of a pass, as seen by one replica.
class ReplicaSums {
 public:
  virtual ~ReplicaSums() = default;
  virtual uint32_t replicas() const = 0;  ///< 2 or more
  virtual uint32_t replica() const = 0;   ///< index of this one
  /// Returns the element-wise sum over the replicas in replica order, bit-identical on each. Waits for all of them.
  /// Every replica must make the same number of calls with equal specs. An error if one fails or is unreachable for the
  /// transport's time-out.
  virtual Result<Value> sum(Value own) = 0;
};

/// Stage, samples and step of a call, with the context that it needs.
struct At {
  StageId stage;
  uint32_t micro_batch = 0;
  uint64_t first_sample = 0;  ///< of this call, within the step
  uint64_t samples = 0;       ///< of this call; never 0
  uint64_t step = 0;
  uint64_t seed = 0;
  bool training = true;     ///< false: keep nothing for a backward pass
  bool recomputed = false;  ///< an action R follows, so forward keeps only its inputs
  /// Values of all symbols but the batch symbol; outlives the call.
  const ir::Bindings* symbols = nullptr;
  /// Replicas of the stage, in training; outlives the call. Null if the stage has one replica, or if no task sums
  /// across replicas.
  ReplicaSums* replicas = nullptr;
  /// Of the last B or W of the stage in a step: called during it, in order, for each bucket (`Signature::buckets`)
  /// whose gradients are final. They may then be taken by `gradients` and released. Buckets that the end of the step
  /// completes are not reported. Null: nobody waits for them.
  const std::function<void(uint32_t bucket)>* marks = nullptr;
};

/// State that an engine keeps between calls for one (stage, micro-batch). It is opaque to the executor.
class HeldState {
 public:
  virtual ~HeldState() = default;
  virtual uint64_t bytes() const = 0;
};
using Held = std::unique_ptr<HeldState>;

/// Accumulators that a step keeps from the mini-batches before it. All others are reset.
struct Carried {
  std::vector<bool> gradients;  ///< by parameter of the signature; empty: none is kept
  bool statistics = false;
};

/// Whether a step can be run by what another one recorded.
enum class StepKind : uint8_t {
  kAlike,  ///< it makes the calls of all steps of this kind, in the same order, and frees values at the same points
  kOther,
};

/// One stage on one device. Used by one thread at a time. Engines convert exceptions of their libraries to diagnostics.
/// The call order per (stage, micro-batch) is forward, [recompute,] backward_input, backward_weight.
class Program {
 public:
  virtual ~Program() = default;
  virtual const Signature& signature() const = 0;
  /// Changes what later forward passes keep for `recompute`. The rest of the functions must be those of the bundle.
  virtual Result<void> use_functions(const ir::StageFunctions&) { return {}; }

  /// Whether an engine that can record the calls of a step and replay them does so; it does by default.
  virtual void record_steps(bool /*allowed*/) {}
  /// Why an engine that tried to record steps runs them normally; empty if it didn't try or succeeded.
  virtual std::string why_not_recorded() const { return {}; }

  /// Resets accumulated gradients and statistics, except those in `carried`.
  virtual void begin_step(const Carried& carried, StepKind kind) = 0;
  /// Runs the forward pass on `signature().inputs` and returns the outputs. `saved` stays null if `at.training` is
  /// false.
  virtual Result<Values> forward(const At& at, Values inputs, Held& saved) = 0;
  /// Rebuilds the state for the backward pass, after a forward pass with `at.recomputed`.
  virtual Result<void> recompute(const At& at, Held& saved) = 0;
  /// Computes input gradients. `output_gradients` is parallel to `signature().outputs`; null means no gradient. Returns
  /// a gradient per input with `gradient` (zeros if unused) and null for the others.
  virtual Result<Values> backward_input(const At& at, Held& saved, Values output_gradients, Held& pending) = 0;
  /// Adds the parameter gradients to the accumulators and frees the held state.
  virtual Result<void> backward_weight(const At& at, Held& saved, Held& pending) = 0;
  /// Computes both at once, and returns what `backward_input` does.
  virtual Result<Values> backward(const At& at, Held& saved, Values output_gradients) {
    Held pending;
    RANNC_ASSIGN(Values inputs, backward_input(at, saved, std::move(output_gradients), pending));
    RANNC_TRY(backward_weight(at, saved, pending));
    return inputs;
  }
  /// Returns the sums behind running statistics, accumulated since `begin_step` or carried into it. The caller adds
  /// them over the stage's replicas. Empty if the stage has no statistics.
  virtual Values statistics() = 0;
  virtual void set_statistics(Values sums) = 0;
  /// Updates running statistics. Called once per step.
  virtual Result<void> commit_buffers(uint64_t step) = 0;

  /// Returns the gradients accumulated since `begin_step` or carried into it, summed over the leaves in task order;
  /// zeros if there are none. Sums of 16-bit parameters are float32 (`ir::sum_dtype`). `parameters` are indices into
  /// `signature().parameters`. The values share memory with the engine until the next `begin_step`.
  virtual Values gradients(std::span<const uint32_t> parameters) = 0;
  /// Replaces gradients by those summed over devices. Null releases a gradient to the caller, which must set a new one
  /// before the next read.
  virtual void set_gradients(std::span<const uint32_t> parameters, Values gradients) = 0;
  /// Parameters and buffers as in `signature()`. They share memory with the engine, so optimizers and checkpoints write
  /// through them between steps.
  virtual const Values& parameters() const = 0;
  virtual const Values& buffers() const = 0;
};

}  // namespace rannc::runtime
