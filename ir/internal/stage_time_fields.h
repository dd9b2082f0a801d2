/// Optional fields of a `time` line, in the order of the text.
#pragma once

#include "ir/plan/plan.h"

namespace rannc::ir {

/// Calls `f(name, field)` for each field that a line may omit if it is 0.
template <class Time, class F>
void for_each_optional_field(Time& time, F&& f) {
  using enum ProgramKind;
  auto& [usual, first, last] = time.peaks;
  f("weight_ns", time.weight_ns);
  f("pending_bytes", time.pending_bytes);
  f("passing_bytes", usual[kEvaluate]);
  f("forward_bytes", usual[kForward]);
  f("backward_bytes", usual[kBackward]);
  f("first_backward_bytes", first[kBackward]);
  f("kept_bytes", time.kept_bytes);
  f("begin_bytes", usual[kBegin]);
  f("rebuild_bytes", usual[kRebuild]);
  f("input_bytes", usual[kInput]);
  f("weight_bytes", usual[kWeight]);
  f("first_weight_bytes", first[kWeight]);
  f("last_backward_bytes", last[kBackward]);
  f("last_weight_bytes", last[kWeight]);
  f("rebuild_ns", time.rebuild_ns);
}

}  // namespace rannc::ir
