/// Plan text never crashes the parser or its verifiers; what they accept prints to text that is a fixed point.
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/text/text.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view text) {
  const auto plan = rannc::ir::parse_plan(text, "fuzz.rir");
  if (!plan.ok()) return false;
  const std::string printed = rannc::ir::print(*plan);
  const auto again = rannc::ir::parse_plan(printed, "again.rir");
  RANNC_CHECK(again.ok() && rannc::ir::print(*again) == printed) << "print and parse of a plan do not agree";
  return true;
}
