#include "frontend/internal/rows/check_hits.h"

#include <fmt/format.h>

#include "frontend/internal/rows/hits.h"
#include "frontend/internal/rows/picked_rows.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

class Check {
 public:
  Check(const ir::Graph& graph, const Picks& picks, const std::vector<bool>& needed)
      : graph_(graph), picks_(picks), needed_(needed) {}

  Result<void> run() const {
    std::map<ValueId, TaskId> depends;  // on a row
    std::map<ValueId, TaskId> empty;    // masks that are all zero if a row is not hit
    static const ir::Ops kShown = {"squeeze", "unsqueeze", "reshape", "permute", "cast", "identity", "expand"};
    static const ir::Ops kWritten = {"scatter_nd", "scatter_elements"};
    for (const TaskId task : graph_.tasks()) {
      if (!needed_[task.index()]) continue;
      const auto operands = graph_.inputs(task);
      TaskId row = is_row_hit(graph_, task) ? task : TaskId();
      for (const ValueId operand : operands) {
        const auto found = depends.find(operand);
        if (found == depends.end()) continue;
        if (row.valid() && row != found->second) return hit_fault(task, found->second);
        row = found->second;
      }
      if (!row.valid()) continue;
      if (kWritten.contains(graph_.op(task)) && is_neutral(task, empty, row)) {
        if (!depends.contains(operands[0])) continue;
      }
      const auto hits = hits_of(graph_, graph_.inputs(row)[0]);
      const bool picks_mask = hits && operands.size() == 2 && operands[0] == hits->mask &&
                              &graph_.op(task) == &ir::core("gather") &&
                              graph_.attributes(task).integer("axis") == hits->axis;
      const bool shows = kShown.contains(graph_.op(task)) && empty.contains(operands[0]);
      for (const ValueId output : graph_.outputs(task)) {
        depends.emplace(output, row);
        if (picks_mask || shows) empty.emplace(output, row);
      }
    }
    for (const ValueId output : graph_.outputs()) {
      const auto found = depends.find(output);
      if (found != depends.end()) return hit_fault(graph_.producer(output), found->second);
    }
    return {};
  }

 private:
  /// Whether a write has no effect if a row is not hit, as it then writes no rows.
  bool is_neutral(TaskId write, const std::map<ValueId, TaskId>& empty, TaskId row) const {
    const auto& type = graph_.type(graph_.inputs(write)[2]);
    const auto pick = picks_.in(graph_.inputs(write)[2]);
    if (!type.shape || !pick) return false;
    const auto found = empty.find(picks_[*pick].mask);
    return found != empty.end() && found->second == row;
  }

  Diagnostic hit_fault(TaskId task, TaskId row) const {
    Diagnostic found =
        error(graph_.location(task),
              fmt::format("{} depends on which rows of a mask are not all zero; it must compute rows that the same row "
                          "of the mask picks, as the loops of mixtures of experts do",
                          graph_.op(task).name));
    found.notes.push_back({graph_.location(graph_.producer(graph_.inputs(row)[0])), "the rows are listed here"});
    return found;
  }

  const ir::Graph& graph_;
  const Picks& picks_;
  const std::vector<bool>& needed_;
};

}  // namespace

Result<void> check_rows_hit(const ir::Graph& graph, const Picks& picks, const std::vector<bool>& needed) {
  return Check(graph, picks, needed).run();
}

}  // namespace rannc::frontend
