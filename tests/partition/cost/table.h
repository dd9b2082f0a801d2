/// Prices tasks from a table given as a value (tests, published profiles).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "partition/cost/size_curve.h"

namespace rannc::partition {

/// Key to curve, the same on every device. An unknown key is an error that names the task.
std::unique_ptr<CostModel> table_costs(std::map<std::string, SizeCurve> table);

}  // namespace rannc::partition
