#include "passes/internal/state_names.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace rannc::passes {

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

bool StateNames::match(const std::string& pattern, ValueId value) const {
  const auto names = of(value);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

bool StateNames::match_any(const std::string& patterns, ValueId value) const {
  for (size_t begin = 0; begin <= patterns.size();) {
    const size_t end = std::min(patterns.find(',', begin), patterns.size());
    if (match(patterns.substr(begin, end - begin), value)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace rannc::passes
