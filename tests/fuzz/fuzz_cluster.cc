/// A cluster file never crashes the reader; what it accepts prints to text that reads back equal.
#include <string_view>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view text) {
  const auto cluster = rannc::partition::parse_cluster(text, "fuzz.toml");
  if (!cluster.ok()) return false;
  const auto again = rannc::partition::parse_cluster(rannc::partition::print_cluster(*cluster), "again.toml");
  RANNC_CHECK(again.ok() && *again == *cluster) << "print and parse of a cluster do not agree";
  return true;
}
