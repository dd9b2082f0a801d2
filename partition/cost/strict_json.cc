#include "partition/cost/strict_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

namespace rannc::partition {
namespace {

using Json = nlohmann::json;

/// Receives every member while the document is parsed.
class DuplicateWatch {
 public:
  void see(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) members_.emplace_back();
    if (event == Json::parse_event_t::object_end) members_.pop_back();
    if (event != Json::parse_event_t::key) return;
    path_.resize(members_.size() - 1);
    path_.push_back(parsed.get<std::string>());
    if (!members_.back().insert(path_.back()).second && first_.empty())
      first_ = fmt::format("{}", fmt::join(path_, "/"));
  }
  const std::string& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> members_;  // by depth
  std::vector<std::string> path_;
  std::string first_;
};

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
  DuplicateWatch watch;
  try {
    Json root = Json::parse(text, [&watch](int, Json::parse_event_t event, Json& parsed) {
      watch.see(event, parsed);
      return true;
    });
    if (!watch.first().empty()) return error({file, 0, 0, watch.first()}, "occurs twice");
    return root;
  } catch (const Json::parse_error& failure) {
    const char* what = failure.byte >= text.size() ? "the file ends in the middle of a document" : "not JSON";
    return error(place(text, failure.byte, file), what);
  } catch (const Json::exception&) {
    return error({file, 0, 0, {}}, "contains a number that is out of range");
  }
}

}  // namespace rannc::partition
