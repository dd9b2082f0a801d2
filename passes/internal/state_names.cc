#include "passes/internal/state_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace rannc::passes {

std::string module_of_reading(const ir::Reading& reading) {
  return reading.module.starts_with('/') ? "" : reading.module;
}

std::set<std::string> modules_reading(const ir::StoredNotes& file, std::string_view tensor) {
  std::set<std::string> modules;
  const auto found = file.readings.find(std::string(tensor));
  if (found == file.readings.end()) return modules;
  for (const ir::Reading& reading : found->second) modules.insert(module_of_reading(reading));
  return modules;
}

std::string quoted_name(const ir::Graph& graph, ValueId value) { return fmt::format("'{}'", graph.value(value).name); }

std::string first_names(const std::vector<std::string>& names, size_t most) {
  const size_t shown = std::min(names.size(), most);
  const auto end = names.begin() + static_cast<ptrdiff_t>(shown);
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

bool fits_any(const std::set<std::string>& names, const std::string& patterns) {
  for (size_t begin = 0; begin <= patterns.size();) {
    const size_t end = std::min(patterns.find(',', begin), patterns.size());
    const std::string pattern = patterns.substr(begin, end - begin);
    for (const std::string& name : names) {
      if (fits_pattern(name, pattern)) return true;
    }
    begin = end + 1;
  }
  return false;
}

StateNames::StateNames(const ir::Graph& graph) : graph_(graph) {
  for (const ir::StateTensor& tensor : graph.state()) {
    std::set<ValueId> values;
    for (const ir::StatePart& part : tensor.parts) values.insert(part.value);
    for (const ValueId value : values) tensors_[value].push_back(tensor.name);
  }
}

std::vector<std::string> StateNames::of(ValueId value) const {
  std::vector<std::string> names{std::string(graph_.value(value).name)};
  const auto found = tensors_.find(value);
  if (found != tensors_.end()) names.insert(names.end(), found->second.begin(), found->second.end());
  return names;
}

bool StateNames::match_any(const std::string& patterns, ValueId value) const {
  const auto names = of(value);
  return fits_any({names.begin(), names.end()}, patterns);
}

}  // namespace rannc::passes
