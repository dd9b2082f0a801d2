/// Branches and loops that data decide: tasks with bodies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/bodies.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Where a branch or a loop stands in the program.
struct Site {
  Region& around;
  Location where;
  std::string stem;  ///< of the names of results
  ImportNotes& notes;
  std::optional<int64_t> max_trips = {};  ///< of a loop whose trips data count
};

/// What stands inside of a body for an item of the graph around it. Tensors and lists cannot be written there: nothing
/// says what the other branch, or no trip at all, would leave of them.
Result<Item> taken(const Site& site, Region& inside, const Item& item);

/// Makes a body's tasks, and says what they give.
using RunBranch = std::function<Result<std::vector<Item>>(Region& inside)>;
/// One task of two bodies, of which `condition` chooses: what each gives has to be alike but for tensors and numbers.
Result<std::vector<Item>> add_branch(const Site& site, const Item& condition, const RunBranch& then,
                                     const RunBranch& otherwise);

struct Loop {
  std::optional<ir::Dim> trips = {};  ///< where they follow from sizes
  Item counted = {};                  ///< where data say them; None: nothing does
  Item condition = {};                ///< before the first trip; None: it goes on as long as there are trips
  std::vector<Item> states = {};
};
/// What a trip is given, and what it makes: whether there is a next one, and the states.
using RunTrip = std::function<Result<std::pair<Item, std::vector<Item>>>(Region& inside, const Item& trip,
                                                                         const std::vector<Item>& states)>;
/// One task of a body that runs as often as it says: the last states. Only tensors and numbers change from trip to
/// trip; numbers that do are data. The body may be run several times, of which the last counts.
Result<std::vector<Item>> add_loop(const Site& site, const Loop& loop, const RunTrip& body);

}  // namespace rannc::frontend::torchscript
