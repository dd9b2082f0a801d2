/// Names and summaries of tables of named rows.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

namespace rannc::runtime {

template <class Row>
std::vector<std::string> names_of(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

/// `local: threads of this process; gloo: ...`
template <class Row>
std::string summaries_of(std::span<const Row> rows) {
  std::string text;
  for (const Row& row : rows) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", row.name, row.summary);
  return text;
}

}  // namespace rannc::runtime
