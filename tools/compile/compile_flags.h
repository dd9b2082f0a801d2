/// Flags of `rannc-compile` that other tools share: the rows of the public options.
#pragma once

#include "rannc/compiler/plan_options.h"
#include "rannc/compiler/read_options.h"
#include "tools/common/flag_table.h"

namespace rannc::tools {

/// What flags about passes set besides `ReadOptions`.
struct PassFlags {
  bool loops = true;  ///< compiled stages have loops of their own
  bool time_passes = false;
};

/// Adds the flags of `ReadOptions`, `--no-fuse` and `--time-passes`.
void add_read_flags(FlagTable& table, compiler::ReadOptions& options, PassFlags& passes);
/// Adds the flags of `PlanOptions`.
void add_plan_flags(FlagTable& table, compiler::PlanOptions& options);

/// Throws a usage error if the result is an error.
void require_usage(const Result<void>& checked);

}  // namespace rannc::tools
