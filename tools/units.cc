#include "tools/units.h"

#include <fmt/format.h>

namespace rannc::tools {

std::string duration(double ns) {
  if (ns >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.1f} us", ns / 1e3);
}

std::string bytes(double count) {
  if (count >= 1 << 30) return fmt::format("{:.2f} GiB", count / (1 << 30));
  if (count >= 1 << 20) return fmt::format("{:.1f} MiB", count / (1 << 20));
  return fmt::format("{:.1f} KiB", count / 1024);
}

}  // namespace rannc::tools
