/// Parts of programs that are printed and read.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/internal/text_cursor.h"
#include "ir/program/program.h"

namespace rannc::ir {

/// In the order of `aten::MemoryFormat`.
inline constexpr std::array<std::string_view, 3> kMemoryFormats = {"contiguous", "preserve", "channels-last"};

/// Words that stand for an argument which is not a size.
inline constexpr std::array<std::string_view, 8> kArgumentWords = {
    "none", "true", "false", "device", "training", kMemoryFormats[0], kMemoryFormats[1], kMemoryFormats[2]};

/// Results of a lowering that a call makes, each once.
std::vector<aten::Made> made_results(const aten::Lowering& lowering);

/// Calls `visit` for each value that the calls of a lowering read.
template <class Lowering, class Visit>
void for_each_value(Lowering& lowering, const Visit& visit) {
  for (auto& call : lowering.calls) {
    for (auto& argument : call.arguments) {
      if (auto* value = std::get_if<aten::Value>(&argument.value)) visit(*value);
      if (auto* values = std::get_if<std::vector<aten::Value>>(&argument.value))
        for (auto& each : *values) visit(each);
    }
  }
}

/// Appends the lines of a loop, which follow the line of its instruction. `graph` has its random inputs.
void append_loop(std::string& to, const ProgramLoop& loop, const Graph& graph);
/// Reads a line of a loop. False: it is none. `value` finds a value by its name.
Result<bool> read_loop_line(TextCursor& line, ProgramLoop& loop,
                            const std::function<ValueId(const std::string&)>& value);

}  // namespace rannc::ir
