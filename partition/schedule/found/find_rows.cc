#include "partition/schedule/found/find_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "partition/schedule/found/improve_rows.h"
#include "partition/schedule/found/lane_memory.h"
#include "partition/schedule/found/named_rows.h"
#include "partition/schedule/found/policies.h"
#include "partition/schedule/found/repeat_rows.h"
#include "partition/schedule/found/row_judge.h"

namespace rannc::partition {
namespace {

using namespace found;

/// Rows to improve, with their simulated makespan.
struct Candidate {
  LaneRows rows;
  double makespan = kNever;
};

/// A policy with the makespan of its rows by the model.
struct RatedPolicy {
  Policy policy;
  double makespan = kNever;
  LaneRows rows;
};

class RowSearch {
 public:
  RowSearch(const FoundProblem& given, const FoundOptions& options)
      : given_(given),
        options_(options),
        problem_(make_row_problem(given.shape, given.costs, options.parts, options.recomputed, given.options)),
        judge_(given.shape, given.costs, given.options),
        model_(problem_),
        bytes_(problem_),
        random_(options.seed) {
    result_.bound = row_bound(problem_);
  }

  FoundSchedule run() {
    try_named();
    // Where a try is dear, rows are searched for fewer micro-batches first.
    const bool dear = kTries * kListing * problem_.actions() > options_.actions / 4;
    if (dear) repeat_shorter(options_.actions * 2 / 3);
    try_policies();
    if (!dear) repeat_shorter(options_.actions / 3);
    change_policies(options_.actions / 5);
    reorder(options_.actions / 10);
    improve();
    find_pattern();
    result_.actions = spent();
    return std::move(result_);
  }

 private:
  uint64_t spent() const { return model_.actions() + judge_.actions() + listed_; }
  bool done() const { return spent() >= options_.actions || (result_.schedule && result_.makespan <= enough()); }
  double enough() const { return result_.bound.value * (1 + 1e-9); }

  /// Judges rows and keeps the best. `words`: the same rows, if they are words.
  Verdict judge(const ir::Schedule& schedule, const std::string& origin, const LaneRows* words) {
    ++result_.evaluations;
    Verdict verdict = judge_.judge(schedule);
    if (verdict.makespan == kNever || (result_.schedule && verdict.makespan >= result_.makespan)) return verdict;
    result_.schedule = schedule;
    result_.schedule->name = "found";
    result_.makespan = verdict.makespan;
    result_.origin = origin;
    best_rows_ = words != nullptr ? *words : LaneRows{};
    return verdict;
  }

  /// Judges words. Lowers the model's limits where they exceed memory.
  void judge(LaneRows rows, const std::string& origin) {
    const Verdict verdict = judge(schedule_of(problem_, rows, "found"), origin, &rows);
    if (!verdict.fits) lower_limits(verdict, rows);
    keep({std::move(rows), verdict.makespan});
  }

  /// By as much as the rows are in excess of the limit, if the model takes them to fit.
  void lower_limits(const Verdict& verdict, const LaneRows& rows) {
    if (verdict.excess.empty()) return;
    for (uint32_t l = 0; l < problem_.lanes.size(); ++l) {
      Lane& lane = problem_.lanes[l];
      int64_t excess = 0;
      for (const DeviceId device : lane.devices) excess = std::max(excess, verdict.excess[device.index()]);
      if (excess > 0 && bytes_.peak(l, rows[l]) <= lane.limit) lane.limit -= excess;
    }
  }

  bool fits(const LaneRows& rows) {
    for (uint32_t l = 0; l < rows.size(); ++l) {
      if (bytes_.peak(l, rows[l]) > problem_.lanes[l].limit) return false;
    }
    return true;
  }

  void keep(Candidate candidate) {
    if (candidate.makespan == kNever) return;
    const auto equal = [&](const Candidate& other) { return other.rows == candidate.rows; };
    if (std::any_of(pool_.begin(), pool_.end(), equal)) return;
    const auto at = std::upper_bound(pool_.begin(), pool_.end(), candidate.makespan,
                                     [](double value, const Candidate& other) { return value < other.makespan; });
    pool_.insert(at, std::move(candidate));
    if (pool_.size() > kPool) pool_.pop_back();
  }

  void try_named() {
    for (const NamedRows& named : named_rows(problem_)) {
      auto rows = words_of(problem_, named.schedule);
      const bool same = rows && schedule_of(problem_, *rows, "").rows == named.schedule.rows;
      const double makespan = judge(named.schedule, named.name, same ? &*rows : nullptr).makespan;
      if (makespan < (result_.best_named.empty() ? kNever : result_.named_makespan)) {
        result_.best_named = named.name;
        result_.named_makespan = makespan;
      }
      if (!rows) continue;
      if (same) {
        keep({*rows, makespan});
      } else {
        judge(*rows, named.name);
      }
      if (options_.parts == BackwardParts::kSplit) try_split(*std::move(rows), named.name);
    }
  }

  /// Tries rows with I and W in place of each B.
  void try_split(LaneRows rows, const std::string& name) {
    bool split = false;
    for (LaneRow& row : rows) {
      LaneRow parts;
      for (Letter letter : row) {
        if (letter.kind == ir::ActionKind::kBackward) {
          letter.kind = ir::ActionKind::kInputGradient;
          parts.push_back(letter);
          letter.kind = ir::ActionKind::kWeightGradient;
          split = true;
        }
        parts.push_back(letter);
      }
      row = std::move(parts);
    }
    if (split) judge(std::move(rows), name);
  }

  /// Micro-batches of which rows are searched to be repeated; 0: no fewer than here.
  uint32_t fewer() const {
    // Enough for a steady part between warm-up and drain.
    const auto enough = std::max<uint32_t>(8, 3 * static_cast<uint32_t>(problem_.lanes.size()));
    return problem_.classes == 1 && problem_.micro_batches >= 2 * enough ? enough : 0;
  }

  /// Searches rows for fewer micro-batches and repeats a period of the best ones.
  void repeat_shorter(uint64_t actions) {
    const uint32_t few = fewer();
    if (few == 0 || done()) return;
    const ir::PipelineShape shape = with_micro_batches(few);
    const ScheduleCosts costs = costs_of(few);
    FoundOptions options = options_;
    options.actions = actions;
    RowSearch shorter({shape, costs, given_.options}, options);
    shorter.run();
    listed_ += shorter.spent();
    std::vector<Repeated> best;
    for (const Candidate& candidate : shorter.pool_)
      repeat(shorter.problem_, shorter.model_, candidate.rows, model_, problem_.micro_batches, kPool, best);
    for (Repeated& one : best) judge(std::move(one.rows), "repeated");
  }

  ir::PipelineShape with_micro_batches(uint32_t count) const {
    ir::PipelineShape shape = given_.shape;
    shape.micro_batches.resize(count, shape.micro_batches[0]);
    return shape;
  }

  ScheduleCosts costs_of(uint32_t micro_batches) const {
    ScheduleCosts costs = given_.costs;
    if (!costs.size_class.empty()) costs.size_class.resize(micro_batches, costs.size_class[0]);
    return costs;
  }

  /// Rows that repeat a period.
  struct Repeated {
    LaneRows rows;
    double makespan = kNever;  ///< by the model
    RowPeriod period;
  };

  /// Repeats periods of rows for `micro_batches`, which `longer` models. Keeps the `most` fastest in `best`.
  static void repeat(const RowProblem& problem, OrderModel& model, const LaneRows& rows, OrderModel& longer,
                     uint32_t micro_batches, size_t most, std::vector<Repeated>& best) {
    const double end = model.run(rows);
    for (uint32_t count = 1; count <= std::min(kLongestPeriod, problem.micro_batches / 2); ++count) {
      for (double part = 0.2; part < 0.8; part += 0.1) {
        auto period = period_near(problem, model, rows, part * end, count);
        if (!period) continue;
        LaneRows more = repeated(rows, *period, problem.micro_batches, micro_batches);
        const double makespan = longer.run(more);
        const auto at = std::upper_bound(best.begin(), best.end(), makespan,
                                         [](double value, const Repeated& other) { return value < other.makespan; });
        if (makespan == kNever || (best.size() == most && at == best.end())) continue;
        best.insert(at, {std::move(more), makespan, *std::move(period)});
        if (best.size() > most) best.pop_back();
      }
    }
  }

  /// Finds the period of the best rows whose repetition is fastest for twice as many micro-batches.
  void find_pattern() {
    if (best_rows_.empty() || problem_.classes > 1) return;
    const uint32_t twice = 2 * problem_.micro_batches;
    const ir::PipelineShape shape = with_micro_batches(twice);
    const ScheduleCosts costs = costs_of(twice);
    const RowProblem problem = make_row_problem(shape, costs, options_.parts, options_.recomputed, given_.options);
    OrderModel longer(problem);
    std::vector<Repeated> best;
    repeat(problem_, model_, best_rows_, longer, twice, kPatterns, best);
    for (const Repeated& one : best) {
      SchedulePattern pattern = pattern_with(problem_, best_rows_, one.period);
      const auto rows = rows_of(pattern, given_.shape);
      if (!rows.ok() || rows->rows != result_.schedule->rows || !runs_for_few(pattern)) continue;
      result_.pattern = std::move(pattern);
      result_.pattern_period = (one.makespan - model_.run(best_rows_)) / problem_.micro_batches;
      return;
    }
  }

  /// Whether the pattern runs with none and with few of its periods.
  bool runs_for_few(const SchedulePattern& pattern) const {
    const PatternCounts counts = counts_of(pattern);
    for (uint32_t periods = 0; periods < 4; ++periods) {
      const uint32_t micro_batches = counts.fixed + periods * counts.period;
      if (micro_batches == 0) continue;
      const ir::PipelineShape shape = with_micro_batches(micro_batches);
      const auto rows = rows_of(pattern, shape);
      if (!rows.ok() || !ir::lower_schedule(shape, *rows).ok()) return false;
    }
    return true;
  }

  RatedPolicy rate(Policy policy) {
    ++result_.evaluations;
    listed_ += kListing * problem_.actions();
    RatedPolicy rated{std::move(policy), kNever, {}};
    ListedRows listed = list_rows(problem_, rated.policy);
    if (!listed.complete) return rated;
    rated.makespan = model_.run(listed.rows);
    rated.rows = std::move(listed.rows);
    return rated;
  }

  void rank(RatedPolicy rated) {
    const auto at = std::upper_bound(policies_.begin(), policies_.end(), rated.makespan,
                                     [](double value, const RatedPolicy& other) { return value < other.makespan; });
    policies_.insert(at, std::move(rated));
    if (policies_.size() > kPool) policies_.pop_back();
  }

  void try_policies() {
    const std::vector<Policy> policies = first_policies(problem_);
    for (int round = 0; round < 3; ++round) {
      policies_.clear();
      const auto limits = this->limits();
      for (const Policy& policy : policies) {
        if (done()) return;
        rank(rate(policy));
      }
      for (const RatedPolicy& rated : policies_) {
        if (rated.makespan < kNever && !done()) judge(rated.rows, "list");
      }
      if (limits == this->limits()) return;  // the model and the verifier agree on memory
    }
  }

  std::vector<int64_t> limits() const {
    std::vector<int64_t> limits;
    for (const Lane& lane : problem_.lanes) limits.push_back(lane.limit);
    return limits;
  }

  void change_policies(uint64_t actions) {
    const uint64_t end = spent() + actions;
    bool better = false;
    while (spent() < end && !done() && !policies_.empty()) {
      const RatedPolicy& base = policies_[random_.below(static_cast<uint32_t>(policies_.size()))];
      RatedPolicy rated = rate(changed(problem_, base.policy, random_));
      if (rated.makespan >= policies_.back().makespan) continue;
      better |= rated.makespan < policies_.front().makespan;
      rank(std::move(rated));
    }
    if (!better) return;
    for (const RatedPolicy& rated : policies_) judge(rated.rows, "list");
  }

  /// Lists the passes of the best rows again in the order of their latest starts.
  void reorder(uint64_t actions) {
    const uint64_t end = spent() + actions;
    while (spent() < end && !done() && !pool_.empty()) {
      const Candidate& base = pool_[random_.below(static_cast<uint32_t>(pool_.size()))];
      const double makespan = model_.run(base.rows);
      if (makespan == kNever) return;
      const double noise = makespan / problem_.micro_batches * random_.unit();
      const RatedPolicy rated = rate(by_times(problem_, base.rows, model_.latest_starts(base.rows), noise, random_));
      if (rated.makespan < makespan) judge(rated.rows, "list");
    }
  }

  /// Improves the best candidates in turn, more often the better ones.
  void improve() {
    const uint64_t left = options_.actions > spent() ? options_.actions - spent() : 0;
    const uint64_t round = std::max<uint64_t>(left / kRounds, 50 * problem_.actions());
    uint32_t turn = 0;
    while (!done() && !pool_.empty()) {
      const size_t which = (turn % 2 == 0 ? 0 : turn / 2) % pool_.size();
      ++turn;
      LaneRows rows = pool_[which].rows;
      if (!fits(rows)) {
        pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      ImprovedRows improved = improve_rows(problem_, model_, rows, round, enough(), random_);
      if (improved.rows != rows) judge(std::move(improved.rows), "moves");
      if (turn > 4 * kRounds) return;
    }
  }

  static constexpr size_t kPool = 6;
  static constexpr size_t kPatterns = 40;
  static constexpr uint64_t kTries = 200;        ///< policies tried, about
  static constexpr uint32_t kLongestPeriod = 8;  ///< micro-batches
  static constexpr uint64_t kRounds = 12;
  static constexpr uint64_t kListing =
      10;  ///< time of listing an action, in units of the model, measured by bench-found

  const FoundProblem given_;
  const FoundOptions options_;
  RowProblem problem_;
  RowJudge judge_;
  OrderModel model_;
  LaneBytes bytes_;
  Random random_;
  uint64_t listed_ = 0;
  std::vector<Candidate> pool_;        ///< best first
  LaneRows best_rows_;                 ///< of the result; empty: it has no words
  std::vector<RatedPolicy> policies_;  ///< best first
  FoundSchedule result_;
};

}  // namespace

Result<FoundSchedule> find_schedule_rows(const FoundProblem& problem, const FoundOptions& options) {
  if (!problem.shape.training) return error("schedules are searched for training only");
  if (problem.shape.stages.empty() || problem.shape.micro_batches.empty()) {
    return error(fmt::format("nothing to schedule: {} stages, {} micro-batches", problem.shape.stages.size(),
                             problem.shape.micro_batches.size()));
  }
  return RowSearch(problem, options).run();
}

}  // namespace rannc::partition
