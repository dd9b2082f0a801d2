/// Values of exported programs: what arguments in their JSON say, and the names of what nodes make.
#pragma once

#include <ATen/core/jit_type.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/torchscript/internal/exported/exported_archive.h"
#include "frontend/torchscript/internal/item.h"

namespace rannc::frontend::torchscript {

/// Of one graph.
using Names = std::unordered_map<std::string, Item>;

/// What an argument is that has this alternative of the schema's union. Errors: a kind that is not supported, a name
/// that nothing was given yet. All of these throw a `std::exception` where the JSON is not as the schema has it.
Result<Item> value_of(const Names& names, const std::string& kind, const Json& value);

/// An item of the kind of number that an operator's schema asks for.
Item as(const c10::TypePtr& type, const Item& item);

/// The name of an input or an output that is one value.
const std::string& single_name(const Json& value);

/// A name for each output of a node, empty where it has none.
std::vector<std::string> names_of(const Json& outputs);

/// Gives a node's outputs what it made.
Result<void> name_results(Names& names, const Json& outputs, const std::vector<Item>& made);

}  // namespace rannc::frontend::torchscript
