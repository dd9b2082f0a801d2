/// Converts arguments and results in the JSON of exported programs to and from items.
#pragma once

#include <ATen/core/jit_type.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/torchscript/internal/exported/exported_archive.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Items of one graph by name.
using Names = std::unordered_map<std::string, Item>;

/// Returns the item of an argument that has this alternative of the schema's union. Errors: an unsupported kind, a name
/// that is not defined yet. All functions here throw a `std::exception` if the JSON does not match the schema.
Result<Item> value_of(const Names& names, const std::string& kind, const Json& value);

/// Converts an item to the kind of number that an operator's schema requires.
Item as(const c10::TypePtr& type, const Item& item);

/// The name of an input or output that is a single value.
const std::string& single_name(const Json& value);

/// The name of each output of a node. Empty if it has none.
std::vector<std::string> names_of(const Json& outputs);

/// Binds a node's results to the names of its outputs.
Result<void> name_results(Names& names, const Json& outputs, const std::vector<Item>& made);

}  // namespace rannc::frontend::torchscript
