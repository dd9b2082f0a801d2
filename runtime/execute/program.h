/// What a stage runs: forward, recompute and backward of one micro-batch, whatever the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ir/base/diagnostic.h"
#include "ir/dim/dim.h"
#include "runtime/execute/signature.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

/// The replicas of a stage as one of them sees them in the middle of a pass.
class ReplicaSums {
 public:
  virtual ~ReplicaSums() = default;
  virtual uint32_t replicas() const = 0;  ///< 2 or more
  virtual uint32_t replica() const = 0;   ///< this one
  /// The element-wise sum over the replicas, in their order: the same bits for each. Waits for all of them, which must
  /// sum as often and equal specs; an error where one fails, or is out of reach for the transport's time-out.
  virtual Result<Value> sum(Value own) = 0;
};

/// Where in training a call stands.
struct At {
  StageId stage;
  uint32_t micro_batch = 0;
  uint64_t first_sample = 0;  ///< of this call, within the step
  uint64_t samples = 0;       ///< of this call; never 0
  uint64_t step = 0;
  uint64_t seed = 0;
  bool training = true;     ///< false: nothing is kept for a backward pass
  bool recomputed = false;  ///< an R follows: forward keeps its inputs alone
  /// Values of all symbols but the batch symbol; outlives the call.
  const ir::Bindings* symbols = nullptr;
  /// Of the stage, in training; outlives the call. Null: it has one, or nothing of it is over several.
  ReplicaSums* replicas = nullptr;
};

/// What an engine keeps from one call to the next for one (stage, micro-batch); the executor only carries it.
class HeldState {
 public:
  virtual ~HeldState() = default;
  virtual uint64_t bytes() const = 0;
};
using Held = std::unique_ptr<HeldState>;

/// What a step goes on adding to; all else is forgotten.
struct Carried {
  std::vector<bool> gradients;  ///< by parameter of the signature; empty: of none
  bool statistics = false;
};

/// One stage on one device. Used by one thread at a time. Engines turn exceptions of their libraries into diagnostics.
/// Per (stage, micro-batch) the calls come in the order forward, [recompute,] backward_input, backward_weight.
class Program {
 public:
  virtual ~Program() = default;
  virtual const Signature& signature() const = 0;
  /// Whether input and weight gradients are parted. If not, `backward_input` does both and `backward_weight` nothing.
  virtual bool parts_backward() const = 0;

  /// Forgets accumulated gradients and statistics, but for what is carried.
  virtual void begin_step(const Carried& carried) = 0;
  /// Inputs as in `signature().inputs`; returns the outputs. `saved` stays null where `at.training` is false.
  virtual Result<Values> forward(const At& at, Values inputs, Held& saved) = 0;
  /// Rebuilds what the backward pass needs, after a forward pass with `at.recomputed`.
  virtual Result<void> recompute(const At& at, Held& saved) = 0;
  /// Gradients of the outputs, null for none, as in `signature().outputs`. Returns those of the inputs with `gradient`
  /// (zeros where unused), null for the others.
  virtual Result<Values> backward_input(const At& at, Held& saved, Values output_gradients, Held& pending) = 0;
  /// Adds the gradients of the parameters to the accumulators, and frees what was held.
  virtual Result<void> backward_weight(const At& at, Held& saved, Held& pending) = 0;
  /// Sums that were carried or made since `begin_step`, of which running statistics are made, as values to be added
  /// over the stage's replicas; empty where the stage has none.
  virtual Values statistics() = 0;
  virtual void set_statistics(Values sums) = 0;
  /// Updates running statistics, once a step.
  virtual Result<void> commit_buffers(uint64_t step) = 0;

  /// Gradients that were carried or added since `begin_step`, summed over the leaves in task order; zeros where there
  /// are none. Sums of 16-bit parameters are float32 (`ir::sum_dtype`). Indices into `signature().parameters`. The
  /// values share memory with the engine until the next `begin_step`.
  virtual Values gradients(std::span<const uint32_t> parameters) = 0;
  /// Replaces gradients, by those summed over devices. Null gives a gradient up: who has it alone then is the caller,
  /// who sets another one before anybody asks.
  virtual void set_gradients(std::span<const uint32_t> parameters, Values gradients) = 0;
  /// Parameters and buffers as in `signature()`. They share memory with the engine: an optimizer or a checkpoint writes
  /// through them between steps.
  virtual const Values& parameters() const = 0;
  virtual const Values& buffers() const = 0;
};

}  // namespace rannc::runtime
