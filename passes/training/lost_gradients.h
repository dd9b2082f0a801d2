/// Restores gradient stops that a model file does not record.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "passes/pass.h"

namespace rannc::passes {

/// Gradient stops that the file lost, from the user. By value name.
struct LostGradients {
  std::map<std::string, int64_t> padding;  ///< row of a table that gets no gradient; negative: from the end
  std::set<std::string> stopped;           ///< values that were detached, for all readers
  std::set<std::string> strict;  ///< results of clamps without gradient at the bounds, as in relu6 and hardtanh
  bool empty() const { return padding.empty() && stopped.empty() && strict.empty(); }
};

/// Before: as imported. After: look-ups of the tables have `padding_index`, readers of the values read
/// `core.stop_gradient` of them, and the clamps are strict. Runs early, so that recover-parameters does not train what
/// is read only through a stop. Linear. A name without a matching table, value or clamp is an error. A value that is a
/// graph output does not change there.
/// Example: `tests/passes/golden/lose_gradients.rir`.
class LoseGradients : public Pass {
 public:
  explicit LoseGradients(LostGradients lost) : lost_(std::move(lost)) {}
  std::string_view name() const override { return "lose-gradients"; }
  std::string spelling() const override;
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  LostGradients lost_;
};

/// `padding=table:0`, `stop=value` and `strict=value`, joined by commas.
std::string str(const LostGradients& lost);
/// Parses that spelling.
Result<LostGradients> parse_lost_gradients(std::string_view text);

}  // namespace rannc::passes
