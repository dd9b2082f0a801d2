/// Printing and parsing of graphs and plans as text IR.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// Text IR. The first line is `rannc.graph 1` or `rannc.plan 1`; then one statement per line. `parse(print(x))` equals
/// x, and printing a graph or plan parsed from printed text gives the same bytes. `//` starts a comment, which the
/// parser drops.
std::string print(const Graph& graph);
std::string print(const Atoms& atoms, const Graph& graph);
std::string print(const Plan& plan);

/// Adds to a verifier's diagnostic the place in `text` of the first thing that its message names (`#3`, `%x`, `@s1`,
/// `route 0`, `d2`). The place becomes the location, or a note if the diagnostic already has a location.
Diagnostic located(Diagnostic found, std::string_view text, const std::string& file);

/// Parses a graph. `file` names the text in diagnostics. Paths of data files are relative to its folder.
Result<Graph> parse_graph(std::string_view text, const std::string& file);
/// Parses and verifies a plan (rules P, S).
Result<Plan> parse_plan(std::string_view text, const std::string& file);

/// A plan as a person may have edited it.
struct PlanDraft {
  Plan plan;                 ///< without all that follows from its cut: routes, times, predictions, functions, schedule
  std::string schedule;      ///< its name
  std::string computations;  ///< its rows, without transfers, reductions and steps: a table
};
/// Parses a plan and verifies its cut (rules P1, P2, P4, P7, P8, P12, P14, P15). Statements that follow from the cut
/// are parsed, but neither compared nor returned. If an edit adds or removes stages, numbers in those statements may
/// fail to parse; they may all be deleted.
Result<PlanDraft> parse_draft(std::string_view text, const std::string& file);

}  // namespace rannc::ir
