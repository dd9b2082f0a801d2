#include "partition/schedule/found/repeat_rows.h"

#include <algorithm>
#include <utility>

namespace rannc::partition::found {
namespace {

constexpr uint32_t kLongestPeriod = 8;  ///< micro-batches

/// The end of the shortest part from `begin` on that has all passes of that many micro-batches, exactly; 0: none.
uint32_t end_of_period(const RowProblem& problem, uint32_t lane, const LaneRow& row, uint32_t begin,
                       uint32_t micro_batches) {
  struct Passes {
    uint32_t forward = 0, gradient = 0, weight = 0;
  };
  std::vector<Passes> passes(problem.slots.size());
  const size_t slots = problem.lanes[lane].slots.size();
  size_t full = 0;
  for (uint32_t i = begin; i < row.size(); ++i) {
    Passes& own = passes[row[i].slot];
    const auto count = [&](bool counts, uint32_t& number) {
      number += counts;
      if (counts && number == micro_batches) ++full;
      return number <= micro_batches;
    };
    if (!count(row[i].kind == ir::ActionKind::kForward, own.forward) ||
        !count(ir::computes_input_gradient(row[i].kind), own.gradient) ||
        !count(ir::adds_weight_gradient(row[i].kind), own.weight)) {
      return 0;
    }
    if (full == 3 * slots) return i + 1;
  }
  return 0;
}

bool is_rebuild_of(const Letter& rebuild, const Letter& letter) {
  return rebuild.kind == ir::ActionKind::kRecompute && rebuild.slot == letter.slot &&
         rebuild.micro_batch == letter.micro_batch;
}

/// Whether the part has an R for each of its backward passes of a slot, or for none.
bool rebuilds_match(const RowProblem& problem, const LaneRow& row, uint32_t begin, uint32_t end,
                    uint32_t micro_batches) {
  std::vector<uint32_t> count(problem.slots.size(), 0);
  for (uint32_t i = begin; i < end; ++i) count[row[i].slot] += row[i].kind == ir::ActionKind::kRecompute;
  return std::all_of(count.begin(), count.end(), [&](uint32_t n) { return n == 0 || n == micro_batches; });
}

}  // namespace

std::optional<RowPeriod> period_near(const RowProblem& problem, const OrderModel& model, const LaneRows& rows,
                                     double time, uint32_t micro_batches) {
  RowPeriod period;
  period.micro_batches = micro_batches;
  for (uint32_t l = 0; l < rows.size(); ++l) {
    uint32_t at = 0;
    while (at < rows[l].size() && model.start({l, at}) < time) ++at;
    const auto reach = static_cast<uint32_t>(4 * problem.lanes[l].slots.size());
    uint32_t begin = 0, end = 0;
    for (uint32_t away = 0; away <= 2 * reach && end == 0; ++away) {  // 0, 1 later, 1 earlier, 2 later …
      const uint32_t by = (away + 1) / 2;
      if (away % 2 == 0 && by > at) continue;
      begin = away % 2 == 0 ? at - by : at + by;
      end = end_of_period(problem, l, rows[l], begin, micro_batches);
    }
    if (end == 0) return std::nullopt;
    if (begin > 0 && is_rebuild_of(rows[l][begin - 1], rows[l][begin])) --begin;
    if (!rebuilds_match(problem, rows[l], begin, end, micro_batches)) return std::nullopt;
    period.begin.push_back(begin);
    period.end.push_back(end);
  }
  return period;
}

LaneRows repeated(const LaneRows& rows, const RowPeriod& period, uint32_t given, uint32_t wanted) {
  const uint32_t k = period.micro_batches, more = wanted > given ? (wanted - given + k - 1) / k : 0;
  LaneRows result;
  for (size_t l = 0; l < rows.size(); ++l) {
    LaneRow row;
    const auto add = [&](uint32_t begin, uint32_t end, uint32_t shift) {
      for (uint32_t i = begin; i < end; ++i) {
        Letter letter = rows[l][i];
        letter.micro_batch += shift;
        if (letter.micro_batch < wanted) row.push_back(letter);
      }
    };
    add(0, period.end[l], 0);
    for (uint32_t i = 1; i <= more; ++i) add(period.begin[l], period.end[l], i * k);
    add(period.end[l], static_cast<uint32_t>(rows[l].size()), more * k);
    result.push_back(std::move(row));
  }
  return result;
}

void Repetitions::add(const RowProblem& problem, OrderModel& model, const LaneRows& rows, OrderModel& longer,
                      uint32_t wanted) {
  const double end = model.run(rows);
  for (uint32_t count = 1; count <= std::min(kLongestPeriod, problem.micro_batches / 2); ++count) {
    for (double part = 0.2; part < 0.8; part += 0.1) {
      auto period = period_near(problem, model, rows, part * end, count);
      if (!period) continue;
      LaneRows more = repeated(rows, *period, problem.micro_batches, wanted);
      const double makespan = longer.run(more);
      const auto at = std::upper_bound(best_.begin(), best_.end(), makespan,
                                       [](double value, const Repeated& other) { return value < other.makespan; });
      if (makespan == kNever || (best_.size() == most_ && at == best_.end())) continue;
      best_.insert(at, {std::move(more), makespan, *std::move(period)});
      if (best_.size() > most_) best_.pop_back();
    }
  }
}

SchedulePattern pattern_with(const RowProblem& problem, const LaneRows& rows, const RowPeriod& period) {
  std::vector<uint32_t> lanes;
  for (uint32_t l = 0; l < rows.size(); ++l) lanes.push_back(l);
  std::sort(lanes.begin(), lanes.end(),
            [&](uint32_t a, uint32_t b) { return problem.lanes[a].slots[0] < problem.lanes[b].slots[0]; });
  SchedulePattern pattern;
  for (const uint32_t l : lanes) {
    const auto word = [&](size_t begin, size_t end) {
      std::vector<PatternAction> actions;
      for (size_t i = begin; i < end; ++i) actions.push_back({rows[l][i].kind, problem.slots[rows[l][i].slot].stage});
      return actions;
    };
    pattern.rows.push_back(
        {word(0, period.begin[l]), word(period.begin[l], period.end[l]), word(period.end[l], rows[l].size())});
  }
  return pattern;
}

}  // namespace rannc::partition::found
