/// Rows of the named schedules that apply to a shape.
#pragma once

#include <string>
#include <vector>

#include "partition/schedule/family.h"
#include "partition/schedule/found/row_problem.h"

namespace rannc::partition::found {

struct NamedRows {
  std::string name;
  ir::Schedule schedule;  ///< compute-only
};

/// Rows of every family that supports the shape with its default parameters (with and without the time of messages),
/// of `k-periodic` with fewer batches, and of warm-ups deeper than those of `latency`. Families that split backward
/// passes only if the problem allows it. Tables of users are not among them. `serial`, which holds least, is the last.
std::vector<NamedRows> named_rows(const RowProblem& problem);

}  // namespace rannc::partition::found
