// Defines the built-in clusters.
#include <algorithm>
#include <charconv>

#include "partition/cluster.h"

namespace rannc::partition {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kGigabitPerSecond = 1e9 / 8;

/// V100: 15.7 Tflop/s single precision and 900 GB/s by its data sheet; two thirds and four fifths are achieved.
DeviceKind v100(uint64_t memory_gib) { return {"v100", memory_gib << 30, 10.5e12, 720 * kGigabyte, 6000}; }

/// One worker of a desktop processor; `rannc-profile` replaces these numbers by measured ones.
DeviceKind cpu() { return {"cpu", 4ull << 30, 5e10, 10 * kGigabyte, 2000}; }

constexpr Link kNvlink{25 * kGigabyte, 5000};

/// Returns N of "prefix:N" with N in [1, 2^20], or 0.
uint32_t counted(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return 0;
  name.remove_prefix(prefix.size());
  uint32_t count = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), count);
  return failure == std::errc() && end == name.data() + name.size() && count <= (1u << 20) ? count : 0;
}

}  // namespace

Result<Cluster> preset_cluster(std::string_view name) {
  const Link ethernet25{25 * kGigabitPerSecond, 30000}, ethernet10{10 * kGigabitPerSecond, 30000};
  const Link infiniband{100 * kGigabitPerSecond, 10000};
  const std::string text(name);
  if (name == "dapple-a") return make_cluster(text, v100(16), 2, 8, kNvlink, ethernet25);
  if (name == "dapple-b") return make_cluster(text, v100(16), 16, 1, ethernet25, ethernet25);
  if (name == "dapple-c") return make_cluster(text, v100(16), 16, 1, ethernet10, ethernet10);
  if (name == "rannc-1x8") return make_cluster(text, v100(32), 1, 8, kNvlink, infiniband);
  if (name == "rannc-4x8") return make_cluster(text, v100(32), 4, 8, kNvlink, infiniband);
  if (const uint32_t count = counted(name, "local:")) {
    const Link memory{8 * kGigabyte, 20000};
    return make_cluster(text, cpu(), 1, count, memory, memory);
  }
  if (const uint32_t count = counted(name, "flat:")) return make_cluster(text, v100(32), 1, count, kNvlink, kNvlink);
  std::string known;
  for (const std::string& preset : preset_cluster_names()) known += preset + ", ";
  return error("unknown cluster '" + text + "'; known: " + known + "or a TOML file");
}

const std::vector<std::string>& preset_cluster_names() {
  static const std::vector<std::string> names{"local:N",  "flat:N",    "dapple-a", "dapple-b",
                                              "dapple-c", "rannc-1x8", "rannc-4x8"};
  return names;
}

}  // namespace rannc::partition
