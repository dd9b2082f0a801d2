/// Optional fields of a `time` line, in the order of the text.
#pragma once

#include "ir/plan/plan.h"

namespace rannc::ir {

/// Calls `f(name, field)` for each field that a line may omit if it is 0.
template <class Time, class F>
void for_each_optional_field(Time& time, F&& f) {
  f("weight_ns", time.weight_ns);
  f("pending_bytes", time.pending_bytes);
  f("passing_bytes", time.passing_bytes);
  f("forward_bytes", time.forward_bytes);
  f("backward_bytes", time.backward_bytes);
  f("first_backward_bytes", time.first_backward_bytes);
  f("kept_bytes", time.kept_bytes);
  f("begin_bytes", time.begin_bytes);
  f("rebuild_bytes", time.rebuild_bytes);
  f("input_bytes", time.input_bytes);
  f("weight_bytes", time.weight_bytes);
  f("first_weight_bytes", time.first_weight_bytes);
  f("last_backward_bytes", time.last_backward_bytes);
  f("last_weight_bytes", time.last_weight_bytes);
  f("rebuild_ns", time.rebuild_ns);
}

}  // namespace rannc::ir
