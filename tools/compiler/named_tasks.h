/// Demands on a plan that name tasks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/model/block_demands.h"
#include "rannc/compiler/plan_options.h"

namespace rannc::tools {

/// A name of an atom. Several atoms may share a name, and an atom may have several.
struct AtomName {
  std::string name;
  uint32_t atom = 0;
};

/// Resolves the pins, which need `options.stages`, and `together`: exact names first, then patterns. Fails on a name
/// without atoms, on a stage that does not exist and on an atom that is pinned to two stages.
Result<partition::AtomDemands> named_demands(const compiler::PlanOptions& options, const std::vector<AtomName>& names);

}  // namespace rannc::tools
