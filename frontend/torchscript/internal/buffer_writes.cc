#include "frontend/torchscript/internal/buffer_writes.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

namespace rannc::frontend::torchscript {

bool is_untrained(const ir::StoredNotes& notes, const std::string& name) {
  const auto listed = notes.listed.find(name);
  const bool is_constant = listed != notes.listed.end() && listed->second == ir::ValueKind::kConstant;
  return is_constant || notes.literals.contains(name);
}

BufferWrite buffer_write(const ir::Graph& graph, std::string buffer, Location where, std::string what) {
  const ValueId stored = graph.find(buffer);
  const bool is_constant = stored.valid() && graph.kind(stored) == ir::ValueKind::kConstant;
  return {std::move(buffer), std::move(where), std::move(what), is_constant};
}

std::set<std::string> written_constants(const std::vector<BufferWrite>& writes) {
  std::set<std::string> found;
  for (const BufferWrite& each : writes) {
    if (each.is_constant) found.insert(each.buffer);
  }
  return found;
}

StaleValues::StaleValues(const ir::Graph& graph, const std::vector<BufferWrite>& writes)
    : cause_(graph.value_count(), 0) {
  for (const BufferWrite& each : writes) {
    const ValueId stored = graph.find(each.buffer);
    if (!stored.valid() || cause_[stored.index()] != 0) continue;
    causes_.push_back(error(each.where, fmt::format("{} '{}', a buffer: training updates only the statistics of batch "
                                                    "normalization",
                                                    each.what, each.buffer)));
    cause_[stored.index()] = static_cast<uint32_t>(causes_.size());
  }
  if (causes_.empty()) return;
  for (const TaskId task : graph.tasks()) {
    uint32_t cause = 0;
    for (const ValueId operand : graph.inputs(task)) {
      if (cause == 0 && operand.valid()) cause = cause_[operand.index()];
    }
    for (const ValueId made : graph.outputs(task)) cause_[made.index()] = cause;
  }
}

std::optional<Diagnostic> StaleValues::fault(ValueId value, const std::string& output) const {
  const uint32_t cause = cause_[value.index()];
  if (cause == 0) return std::nullopt;
  Diagnostic found = causes_[cause - 1];
  found.message += fmt::format(", and the output '{}' depends on what the step before left in it", output);
  return std::move(found).note(kAdvice);
}

void note_unread(const ir::Graph& graph, const std::vector<BufferWrite>& writes, ImportNotes& notes) {
  std::set<std::string_view> known;
  for (const BufferWrite& each : writes) {
    if (!known.insert(each.buffer).second) continue;
    const ValueId stored = graph.find(each.buffer);
    if (stored.valid() && !ir::is_float(graph.type(stored).dtype)) {
      ++notes.counted_remarks["counters of the program's state are not kept"];
      continue;
    }
    const std::string place = each.where.line > 0 ? each.where.str() + ": " : "";
    notes.warnings.push_back({{},
                              fmt::format("{}{} '{}', a buffer that no output depends on: training does not update it, "
                                          "so it keeps its value",
                                          place, each.what, each.buffer)});
  }
}

}  // namespace rannc::frontend::torchscript
