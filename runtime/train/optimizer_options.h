/// Settings of a run's optimizer and how its learning rate changes.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/plan/optimizer.h"

namespace rannc::runtime {

using ir::OptimizerKind;
using ir::parse_optimizer;
using ir::str;

/// How the learning rate falls after the warm-up: to `decay_to` of its value by half a cosine or a line until
/// `decay_steps`, which `kWsd` (warm-up, stable, decay) begins late; or as the inverse square root of the updates.
enum class Decay : uint8_t { kCosine, kLinear, kWsd, kInverseSqrt, kConstant };
std::string_view str(Decay decay);
/// Accepts `cosine`, `linear`, `wsd`, `inverse-sqrt` and `constant`. The error for other names lists them.
Result<Decay> parse_decay(std::string_view name);

/// The rule of parameters in no group, and what all parameters have in common.
struct OptimizerOptions : ir::UpdateRule {
  ir::Grouping grouping;
  uint64_t warmup_steps = 0;     ///< the learning rate rises linearly over this many steps
  Decay decay = Decay::kCosine;  ///< how it falls then
  uint64_t decay_from = 0;       ///< earliest update of the decay; `kWsd`, 0: its last fifth
  uint64_t decay_steps = 0;      ///< until this update; 0: no decay, except `kInverseSqrt`
  double decay_to = 0.1;         ///< to this fraction
  /// Returns the learning rate of an update. Updates are counted from 0.
  double learning_rate_at(uint64_t update) const { return rate_at(update, learning_rate); }
  /// The same of parameters whose learning rate is `rate` after the warm-up.
  double rate_at(uint64_t update, double rate) const;
  /// Returns the first update of the decay.
  uint64_t decay_begin() const;
  bool operator==(const OptimizerOptions&) const = default;
};

}  // namespace rannc::runtime
