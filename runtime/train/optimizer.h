/// Optimizers, which update a stage's parameters from its gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/plan/optimizer_shares.h"
#include "ir/plan/plan.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamW };
std::string_view str(OptimizerKind kind);
/// Accepts `sgd`, `adam` and `adamw`. The error for other names lists them.
Result<OptimizerKind> parse_optimizer(std::string_view name);

/// How the learning rate falls after the warm-up: to `decay_to` of its value by half a cosine or a line until
/// `decay_steps`, which `kWsd` (warm-up, stable, decay) begins late; or as the inverse square root of the updates.
enum class Decay : uint8_t { kCosine, kLinear, kWsd, kInverseSqrt, kConstant };
std::string_view str(Decay decay);
/// Accepts `cosine`, `linear`, `wsd`, `inverse-sqrt` and `constant`. The error for other names lists them.
Result<Decay> parse_decay(std::string_view name);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0;                                ///< SGD
  bool nesterov = false;                              ///< SGD with momentum
  double weight_decay = 0;                            ///< added to the gradient; AdamW: decoupled
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< Adam
  uint64_t warmup_steps = 0;                          ///< the learning rate rises linearly over this many steps
  Decay decay = Decay::kCosine;                       ///< how it falls then
  uint64_t decay_from = 0;                            ///< earliest update of the decay; `kWsd`, 0: its last fifth
  uint64_t decay_steps = 0;                           ///< until this update; 0: no decay, except `kInverseSqrt`
  double decay_to = 0.1;                              ///< to this fraction
  /// Returns the learning rate of an update. Updates are counted from 0.
  double learning_rate_at(uint64_t update) const;
  /// Returns the first update of the decay.
  uint64_t decay_begin() const;
  /// Number of state tensors per parameter.
  uint32_t states() const;
  bool operator==(const OptimizerOptions&) const = default;
};

/// Optimizer of one stage. It computes the same numbers as torch.optim for each parameter separately, so that the
/// result does not depend on the cut. It calls LibTorch's fused kernels once for all parameters, without temporary
/// memory. If gradients are scaled or wider than the parameters, it works on slices copied to a buffer of one mebibyte,
/// because the gradients may be shared and must not change. Used by one thread at a time. `program` must outlive it.
class StageOptimizer {
 public:
  using Share = std::optional<std::vector<ir::ParameterSlice>>;
  /// `left_alone`: per parameter of the signature whether it has no gradient and is never updated, as in PyTorch's
  /// optimizers; empty: all are updated. `share`: the slices that are updated and have state; nothing: all parameters.
  StageOptimizer(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone = {},
                 Share share = {});
  ~StageOptimizer();
  /// Updates the program's parameters in place from its accumulated gradients, scaled by `gradient_scale`. `updates`
  /// updates came before, by which learning rate and bias correction are computed.
  Result<void> update(uint64_t updates, double gradient_scale = 1);
  void set_learning_rate(double rate);
  /// State names: `momentum` for SGD, `exp_avg` and `exp_avg_sq` for Adam.
  const std::vector<std::string>& state_names() const;
  /// Per state, the tensors in the order of the signature's parameters. A checkpoint is restored by writing to them.
  /// Under a share, the state of a slice has rank 1, and is null if the parameter has no slice in it.
  const std::vector<Values>& states() const;
  const Share& share() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the share of a stage's parameters that a device updates; nothing if the stage is not sharded.
StageOptimizer::Share share_of(const ir::Stage& stage, DeviceId device, const Program& program);

/// Returns the sum of squares of the accumulated gradient in each of `slices`. Rows of a few thousand elements are
/// summed in the gradient's type, the row sums in double precision. If float32 cannot represent such a sum, all
/// arithmetic is in double precision. Waits once for the device, and once more per gradient that float32 cannot sum.
std::vector<double> squared_norms(Program& program, std::span<const ir::ParameterSlice> slices);
/// The same of whole parameters.
std::vector<double> squared_norms(Program& program, std::span<const uint32_t> parameters);

/// Returns the factor that scales gradients of global norm `norm` down to `limit`, as torch.nn.utils.clip_grad_norm_.
double clip_scale(double norm, double limit);

}  // namespace rannc::runtime
