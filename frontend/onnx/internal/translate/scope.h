/// Names of the bodies that are being translated.
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

/// What ONNX's checker is told of the operator sets of a body.
ONNX_NAMESPACE::checker::CheckerContext checker_context(const Opsets& opsets);

/// Where a body stands in the file, however often it is translated. Bodies at one place share what they store.
struct FilePlace {
  std::string calls;    ///< by way of calls of functions: `Constant` nodes of a function may depend on its call
  std::string written;  ///< as written in the file: one for all calls of a function
  std::string prefix;   ///< of names, without numbers of trips

  bool in_subgraph = false;  ///< of an If, Loop or Scan, or a function that one calls

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
  std::string prefix;  ///< of nodes and values inside
  std::string module;  ///< that all nodes inside belong to; empty: ask each
  FilePlace place;
  std::unordered_map<std::string, std::string> output_names;  ///< formal output -> name outside
  Names values;
  std::unordered_map<std::string, List> lists;  ///< names of sequences and empty optionals
  std::unordered_set<std::string> absent;       ///< inputs of a function that its call leaves out
  int depth = 0;
  std::string maker = "the model";  ///< what the body is, for messages
  const Scope* around;              ///< whose names are seen from here; null: none
};

/// A node, or a name, of the model; spelt out only for a message.
struct Place {
  const std::string& file;
  std::string_view prefix;  ///< of a node's name
  const ONNX_NAMESPACE::NodeProto* node = nullptr;
  std::string_view name;

  operator Location() const {  // NOLINT: a place is a location
    return {file, 0, 0, node ? std::string(prefix) + node_name(*node) : std::string(name)};
  }
};

}  // namespace rannc::frontend
