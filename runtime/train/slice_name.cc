#include "runtime/train/internal/slice_name.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/train/checkpoint.h"

namespace rannc::runtime {

namespace {
constexpr std::string_view kSlice = "slice/", kOptimizer = "optimizer/";
}  // namespace

bool is_slice_key(std::string_view key) { return key.starts_with(kSlice); }

std::optional<SliceName> parse_slice(std::string_view key) {
  if (!is_slice_key(key)) return std::nullopt;
  SliceName name;
  const char *at = key.data() + kSlice.size(), *const end = key.data() + key.size();
  const auto number = [&](int64_t& value, char after) {
    const auto [stop, status] = std::from_chars(at, end, value);
    const bool found = status == std::errc() && stop != end && *stop == after;
    if (found) at = stop + 1;
    return found;
  };
  if (!number(name.first, '-') || !number(name.last, '/') || name.first < 0 || name.first >= name.last)
    return std::nullopt;
  name.key.assign(at, end);
  return name;
}

std::string slice_key(const std::string& key, int64_t first, int64_t last) {
  return fmt::format("{}{}-{}/{}", kSlice, first, last, key);
}

bool is_optimizer_key(std::string_view key) {
  if (key.starts_with(kOptimizer)) return true;
  const auto slice = parse_slice(key);
  return slice && slice->key.starts_with(kOptimizer);
}

bool is_average_key(std::string_view key) {
  const auto slice = parse_slice(key);
  return (slice ? std::string_view(slice->key) : key).starts_with("optimizer/average/");
}

}  // namespace rannc::runtime
