#include "partition/cost/strict_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/repeated_keys.h"

namespace rannc::partition {
namespace {

using Json = nlohmann::json;

Location place(std::string_view text, size_t byte, const std::string& file) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const size_t line_start = before.rfind('\n');
  const size_t column = line_start == std::string_view::npos ? before.size() + 1 : before.size() - line_start;
  return {file,
          static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
          static_cast<uint32_t>(column),
          {}};
}

}  // namespace

Result<Json> parse_strict_json(std::string_view text, const std::string& file) {
  RepeatedKeys keys;
  try {
    Json root = Json::parse(text, [&keys](int, Json::parse_event_t event, Json& parsed) {
      keys.see(event, parsed);
      return true;
    });
    if (!keys.first().empty()) {
      return error({file, 0, 0, fmt::format("{}", fmt::join(keys.first(), "/"))}, "occurs twice");
    }
    return root;
  } catch (const Json::parse_error& failure) {
    const char* what = failure.byte >= text.size() ? "the file ends in the middle of a document" : "not JSON";
    return error(place(text, failure.byte, file), what);
  } catch (const Json::exception&) {
    return error({file, 0, 0, {}}, "contains a number that is out of range");
  }
}

}  // namespace rannc::partition
