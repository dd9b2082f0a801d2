/// The table of engines: what runs a stage's program.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/engine/operator_origin.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// One engine. To add one, add a row in `engine.cc`.
struct Engine {
  std::string_view name;
  std::string_view summary;  ///< one phrase, for `--help`
  /// Loads the program and the weights of a stage of an open bundle.
  Result<std::unique_ptr<Program>> (*load)(const Bundle& bundle, StageId stage, Origins origins) = nullptr;
};

/// Every row; the first is the default.
std::span<const Engine> engines();

/// Names of all rows.
std::vector<std::string> engine_names();

/// `autograd: ...; ...`, for `--help`.
std::string engine_summaries();

/// The row of that name; empty: the default. Error: there is none; the message lists the names.
Result<const Engine*> find_engine(std::string_view name);

}  // namespace rannc::runtime
