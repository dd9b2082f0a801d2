/// Text form of graphs and plans: printing, and reading back with located errors.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// First line `rannc.graph 1` / `rannc.plan 1`; one statement a line. `parse(print(x))` equals x, and printing what was
/// parsed from printed text gives the same bytes. `//` starts a comment, which the parser drops.
std::string print(const Graph& graph);
std::string print(const Atoms& atoms, const Graph& graph);
std::string print(const Plan& plan);

/// The place in `text` of what a verifier's message names first (`#3`, `%x`, `@s1`, `route 0`, `d2`): it becomes the
/// diagnostic's location, or a note where the diagnostic has the model's own.
Diagnostic located(Diagnostic found, std::string_view text, const std::string& file);

/// `file` names the text in diagnostics; data ranges of files are resolved relative to its folder.
Result<Graph> parse_graph(std::string_view text, const std::string& file);
/// Parses and verifies (rules P, S).
Result<Plan> parse_plan(std::string_view text, const std::string& file);

}  // namespace rannc::ir
