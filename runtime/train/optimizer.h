/// Optimizers: what a step does with a stage's gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamW };
std::string_view str(OptimizerKind kind);
/// `sgd`, `adam`, `adamw`; an error lists them.
Result<OptimizerKind> parse_optimizer(std::string_view name);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0;                                ///< SGD
  double weight_decay = 0;                            ///< added to the gradient; AdamW: decoupled
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< Adam
  uint64_t warmup_steps = 0;                          ///< the learning rate rises linearly over so many steps
  uint64_t decay_steps = 0;                           ///< then falls as a half cosine until this step; 0: stays
  double decay_to = 0.1;                              ///< to this fraction
  /// The learning rate of a step, counted from 0.
  double learning_rate_at(uint64_t step) const;
  /// Copies of the parameters that the optimizer keeps.
  uint32_t states() const;
  bool operator==(const OptimizerOptions&) const = default;
};

/// State of one stage's parameters. Same numbers as torch.optim's, parameter by parameter, so that the result does not
/// depend on which stage holds one: LibTorch's fused kernels, one call for all parameters of the stage, without memory
/// of its own; where gradients are scaled, or wider than parameters, calls over slices that are scaled or widened in a
/// copy of a mebibyte: others may hold the gradients, which stay what they were. Used by one thread at a time;
/// `program` outlives it.
class StageOptimizer {
 public:
  /// `left_alone`: per parameter of the signature whether no gradient reaches it, so that no step changes it, as
  /// PyTorch's optimizers leave parameters without a gradient; empty: none.
  StageOptimizer(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone = {});
  ~StageOptimizer();
  /// Changes the program's parameters in place by its accumulated gradients, scaled by `gradient_scale`.
  Result<void> update(uint64_t step, double gradient_scale = 1);
  void set_learning_rate(double rate);
  /// Names of the states (`momentum`; `exp_avg`, `exp_avg_sq`), and per state the tensors in the order of the
  /// signature's parameters. Writing through them restores a checkpoint.
  const std::vector<std::string>& state_names() const;
  const std::vector<Values>& states() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Sum of squares of the accumulated gradients of the given parameters: rows of a few thousand elements in the
/// gradient's type, their sums in double precision. Where float32 does not hold such a sum, all of it is in double
/// precision.
double squared_norm(Program& program, std::span<const uint32_t> parameters);

/// By what gradients of the global norm `norm` are scaled down to `limit`, as torch.nn.utils.clip_grad_norm_ has it.
double clip_scale(double norm, double limit);

}  // namespace rannc::runtime
