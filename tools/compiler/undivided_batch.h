/// What is planned and said of a model whose mini-batches stay whole because it mixes their samples.
#pragma once

#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "partition/model/plan_model.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Whether data can be cut into mini-batches of a model that was read whole: axis 0 of its first input has the size
/// `symbol`, and each other size of an input without that symbol is a size of one that has it. A graph's edges, which
/// are no part of its nodes, are none.
bool has_mini_batches(const ir::Graph& graph, const std::string& symbol);

/// Whether an output is one float, as losses are.
bool gives_a_number(const ir::Graph& graph);

/// Where a loss is divided by the number of samples and no symbol counts them: which extent is taken for it.
std::optional<std::string> assumed_samples(const ir::Graph& graph);

/// Why the mini-batches of `model` stay whole, and what would make them divisible.
std::string why_whole(const PreparedModel& model, const Diagnostic& why);

/// An error at the task that mixes samples where `options` demand several micro-batches or replicas of such a model.
/// [P15]
Result<void> check_undivided(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
