/// A placement file never crashes the reader; what it accepts is a problem, or is refused with a diagnostic.
#include <string_view>

#include "ir/base/diagnostic.h"
#include "partition/formats/placement_json.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view text) {
  const auto input = rannc::partition::read_placement(text, "fuzz.json");
  if (!input.ok()) return false;
  RANNC_CHECK(input->names.size() == input->source.work.size()) << "a name per node";
  const auto problem = rannc::partition::make_split_problem(input->source);
  if (!problem.ok()) return false;
  RANNC_CHECK(problem->unit_of.size() == input->names.size()) << "a unit per node";
  return true;
}
