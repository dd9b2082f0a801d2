/// Translates data-dependent branches and loops to tasks with bodies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/bodies.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Context of a branch or a loop in the program.
struct Site {
  Region& around;
  Location where;
  std::string stem;  ///< stem of the names of results
  ImportNotes& notes;
  std::optional<int64_t> max_trips = {};  ///< for a loop with a data-dependent trip count
};

/// Returns the counterpart inside a body of an item outside. Its tensors and lists are read-only, because their state
/// after the other branch or after zero trips would be undefined.
Result<Item> taken(const Site& site, Region& inside, const Item& item);

/// Adds the tasks of a body and returns its results.
using RunBranch = std::function<Result<std::vector<Item>>(Region& inside)>;
/// Adds one task whose `condition` chooses between two bodies. Their results must be equal except for tensors and
/// numbers.
Result<std::vector<Item>> add_branch(const Site& site, const Item& condition, const RunBranch& then,
                                     const RunBranch& otherwise);

struct Loop {
  std::optional<ir::Dim> trips = {};  ///< trip count, if it follows from sizes
  Item counted = {};                  ///< data-dependent trip count; None: there is none
  Item condition = {};                ///< condition before the first trip; None: only the trip count ends the loop
  std::vector<Item> states = {};
};
/// Adds the tasks of one trip. Returns whether another trip follows, with the new states.
using RunTrip = std::function<Result<std::pair<Item, std::vector<Item>>>(Region& inside, const Item& trip,
                                                                         const std::vector<Item>& states)>;
/// Adds one loop task and returns the last states. Only tensors and numbers may change between trips. Changing numbers
/// become data. `body` may be called several times; its last call counts.
Result<std::vector<Item>> add_loop(const Site& site, const Loop& loop, const RunTrip& body);

}  // namespace rannc::frontend::torchscript
