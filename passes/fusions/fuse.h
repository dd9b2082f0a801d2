/// Replaces decomposed operators by one LibTorch operator.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/match/rewrite_patterns.h"
#include "passes/pass.h"

namespace rannc::passes {

/// One kind of fusion: a set of patterns, none of which is specific to a model.
struct Fusion {
  std::vector<ir::Rewrite> (*rules)();
  std::string_view name;     ///< `gelu`
  std::string_view summary;  ///< what is replaced by what
};

/// Returns the name of the fusion's pass: `fuse-gelu`.
std::string pass_name(const Fusion& fusion);

/// Returns all fusions in the order in which they run: later ones may match results of earlier ones.
std::span<const Fusion> fusions();

/// Returns the names of the passes that reduce the number of operators: `cse`, `hoist-uniform`, `join-pieces`,
/// `merge-slices` and all fusions. Skipped where operators are counted.
std::set<std::string> shortening_passes();

/// Replaces the matches of one fusion's rules.
///
/// Before: final types, losses attached. After: the same numbers except for rounding in the element type of the graph.
/// A number matches an operator's constant only if both round to the same number of that type; `snap-constants` ensures
/// this if the file's numbers are rounded more coarsely. A value with other readers, an output or a loss is never
/// removed. A remark counts the matches. Linear in tasks. Never moves a gradient to another parameter: stored tensors
/// are read as they are.
class Fuse : public Pass {
 public:
  explicit Fuse(const Fusion& fusion) : fusion_(fusion), name_(pass_name(fusion)) {}
  std::string_view name() const override { return name_; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  const Fusion& fusion_;
  std::string name_;
};

}  // namespace rannc::passes
