/// What `--list` prints: names that flags take, a line each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rannc::tools {

/// Kinds of names: `cluster`, `schedule`, `planner`, `loss`, `optimizer`.
std::vector<std::string> listed_kinds();
/// `name  what it is`, a line each. Every name that the flag takes stands there.
std::string listing(const std::string& kind);

/// `--list KIND` prints and ends, whatever else the command line lacks.
void add_list_flag(CLI::App& app);

}  // namespace rannc::tools
