/// The contents of the public types of `rannc/compiler.h`, for programs of this repository.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rannc/compiler.h"
#include "runtime/bundle/bundle.h"
#include "tools/compiler/bundle_model.h"
#include "tools/compiler/compiler.h"
#include "tools/compiler/search_report.h"

namespace rannc::compiler {

struct Model::State {
  std::string file;
  ReadOptions options;
  tools::PreparedModel prepared;
  Result<std::string> foreign_calls;  ///< of `tools::foreign_calls`; an error keeps the model from being planned
  std::vector<runtime::Library> libraries;
  std::optional<tools::PlannedBundle> bundle = {};  ///< of which the model is, instead of a model file
};

struct Plan::State {
  partition::PlannedModel planned;
  partition::PlanOptions options;
  tools::SearchReport search;  ///< its warnings include those of the model
  std::vector<runtime::Library> libraries;
  PlanFacts facts;
  std::string file;  ///< of the model
  ReadOptions read;
  tools::NodeModules modules;  ///< of the model
};

}  // namespace rannc::compiler
