/// What exporters write out becomes the one operator that LibTorch has for it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/match/rewrite_patterns.h"
#include "passes/pass.h"

namespace rannc::passes {

/// One kind of fusion: patterns as values, none of which knows a model.
struct Fusion {
  std::vector<ir::Rewrite> (*rules)();
  std::string_view name;  ///< `gelu`
  std::string_view says;  ///< what becomes what
};

/// The pass of a fusion: `fuse-gelu`.
std::string pass_name(const Fusion& fusion);

/// In the order in which they run: what an earlier one makes, a later one may be about.
std::span<const Fusion> fusions();

/// Names of the passes that write a model in fewer operators: `cse`, `hoist-uniform`, `join-pieces`, `merge-slices` and
/// all fusions. Left out where operators are counted.
std::set<std::string> shortening_passes();

/// Replaces what the rules of one fusion recognise.
///
/// Before: final types, losses attached. After: the same numbers but for rounding in the element type of the graph: a
/// number in the graph is what an operator means only where they round to the same one (`snap-constants` sees to that
/// where a file's numbers are rounded more coarsely). A value that anything else reads, an output or a loss is never
/// lost. A remark says how many were found. Linear in tasks.
/// Never moves a gradient to another parameter: stored tensors are read as they are.
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
