/// A cluster file never crashes the reader; what it accepts prints to text that reads back equal.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ir/diagnostic.h"
#include "partition/cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cluster = rannc::partition::parse_cluster(text, "fuzz.toml");
  if (!cluster.ok()) return 0;
  const auto again = rannc::partition::parse_cluster(rannc::partition::print_cluster(*cluster), "again.toml");
  RANNC_CHECK(again.ok() && *again == *cluster) << "print and parse of a cluster do not agree";
  return 0;
}
