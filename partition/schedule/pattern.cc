#include "partition/schedule/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "ir/schedule/lower_schedule.h"

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;
using ir::PipelineShape;
using Word = std::vector<PatternAction>;

constexpr uint32_t kMostStages = 1 << 20;
constexpr size_t kMostActions = size_t{1} << 28;  // of an unrolled row

/// Actions of a stage in a word.
struct StageCounts {
  uint64_t forward = 0, gradient = 0, input = 0, weight = 0;  ///< `gradient`: B or I
  bool operator==(const StageCounts&) const = default;
};

std::map<StageId, StageCounts> count(const Word& word) {
  std::map<StageId, StageCounts> counts;
  for (const PatternAction& action : word) {
    StageCounts& of = counts[action.stage];
    of.forward += ir::is_forward(action.kind);
    of.gradient += ir::computes_input_gradient(action.kind);
    of.input += action.kind == ActionKind::kInputGradient;
    of.weight += action.kind == ActionKind::kWeightGradient;
  }
  return counts;
}

std::string to_string(const Word& word) {
  std::string text;
  for (const PatternAction& action : word)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", ir::letters(action.kind), action.stage.index());
  return text;
}

std::string to_string(const PatternRow& row) {
  std::string text = to_string(row.warm_up);
  if (!text.empty()) text += ' ';
  text += fmt::format("[{}]*", to_string(row.period));
  return row.drain.empty() ? text : text + ' ' + to_string(row.drain);
}

std::string differs(std::string_view part, std::string_view kinds, uint64_t found, StageId stage, uint64_t expected,
                    std::string_view why) {
  return fmt::format("{} has {} {} of stage {}, where {} {}", part, found, kinds, stage.index(), expected, why);
}

/// What is wrong with the numbers of actions of a stage in a part of its row.
std::optional<std::string> fault_of(std::string_view part, StageId stage, const StageCounts& counts) {
  if (counts.gradient != counts.forward && counts.gradient > 0)
    return differs(part, "B or I", counts.gradient, stage, counts.forward, "F were found");
  if (counts.weight != counts.input) return differs(part, "W", counts.weight, stage, counts.input, "I were found");
  return std::nullopt;
}

/// Returns what is wrong, and the number of its row.
std::optional<std::pair<size_t, std::string>> fault_of(const SchedulePattern& pattern) {
  constexpr std::string_view kPeriod = "a period", kRest = "a warm-up with its drain";
  std::map<StageId, size_t> row_of;
  std::optional<StageCounts> period, rest;
  for (size_t r = 0; r < pattern.rows.size(); ++r) {
    const PatternRow& row = pattern.rows[r];
    Word ends = row.warm_up;
    ends.insert(ends.end(), row.drain.begin(), row.drain.end());
    const auto repeated = count(row.period);
    auto once = count(ends);
    if (repeated.empty()) return std::pair(r, std::string("the period is empty"));
    for (const auto& [stage, counts] : once) {
      if (!repeated.contains(stage))
        return std::pair(r, fmt::format("the period has no action of stage {}", stage.index()));
    }
    const StageCounts of_row = once[repeated.begin()->first];
    for (const auto& [stage, counts] : repeated) {
      const auto [first, added] = row_of.emplace(stage, r);
      if (!added) return std::pair(r, fmt::format("row {} already has stage {}", first->second, stage.index()));
      if (counts.forward == 0) return std::pair(r, fmt::format("the period has no F of stage {}", stage.index()));
      if (auto fault = fault_of(kPeriod, stage, counts)) return std::pair(r, *fault);
      if (auto fault = fault_of(kRest, stage, once[stage])) return std::pair(r, *fault);
      if (!period) period = counts, rest = of_row;
      const StageCounts& other = once[stage];
      if (counts.forward != period->forward)
        return std::pair(r, differs(kPeriod, "F", counts.forward, stage, period->forward, "of another were found"));
      if ((counts.gradient > 0) != (period->gradient > 0) ||
          (other.forward > 0 && other.gradient > 0) != (other.forward > 0 && period->gradient > 0))
        return std::pair(r, fmt::format("only some parts and stages have a B or I, unlike stage {}", stage.index()));
      if (other.forward != of_row.forward)
        return std::pair(r, differs(kRest, "F", other.forward, stage, of_row.forward, "of another were found"));
      if (other.forward % period->forward != rest->forward % period->forward) {
        return std::pair(r,
                         fmt::format("{} has {} F of stage {}, which is no multiple of the period's {} from the {} of "
                                     "the first row",
                                     kRest, other.forward, stage.index(), period->forward, rest->forward));
      }
    }
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, uint32_t line) : text_(text) {
    where_.file = file;
    where_.line = line;
  }

  Result<SchedulePattern> parse() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '\n' || c == ';') {
        RANNC_TRY(end_row());
        if (c == '\n') ++where_.line, line_begin_ = at_ + 1;
      } else if (c == '[') {
        if (part_ != 0) return fault(at_, "a row has one period");
        if (row_.warm_up.empty()) begin_ = at_;
        part_ = 1;
      } else if (c == ']') {
        if (part_ != 1) return fault(at_, "`]` without `[`");
        if (text_.substr(at_, 2) != "]*") return fault(at_, "expected `]*` at the end of the period");
        ++at_;
        part_ = 2;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        RANNC_TRY(parse_action());
      }
    }
    RANNC_TRY(end_row());
    if (pattern_.rows.empty()) return error(where_, "a pattern has at least one row");
    if (const auto wrong = fault_of(pattern_)) return error(places_[wrong->first], wrong->second);
    sort_rows();
    return std::move(pattern_);
  }

 private:
  Diagnostic fault(size_t at, std::string message) {
    Location where = where_;
    where.column = static_cast<uint32_t>(at - line_begin_) + 1;
    return error(where, std::move(message));
  }

  Result<void> end_row() {
    if (part_ == 0 && row_.warm_up.empty()) return {};
    if (part_ == 0) return fault(begin_, "the row has no period: expected `[` actions `]*`");
    if (part_ == 1) return fault(begin_, "the period of the row has no end: expected `]*`");
    pattern_.rows.push_back(std::exchange(row_, {}));
    places_.push_back(where_);
    places_.back().column = static_cast<uint32_t>(begin_ - line_begin_) + 1;
    part_ = 0;
    return {};
  }

  Result<void> parse_action() {
    const size_t begin = at_;
    const size_t end = std::min(text_.find_first_of(" \t\r\n;[]#", at_), text_.size());
    const std::string_view word = text_.substr(begin, end - begin);
    size_t letters = 0;
    while (letters < word.size() && word[letters] >= 'A' && word[letters] <= 'Z') ++letters;
    const auto kind = ir::kind_with(word.substr(0, letters));
    uint32_t stage = 0;
    const char* last = word.data() + word.size();
    const auto [stop, status] = std::from_chars(word.data() + letters, last, stage);
    if (!kind || !ir::is_compute(*kind) || status != std::errc{} || stop != last || stage >= kMostStages) {
      return fault(begin, fmt::format("`{}` is no action of a pattern: expected F, B, I, W or R with a stage", word));
    }
    if (part_ == 0 && row_.warm_up.empty()) begin_ = begin;
    (part_ == 0 ? row_.warm_up : part_ == 1 ? row_.period : row_.drain).push_back({*kind, StageId(stage)});
    at_ = end - 1;
    return {};
  }

  void sort_rows() {
    const auto first = [](const PatternRow& row) {
      return std::min_element(row.period.begin(), row.period.end(),
                              [](const auto& a, const auto& b) { return a.stage < b.stage; })
          ->stage;
    };
    std::sort(pattern_.rows.begin(), pattern_.rows.end(),
              [&](const PatternRow& a, const PatternRow& b) { return first(a) < first(b); });
  }

  std::string_view text_;
  Location where_;
  size_t at_ = 0, line_begin_ = 0;
  size_t begin_ = 0;  ///< of the row
  int part_ = 0;      ///< 0: warm-up, 1: period, 2: drain
  PatternRow row_;
  SchedulePattern pattern_;
  std::vector<Location> places_;  ///< of the rows
};

/// Adds micro-batches to the actions of a row.
class Numbering {
 public:
  Result<std::vector<Action>> number(const PatternRow& row, uint64_t repeats) {
    for (const PatternAction& action : row.warm_up) add(action);
    for (uint64_t i = 0; i < repeats; ++i) {
      for (const PatternAction& action : row.period) add(action);
    }
    for (const PatternAction& action : row.drain) add(action);
    RANNC_TRY(number_recomputed());
    return std::move(row_);
  }

 private:
  struct Next {
    uint32_t forward = 0, gradient = 0;
    std::vector<uint32_t> inputs;  ///< micro-batches of I
    size_t weight = 0;
    std::vector<size_t> recomputes;    ///< positions of R
    std::vector<uint32_t> recomputed;  ///< micro-batches that an R may have
  };

  void add(const PatternAction& action) {
    Next& next = next_[action.stage];
    uint32_t micro_batch = 0;
    if (ir::is_forward(action.kind)) {
      micro_batch = next.forward++;
    } else if (ir::computes_input_gradient(action.kind)) {
      micro_batch = next.gradient++;
      if (action.kind == ActionKind::kInputGradient) next.inputs.push_back(micro_batch);
      const bool follows =
          !row_.empty() && row_.back() == ir::compute_action(ActionKind::kForward, action.stage, micro_batch);
      if (!follows) next.recomputed.push_back(micro_batch);
    } else if (action.kind == ActionKind::kWeightGradient) {
      // A W ahead of its I is left to the verifier (S2).
      micro_batch = next.weight < next.inputs.size() ? next.inputs[next.weight] : static_cast<uint32_t>(next.weight);
      ++next.weight;
    } else {
      next.recomputes.push_back(row_.size());
    }
    row_.push_back(ir::compute_action(action.kind, action.stage, micro_batch));
  }

  Result<void> number_recomputed() {
    for (auto& [stage, next] : next_) {
      if (next.recomputes.empty()) continue;
      if (next.recomputes.size() != next.recomputed.size()) {
        return error(
            fmt::format("the pattern has {} R of stage {} in {} micro-batches, of which {} have a B or I that "
                        "does not directly follow the F",
                        next.recomputes.size(), stage.index(), next.forward, next.recomputed.size()));
      }
      for (size_t i = 0; i < next.recomputes.size(); ++i) row_[next.recomputes[i]].micro_batch = next.recomputed[i];
    }
    return {};
  }

  std::vector<Action> row_;
  std::map<StageId, Next> next_;
};

/// Stages of each device, ascending.
std::vector<std::vector<StageId>> stages_by_device(const PipelineShape& shape) {
  std::vector<std::vector<StageId>> stages(shape.devices);
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    for (const DeviceId device : shape.stages[s].devices) stages[device.index()].push_back(StageId::from(s));
  }
  return stages;
}

/// The rows of `shape` by their stages, each with one of its devices.
std::map<std::vector<StageId>, size_t> groups_of(const PipelineShape& shape) {
  std::map<std::vector<StageId>, size_t> groups;
  const auto stages = stages_by_device(shape);
  for (size_t d = 0; d < stages.size(); ++d) {
    if (!stages[d].empty()) groups.emplace(stages[d], d);
  }
  return groups;
}

/// A period of a row: `length` actions, repeated from `begin`.
struct Repetition {
  size_t begin = 0, length = 0;
  uint32_t repeats = 0;
};

/// Finds repetitions of `micro_batches` micro-batches in a row.
class RowPeriods {
 public:
  explicit RowPeriods(const std::vector<Action>& row) : row_(row) {
    for (size_t i = 0; i < row.size(); ++i) at_.emplace(key(row[i], 0), i);
    for (const Action& action : row) stages_.insert(action.stage);
  }

  /// The longest stretch in which each action recurs `micro_batches` later after the same number of actions.
  std::optional<Repetition> find(uint32_t micro_batches) const {
    Repetition best;
    size_t begin = 0, distance = 0, longest = 0;
    for (size_t i = 0; i <= row_.size(); ++i) {
      const auto next = i < row_.size() ? at_.find(key(row_[i], micro_batches)) : at_.end();
      const size_t found = next == at_.end() || next->second < i ? 0 : next->second - i;
      if (found == distance) continue;
      if (distance > 0 && i - begin >= distance && i - begin > longest && whole(begin, distance, micro_batches)) {
        longest = i - begin;
        best = {begin, distance, static_cast<uint32_t>(longest / distance) + 1};
      }
      begin = i;
      distance = found;
    }
    return best.repeats > 1 ? std::optional(best) : std::nullopt;
  }

 private:
  using Key = std::tuple<ActionKind, StageId, uint32_t>;
  static Key key(const Action& action, uint32_t later) {
    return {action.kind, action.stage, action.micro_batch + later};
  }

  /// Whether the stretch has all actions of that many micro-batches.
  bool whole(size_t begin, size_t length, uint32_t micro_batches) const {
    Word word;
    for (size_t i = begin; i < begin + length; ++i) word.push_back({row_[i].kind, row_[i].stage});
    const auto counts = count(word);
    if (counts.size() != stages_.size()) return false;
    return std::all_of(counts.begin(), counts.end(), [&](const auto& entry) {
      const StageCounts& of = entry.second;
      return of.forward == micro_batches && (of.gradient == micro_batches || of.gradient == 0) && of.weight == of.input;
    });
  }

  const std::vector<Action>& row_;
  std::map<Key, size_t> at_;
  std::set<StageId> stages_;
};

/// Micro-batches of a part of a row.
uint32_t forwards_of(const PatternRow& row, const Word& part) {
  return static_cast<uint32_t>(
      std::count(part.begin(), part.end(), PatternAction{ActionKind::kForward, row.period[0].stage}));
}

uint32_t fixed_of(const PatternRow& row) { return forwards_of(row, row.warm_up) + forwards_of(row, row.drain); }

Word word_of(const std::vector<Action>& row, size_t begin, size_t end) {
  Word word;
  for (size_t i = begin; i < end; ++i) word.push_back({row[i].kind, row[i].stage});
  return word;
}

/// The pattern whose rows repeat these periods.
SchedulePattern split(const std::vector<const std::vector<Action>*>& rows, const std::vector<Repetition>& periods) {
  SchedulePattern pattern;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto& [begin, length, repeats] = periods[r];
    pattern.rows.push_back({word_of(*rows[r], 0, begin), word_of(*rows[r], begin, begin + length),
                            word_of(*rows[r], begin + length * repeats, rows[r]->size())});
  }
  return pattern;
}

/// The row of each group of stages.
std::vector<const std::vector<Action>*> rows_by_group(const ir::Schedule& schedule, const PipelineShape& shape) {
  std::vector<const std::vector<Action>*> rows;
  for (const auto& [stages, device] : groups_of(shape)) {
    rows.push_back(&schedule.rows[device]);
    for (const Action& action : *rows.back())
      RANNC_CHECK(ir::is_compute(action.kind)) << ir::to_string(action) << " in a pattern";
  }
  return rows;
}

/// The pattern whose period is the whole rows.
Result<SchedulePattern> whole_rows(const std::vector<const std::vector<Action>*>& rows) {
  std::vector<Repetition> whole;
  for (const auto* row : rows) whole.push_back({0, row->size(), 1});
  SchedulePattern pattern = split(rows, whole);
  if (const auto fault = fault_of(pattern)) return error("the rows have no pattern: " + fault->second);
  return pattern;
}

/// Whether the pattern runs for few micro-batches, and for twice those of `shape`.
bool runs_for_others(const SchedulePattern& pattern, PipelineShape shape) {
  constexpr uint32_t kFewPeriods = 4;
  const auto [fixed, period] = counts_of(pattern);
  const auto runs = [&](size_t micro_batches) {
    shape.micro_batches.resize(micro_batches, shape.micro_batches.front());
    const auto rows = rows_of(pattern, shape);
    return rows.ok() && ir::lower_schedule(shape, *rows).ok();
  };
  const size_t more = 2 * size_t{shape.micro_batch_count()};
  for (uint32_t repeats = 0; repeats < kFewPeriods; ++repeats) {
    const size_t count = size_t{fixed} + size_t{repeats} * period;
    if (count > 0 && !runs(count)) return false;
  }
  return runs(more);
}

/// The first difference between given rows and those of a pattern.
Result<void> check_same(const ir::Schedule& given, const ir::Schedule& unrolled) {
  for (size_t d = 0; d < given.rows.size(); ++d) {
    const auto &row = given.rows[d], &other = unrolled.rows[d];
    for (size_t i = 0; i < row.size(); ++i) {
      if (i < other.size() && row[i] == other[i]) continue;
      return error(fmt::format("the rows have no pattern: {} on device {} stands where {} was expected",
                               ir::to_string(row[i]), d, i < other.size() ? ir::to_string(other[i]) : "no action"));
    }
  }
  return {};
}

}  // namespace

std::string to_string(const SchedulePattern& pattern) {
  std::string text;
  for (const PatternRow& row : pattern.rows) text += (text.empty() ? "" : "; ") + to_string(row);
  return text;
}

Result<SchedulePattern> parse_pattern(std::string_view text, const std::string& file, uint32_t line) {
  return Parser(text, file, line).parse();
}

bool is_pattern(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') return true;
    if (text[at] == '#') at = std::min(text.find('\n', at), text.size());
  }
  return false;
}

PatternCounts counts_of(const SchedulePattern& pattern) {
  const auto fault = fault_of(pattern);
  RANNC_CHECK(!pattern.empty() && !fault) << (fault ? fault->second : "an empty pattern");
  uint32_t fixed = 0;
  for (const PatternRow& row : pattern.rows) fixed = std::max(fixed, fixed_of(row));
  return {fixed, forwards_of(pattern.rows[0], pattern.rows[0].period)};
}

bool parts_backward(const SchedulePattern& pattern) {
  return std::any_of(pattern.rows.begin(), pattern.rows.end(), [](const PatternRow& row) {
    return std::any_of(row.period.begin(), row.period.end(),
                       [](const PatternAction& action) { return action.kind == ActionKind::kInputGradient; });
  });
}

Result<ir::Schedule> rows_of(const SchedulePattern& pattern, const PipelineShape& shape) {
  const auto [fixed, period] = counts_of(pattern);
  const uint32_t wanted = shape.micro_batch_count();
  // All rows are unrolled for the same number of micro-batches, at least the wanted one.
  const uint64_t unrolled = fixed + (wanted > fixed ? (wanted - fixed + period - 1) / period * period : 0);
  std::map<std::vector<StageId>, std::vector<Action>> rows;
  for (const PatternRow& row : pattern.rows) {
    std::vector<StageId> stages;
    for (const auto& [stage, counts] : count(row.period)) stages.push_back(stage);
    const uint64_t repeats = (unrolled - fixed_of(row)) / period;
    if (row.warm_up.size() + row.drain.size() + row.period.size() * repeats > kMostActions)
      return error(fmt::format("the pattern's row of stage {} is too long", stages.front().index()));
    RANNC_ASSIGN(std::vector<Action> actions, Numbering().number(row, repeats));
    std::erase_if(actions, [&](const Action& action) { return action.micro_batch >= wanted; });
    rows.emplace(std::move(stages), std::move(actions));
  }
  ir::Schedule schedule;
  schedule.rows.resize(shape.devices);
  std::set<std::vector<StageId>> used;
  const auto stages = stages_by_device(shape);
  for (size_t d = 0; d < stages.size(); ++d) {
    if (stages[d].empty()) continue;
    const auto row = rows.find(stages[d]);
    if (row == rows.end()) {
      std::vector<size_t> numbers;
      for (const StageId stage : stages[d]) numbers.push_back(stage.index());
      return error(
          fmt::format("the pattern has no row with stages {}, which device {} holds", fmt::join(numbers, ", "), d));
    }
    used.insert(stages[d]);
    schedule.rows[d] = row->second;
  }
  for (const auto& [own, row] : rows) {
    if (used.contains(own)) continue;
    return error(fmt::format("no device holds the stages of the pattern's row with stage {}", own.front().index()));
  }
  return schedule;
}

Result<ir::Schedule> in_ascending_order(const ir::Schedule& given, const PipelineShape& shape) {
  RANNC_ASSIGN(const SchedulePattern pattern, whole_rows(rows_by_group(given, shape)));
  RANNC_ASSIGN(ir::Schedule rows, rows_of(pattern, shape));
  rows.name = given.name;
  return rows;
}

Result<SchedulePattern> pattern_of(const ir::Schedule& given, const PipelineShape& shape) {
  const std::vector<const std::vector<Action>*> rows = rows_by_group(given, shape);
  std::vector<RowPeriods> finders;
  for (const auto* row : rows) finders.emplace_back(*row);
  RANNC_ASSIGN(SchedulePattern best, whole_rows(rows));
  RANNC_ASSIGN(const ir::Schedule again, rows_of(best, shape));
  RANNC_TRY(check_same(given, again));
  const uint32_t count = shape.micro_batch_count();
  uint32_t covered = 0;
  for (uint32_t k = 1; 2 * k <= count && 2 * covered < count; ++k) {
    std::vector<Repetition> periods;
    uint32_t repeats = count;
    for (size_t r = 0; r < rows.size() && repeats > 1; ++r) {
      const auto found = finders[r].find(k);
      repeats = found ? std::min(repeats, found->repeats) : 0;
      if (found) periods.push_back(*found);
    }
    if (repeats < 2 || repeats * k <= covered) continue;
    SchedulePattern candidate = split(rows, periods);
    if (fault_of(candidate)) continue;
    const auto unrolled = rows_of(candidate, shape);
    if (!unrolled.ok() || !check_same(given, *unrolled).ok() || !runs_for_others(candidate, shape)) continue;
    covered = repeats * k;
    best = std::move(candidate);
  }
  return best;
}

}  // namespace rannc::partition
