/// Graph text never crashes the parser; what it accepts prints to text that is a fixed point.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"
#include "ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = rannc::ir::parse_graph(text, "fuzz.rir");
  if (!graph.ok()) return 0;
  const std::string printed = rannc::ir::print(*graph);
  const auto again = rannc::ir::parse_graph(printed, "again.rir");
  RANNC_CHECK(again.ok() && rannc::ir::print(*again) == printed) << "print and parse of a graph do not agree";
  return 0;
}
