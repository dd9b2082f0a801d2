/// Tests with a part in tier "suite" and the rest in tier "full" (`rannc_whole` of the build).
#pragma once

#include <cstdlib>
#include <string_view>

namespace rannc::testing {

/// Whether this process tests everything, not only what tier "suite" has time for.
inline bool tests_everything() {
  const char* const tier = std::getenv("RANNC_TIER");
  return tier != nullptr && std::string_view(tier) == "full";
}

/// How many of `all` similar cases to test: a third in tier "suite".
template <typename Integer>
Integer cases_of(Integer all) {
  return tests_everything() ? all : all / 3;
}

}  // namespace rannc::testing
