/// Symbols that the generated statements of a task name.
#pragma once

#include <set>
#include <string>

#include "ir/graph/graph.h"

namespace rannc::codegen {

/// Adds the symbols in the types of a task's operands and results and in its attributes.
inline void collect_symbols(const ir::Graph& graph, TaskId task, std::set<std::string>& symbols) {
  const auto of_shape = [&](const ir::Shape& shape) {
    for (const ir::Dim& dim : shape) dim.collect_symbols(symbols);
  };
  for (const auto values : {graph.inputs(task), graph.outputs(task)}) {
    for (const ValueId value : values) {
      if (value.valid() && graph.type(value).shape) of_shape(*graph.type(value).shape);
    }
  }
  for (const auto& [name, value] : graph.attributes(task)) {
    if (const auto* dim = std::get_if<ir::Dim>(&value)) dim->collect_symbols(symbols);
    if (const auto* list = std::get_if<ir::Shape>(&value)) of_shape(*list);
  }
}

}  // namespace rannc::codegen
