/// Detection of repeated keys in JSON documents.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace rannc {

/// Finds the keys that an object contains twice while a document is parsed; nlohmann::json alone keeps the last one.
class RepeatedKeys {
 public:
  /// Receives an event of the parser: `Json::parse_event_t`, and the key that it parsed.
  template <class Event, class Json>
  void see(Event event, const Json& parsed) {
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event != Event::key) return;
    last_.resize(keys_.size() - 1);
    last_.push_back(parsed.template get<std::string>());
    if (!keys_.back().insert(last_.back()).second && first_.empty()) first_ = last_;
  }
  /// Path to the first repeated key, from the outermost object; empty if there is none.
  const std::vector<std::string>& first() const { return first_; }
  /// Path to the key that was read last.
  const std::vector<std::string>& last() const { return last_; }
  /// Number of objects that are open.
  size_t depth() const { return keys_.size(); }

 private:
  std::vector<std::set<std::string>> keys_;  // by depth
  std::vector<std::string> last_, first_;
};

}  // namespace rannc
