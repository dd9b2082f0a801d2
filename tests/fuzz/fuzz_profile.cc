/// A profile database never crashes the reader; what it accepts prints to text that reads back equal, and its curves,
/// blocks and exchanges can be asked for any size.
#include <cmath>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "partition/cost/profile_database.h"
#include "tests/fuzz/target.h"

namespace {

void ask(const rannc::partition::ProfileDatabase& database) {
  for (const std::string& environment : database.environments()) {
    for (const auto& [samples, fusion] : database.fusion(environment)) {
      RANNC_CHECK(std::isfinite(fusion.forward) && std::isfinite(fusion.backward) && std::isfinite(fusion.saved));
    }
    for (const char* name : {"gloo.message", "gloo.all-reduce"}) {
      const auto* table = database.find_exchange(environment, name);
      if (table == nullptr) continue;
      RANNC_CHECK(rannc::partition::exchange_ns(*table, 3, 1e6) >= 0) << "a negative time";
      const rannc::partition::Link link = rannc::partition::fit_link(table, table);
      RANNC_CHECK(link.bytes_per_second > 0 && link.latency_ns >= 0) << "no link";
    }
  }
}

}  // namespace

bool rannc::fuzz::feed(std::string_view text) {
  using rannc::partition::ProfileDatabase;
  const auto database = ProfileDatabase::parse(text, "fuzz.json");
  if (!database.ok()) return false;
  const auto again = ProfileDatabase::parse(database->print(), "again.json");
  RANNC_CHECK(again.ok() && *again == *database) << "print and parse of a profile database do not agree";
  ask(*database);
  return true;
}
