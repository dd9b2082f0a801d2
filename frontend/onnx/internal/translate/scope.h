/// Scopes of names during translation.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/internal/bodies.h"
#include "frontend/onnx/internal/model/scan.h"
#include "frontend/onnx/internal/translate/names.h"
#include "frontend/onnx/internal/translate/node.h"
#include "onnx/checker.h"

namespace rannc::frontend {

/// Context for ONNX's checker with the operator sets of a body.
ONNX_NAMESPACE::checker::CheckerContext checker_context(const Opsets& opsets);

/// Position of a body in the file. Repeated translations of a body share its stored tensors.
struct FilePlace {
  std::string calls;    ///< path with function calls, because `Constant` nodes of a function may depend on its call
  std::string written;  ///< path as written in the file, the same for all calls of a function
  std::string prefix;   ///< prefix of names, without trip numbers

  bool in_subgraph = false;  ///< whether it is in an If, Loop or Scan, or in a function called there

  FilePlace subgraph_of(const ONNX_NAMESPACE::NodeProto& node, const std::string& which) const;
  FilePlace function_of(const ONNX_NAMESPACE::NodeProto& node, const ONNX_NAMESPACE::FunctionProto& function) const;
};

/// The names of one body: the model's graph, one call of a function, one run of a subgraph.
struct Scope {
  Scope(const Opsets& opsets, Region& region, std::string prefix, std::string module, int depth,
        const Scope* around = nullptr, FilePlace place = {})
      : opsets(opsets),
        region(region),
        checker(checker_context(opsets)),
        prefix(std::move(prefix)),
        module(std::move(module)),
        place(std::move(place)),
        depth(depth),
        around(around) {}

  const Opsets& opsets;
  Region& region;
  const ONNX_NAMESPACE::checker::CheckerContext checker;
  std::string prefix;  ///< prefix of the names of nodes and values inside
  std::string module;  ///< module of all nodes inside; empty: determined per node
  FilePlace place;
  std::unordered_map<std::string, std::string> output_names;  ///< from formal output to name outside
  Names values;
  std::unordered_map<std::string, List> lists;  ///< names of sequences and empty optionals
  std::unordered_set<std::string> absent;       ///< inputs of a function that its call omits
  int depth = 0;
  std::string maker = "the model";  ///< description of the body, for messages
  const Scope* around;              ///< enclosing scope whose names are visible here; null: none
};

/// A node or name of the model. Converted to a location only for a message.
struct Place {
  const std::string& file;
  std::string_view prefix;  ///< prefix of a node's name
  const ONNX_NAMESPACE::NodeProto* node = nullptr;
  std::string_view name;

  operator Location() const {  // NOLINT: a place is a location
    return {file, 0, 0, node ? std::string(prefix) + node_name(*node) : std::string(name)};
  }
};

}  // namespace rannc::frontend
