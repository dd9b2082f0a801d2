/// Handles models whose mini-batches cannot be divided because samples interact.
#pragma once

#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "partition/model/plan_model.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Whether data can be split into mini-batches of a model whose mini-batches cannot be divided. This requires that axis
/// 0 of the first input has the size `symbol`, and that each size of an input without that symbol is also a size of one
/// with it. For example, the edges of a graph cannot be split with its nodes.
bool has_mini_batches(const ir::Graph& graph, const std::string& symbol);

/// Whether an output is one float, as losses are.
bool gives_a_number(const ir::Graph& graph);

/// Describes the extent that a loss assumes to be the number of samples, if it divides by it and there is no batch
/// symbol.
std::optional<std::string> assumed_samples(const ir::Graph& graph);

/// Explains why the mini-batches of `model` cannot be divided, and what would make them divisible.
std::string why_whole(const PreparedModel& model, const Diagnostic& why);

/// Returns an error at the task that mixes samples if `options` request several micro-batches or replicas of such a
/// model. [P15]
Result<void> check_undivided(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
