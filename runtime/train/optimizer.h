/// Optimizers, which update a stage's parameters from its gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/plan/optimizer_shares.h"
#include "ir/plan/parameter_updates.h"
#include "ir/plan/plan.h"
#include "runtime/device/device.h"
#include "runtime/execute/program.h"
#include "runtime/train/optimizer_options.h"

namespace rannc::runtime {

/// Which rule updates which elements of a stage's parameters.
struct StageUpdates {
  std::vector<ir::UpdateRule> rules;         ///< by group
  std::vector<ir::StoredUpdate> parameters;  ///< by parameter of the signature
};
StageUpdates stage_updates(const ir::ParameterUpdates& updates, const Signature& stage);

/// A tensor of optimizer state.
struct OptimizerState {
  std::string name;        ///< `exp_avg`, `momentum` …; `average` of the average of a parameter
  uint32_t parameter = 0;  ///< of the signature
  std::string tensor;      ///< `state_dict` name of a tensor that is updated as a whole; empty: the stored parameter
  std::optional<ir::ParameterSlice> slice;  ///< the part that it belongs to; then it has rank 1
  Value value;
};

/// Optimizer of one stage. It computes the same numbers as torch.optim for each parameter separately, so that the
/// result does not depend on the cut. It calls LibTorch's fused kernels once for all parameters of a group, without
/// temporary memory. If gradients are scaled or wider than the parameters, it works on slices copied to a buffer of one
/// mebibyte, because the gradients may be shared and must not change; so does Lion always. Muon and Adafactor copy a
/// whole tensor. A device with a kernel for element-wise rules (`Device::update`) needs no copies. Used by one thread
/// at a time. `program` and `device`, in whose memory it lies, must outlive it.
class StageOptimizer {
 public:
  using Share = std::optional<std::vector<ir::ParameterSlice>>;  // `share_of`
  /// `left_alone`: per parameter of the signature whether it has no gradient and is never updated, as in PyTorch's
  /// optimizers; empty: all are updated. `share`: the slices that are updated and have state; nothing: all parameters.
  StageOptimizer(const OptimizerOptions& options, StageUpdates updates, Program& program,
                 std::vector<bool> left_alone = {}, Share share = {}, Device& device = cpu());
  /// Updates all parameters by the rule of `options`, element by element.
  StageOptimizer(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone = {}, Share share = {},
                 Device& device = cpu());
  ~StageOptimizer();
  /// Updates the program's parameters in place from its accumulated gradients, scaled by `gradient_scale`, and their
  /// averages. `updates` updates came before, by which learning rates and bias corrections are computed.
  Result<void> update(uint64_t updates, double gradient_scale = 1);
  /// Takes over the state that `other`, of the same program and share, has under the same names.
  void take_states(const StageOptimizer& other);
  /// Replaces what all parameters have in common, and the rules of the groups. Their optimizers stay.
  void set_options(const OptimizerOptions& options, std::vector<ir::UpdateRule> rules);
  /// All state, also of parameters that are never updated. A checkpoint is restored by writing to it.
  const std::vector<OptimizerState>& states() const;
  /// The state of that name of a stored parameter, undefined if it has none.
  Value state(std::string_view name, uint32_t parameter) const;
  /// Makes the averages equal to the parameters.
  void restart_averages();
  /// Exchanges the contents of parameters and averages: under a share, of its slices.
  void swap_averages();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
