/// Says where no gradient flows, as a model file does not.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "passes/pass.h"

namespace rannc::passes {

/// What a user knows of gradients that the file lost. By value name.
struct LostGradients {
  std::map<std::string, int64_t> padding;  ///< of a table, the row that takes none; negative: from the end
  std::set<std::string> stopped;           ///< values that were detached, for all readers
  std::set<std::string> strict;            ///< results of clamps whose bounds take none, as those of relu6 and hardtanh
  bool empty() const { return padding.empty() && stopped.empty() && strict.empty(); }
};

/// Before: as imported. After: look-ups of the tables have `padding_index`, readers of the values read
/// `core.stop_gradient` of them, the clamps are strict. Stands first, so that recover-parameters does not train what is
/// read through a stop alone. Linear.
/// A name that stands for no such thing is an error; a value that the graph gives out stays what it is there.
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
/// Reads that spelling.
Result<LostGradients> parse_lost_gradients(std::string_view text);

}  // namespace rannc::passes
