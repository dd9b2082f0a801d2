#include "ir/verify.h"

#include <fmt/format.h>

namespace rannc::ir {

Result<void> as_result(std::vector<Diagnostic> found) {
  constexpr size_t kMaxNotes = 20;
  if (found.empty()) return {};
  Diagnostic first = std::move(found.front());
  for (size_t i = 1; i < found.size() && i <= kMaxNotes; ++i) {
    const std::string rule = found[i].rule.empty() ? "" : " [" + found[i].rule + "]";
    first.notes.push_back({found[i].where, found[i].message + rule});
  }
  if (found.size() > kMaxNotes + 1) {
    first.notes.push_back({{}, fmt::format("{} more of the kind", found.size() - kMaxNotes - 1)});
  }
  return first;
}

}  // namespace rannc::ir
