/// Text form of programs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/program/program.h"

namespace rannc::ir {

/// The first line of a text of programs: `rannc.programs 1`.
std::string programs_head();

/// Prints one program, a line per instruction. `stage`: its number, which stands beside the name. Two programs of equal
/// text over the same joint graph are equal.
std::string print(const Program& program, size_t stage);

/// Programs that were read from text.
struct ParsedPrograms {
  std::vector<std::unique_ptr<Graph>> graphs;  ///< by stage, in order; have its values, but no tasks
  std::vector<Program> programs;
  std::vector<size_t> stages;  ///< by program: number of its stage

  std::string print() const;
};

/// Parses a text of programs and verifies each.
Result<ParsedPrograms> parse_programs(std::string_view text, const std::string& file);

/// All faults of a program, each with a rule label L1…. verify_program.cc checks the rules. Empty if it is valid.
std::vector<Diagnostic> verify(const Program& program);

}  // namespace rannc::ir
