/// A published profile never crashes the reader; what it accepts is written to text that reads back equal.
#include <string_view>

#include "ir/base/diagnostic.h"
#include "partition/formats/pipedream_text.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view text) {
  const auto profile = rannc::partition::read_pipedream(text, "fuzz.txt");
  if (!profile.ok()) return false;
  const auto again = rannc::partition::read_pipedream(rannc::partition::write_pipedream(*profile), "again.txt");
  RANNC_CHECK(again.ok() && *again == *profile) << "write and read of a profile do not agree";
  return true;
}
