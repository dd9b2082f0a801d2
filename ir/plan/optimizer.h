/// Optimizers and their settings, also of groups of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::ir {

/// SGD to Lion update each element by itself. Muon and Adafactor update a tensor as a whole.
enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamW, kLion, kMuon, kAdafactor };
std::string_view str(OptimizerKind kind);
/// `sgd`, `adam`, `adamw`, `lion`, `muon` and `adafactor`.
const std::vector<std::string_view>& optimizer_names();
/// The error for other names lists them.
Result<OptimizerKind> parse_optimizer(std::string_view name);

/// How one parameter is updated. Names and meanings are those of torch.optim; Lion's are its paper's (Chen et al.,
/// 2023).
struct UpdateRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0;                                ///< SGD, Muon
  bool nesterov = false;                              ///< SGD with momentum, Muon
  double weight_decay = 0;                            ///< SGD and Adam: added to the gradient; others: decoupled
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< Adam, AdamW; Lion: both betas
  bool amsgrad = false;                               ///< Adam, AdamW
  /// Muon: learning rates are AdamW's, scaled by 0.2 sqrt(rows or columns, whichever is more), so that the update of an
  /// element has AdamW's size (`adjust_lr_fn="match_rms_adamw"`). False: by sqrt(max(1, rows / columns))
  /// (`"original"`).
  bool match_rms_adamw = true;

  bool operator==(const UpdateRule&) const = default;
};

/// Returns the rule with an optimizer's default settings, a learning rate of `learning_rate` and no weight decay.
UpdateRule default_rule(OptimizerKind kind, double learning_rate);
/// The same with another optimizer: `rule` itself if it has that; else its learning rate and weight decay, and for
/// optimizers of the same settings these too, with defaults for the rest.
UpdateRule with_kind(const UpdateRule& rule, OptimizerKind kind);

/// Whether the optimizer has a setting, such as `momentum`. Muon has those of AdamW, which updates what is no matrix.
bool has_setting(OptimizerKind kind, std::string_view setting);
/// Optimizers with a setting, for messages: `sgd and muon`.
std::string optimizers_with(std::string_view setting);

/// Names of the state tensors of a parameter that is updated element by element, of its shape. Muon: those of AdamW.
std::vector<std::string_view> element_states(const UpdateRule& rule);
/// Names and shapes of the state tensors of a tensor of `shape` that is updated as a whole.
struct WholeState {
  std::string_view name;
  std::vector<int64_t> shape;
};
std::vector<WholeState> whole_states(OptimizerKind kind, const std::vector<int64_t>& shape);

/// Parameters whose `state_dict` names match a pattern (`*` any text, `?` one character), with settings that differ
/// from the run's: `*.bias: weight_decay=0, rate=0.1x, optimizer=adamw`. A rate with an x multiplies the run's.
struct ParameterGroup {
  std::string pattern;
  std::vector<std::pair<std::string, std::string>> settings;  ///< names and values as written
  bool operator==(const ParameterGroup&) const = default;
};
/// Parses `PATTERN: NAME=VALUE, …`. The error names the setting, its value and what is accepted.
Result<ParameterGroup> parse_group(std::string_view text);
std::string str(const ParameterGroup& group);
/// Returns the rule with a parsed group's settings.
UpdateRule apply(const ParameterGroup& group, UpdateRule rule);

/// What differs between the parameters of a model.
struct Grouping {
  std::vector<ParameterGroup> groups;  ///< no parameter may be in two
  bool no_decay = false;               ///< no weight decay of biases and of scales of normalizations
  bool no_decay_embeddings = false;    ///< nor of tables of embeddings
  /// Weight of the old value in an exponential average of each parameter, which is kept beside it; 0: no average.
  double average = 0;
  bool operator==(const Grouping&) const = default;
};

/// The optimizer that a plan assumes. Runs of its bundle use it by default.
struct PlanOptimizer {
  std::string name;  ///< of `optimizer_names`; empty: none, as in plans for inference
  double momentum = 0;
  bool amsgrad = false;
  Grouping grouping;
  /// The rule of parameters in no group. Requires a valid name.
  UpdateRule rule() const;
  /// Copies of a parameter that is updated element by element in no group: SGD 0, SGD with momentum 1, Adam 2. Counts
  /// the average.
  uint32_t states() const;
  bool operator==(const PlanOptimizer&) const = default;
};

}  // namespace rannc::ir
