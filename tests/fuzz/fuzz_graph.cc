/// Graph text never crashes the parser; what it accepts prints to text that is a fixed point.
#include <string>
#include <string_view>

#include "ir/diagnostic.h"
#include "ir/text.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view text) {
  const auto graph = rannc::ir::parse_graph(text, "fuzz.rir");
  if (!graph.ok()) return false;
  const std::string printed = rannc::ir::print(*graph);
  const auto again = rannc::ir::parse_graph(printed, "again.rir");
  RANNC_CHECK(again.ok() && rannc::ir::print(*again) == printed) << "print and parse of a graph do not agree";
  return true;
}
