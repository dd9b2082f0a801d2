/// Lists the names that flags accept, for `--list`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rannc::tools {

/// Kinds of names: `cluster`, `schedule`, `planner`, `loss`, `optimizer`.
std::vector<std::string> listed_kinds();
/// Returns a line `name  description` for every name that the flag accepts.
std::string listing(const std::string& kind);

/// Adds `--list KIND`, which prints the names and exits even if required arguments are missing.
void add_list_flag(CLI::App& app);

}  // namespace rannc::tools
