#include "partition/schedule/found/row_search.h"

#include <algorithm>
#include <utility>

#include "partition/schedule/found/improve_rows.h"
#include "partition/schedule/found/named_rows.h"
#include "partition/schedule/found/policies.h"

namespace rannc::partition::found {
namespace {

constexpr size_t kPool = 6;
constexpr uint64_t kRounds = 12;
constexpr uint64_t kListing = 10;  ///< time of listing an action, in units of the model, measured by bench-found
constexpr uint64_t kTries = 200;   ///< policies tried, about

}  // namespace

RowSearch::RowSearch(const FoundProblem& given, const FoundOptions& options)
    : options_(options),
      problem_(make_row_problem(given.shape, given.costs, options.parts, options.recomputed, given.options)),
      judge_(given.shape, given.costs, given.options),
      model_(problem_),
      bytes_(problem_),
      random_(options.seed) {
  result_.bound = row_bound(problem_);
}

bool RowSearch::done() const {
  return spent() >= options_.actions || (result_.schedule && result_.makespan <= enough());
}

bool RowSearch::is_dear() const { return kTries * kListing * problem_.actions() > options_.actions / 4; }

/// Judges rows and keeps the best. `words`: the same rows, if they are words.
Verdict RowSearch::judge(const ir::Schedule& schedule, const std::string& origin, const LaneRows* words) {
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
void RowSearch::judge(LaneRows rows, const std::string& origin) {
  const Verdict verdict = judge(schedule_of(problem_, rows, "found"), origin, &rows);
  if (!verdict.fits) lower_limits(verdict, rows);
  keep({std::move(rows), verdict.makespan});
}

/// By as much as the rows are in excess of the limit, if the model takes them to fit.
void RowSearch::lower_limits(const Verdict& verdict, const LaneRows& rows) {
  if (verdict.excess.empty()) return;
  for (uint32_t l = 0; l < problem_.lanes.size(); ++l) {
    Lane& lane = problem_.lanes[l];
    int64_t excess = 0;
    for (const DeviceId device : lane.devices) excess = std::max(excess, verdict.excess[device.index()]);
    if (excess > 0 && bytes_.peak(l, rows[l]) <= lane.limit) lane.limit -= excess;
  }
}

bool RowSearch::fits(const LaneRows& rows) {
  for (uint32_t l = 0; l < rows.size(); ++l) {
    if (bytes_.peak(l, rows[l]) > problem_.lanes[l].limit) return false;
  }
  return true;
}

void RowSearch::keep(Candidate candidate) {
  if (candidate.makespan == kNever) return;
  const auto equal = [&](const Candidate& other) { return other.rows == candidate.rows; };
  if (std::any_of(pool_.begin(), pool_.end(), equal)) return;
  const auto at = std::upper_bound(pool_.begin(), pool_.end(), candidate.makespan,
                                   [](double value, const Candidate& other) { return value < other.makespan; });
  pool_.insert(at, std::move(candidate));
  if (pool_.size() > kPool) pool_.pop_back();
}

void RowSearch::try_named() {
  for (const NamedRows& named : named_rows(problem_)) {
    if (named.name == "serial" && result_.schedule) break;  // the last of all, for cuts whose memory fits no other
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
void RowSearch::try_split(LaneRows rows, const std::string& name) {
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

RowSearch::RatedPolicy RowSearch::rate(Policy policy) {
  ++result_.evaluations;
  charged_ += kListing * problem_.actions();
  RatedPolicy rated{std::move(policy), kNever, {}};
  ListedRows listed = list_rows(problem_, rated.policy);
  if (!listed.complete) return rated;
  rated.makespan = model_.run(listed.rows);
  rated.rows = std::move(listed.rows);
  return rated;
}

void RowSearch::rank(RatedPolicy rated) {
  const auto at = std::upper_bound(policies_.begin(), policies_.end(), rated.makespan,
                                   [](double value, const RatedPolicy& other) { return value < other.makespan; });
  policies_.insert(at, std::move(rated));
  if (policies_.size() > kPool) policies_.pop_back();
}

void RowSearch::try_policies() {
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

std::vector<int64_t> RowSearch::limits() const {
  std::vector<int64_t> limits;
  for (const Lane& lane : problem_.lanes) limits.push_back(lane.limit);
  return limits;
}

void RowSearch::change_policies(uint64_t actions) {
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
void RowSearch::reorder(uint64_t actions) {
  const uint64_t end = spent() + actions;
  while (spent() < end && !done() && !pool_.empty()) {
    const Candidate& base = pool_[random_.below(static_cast<uint32_t>(pool_.size()))];
    const double makespan = model_.run(base.rows);
    if (makespan == kNever) return;
    const auto latest = model_.latest_starts(base.rows);
    NoisyTimes times{latest, makespan / problem_.micro_batches * random_.unit()};
    if (random_.below(4) != 0) {
      times.first = makespan * random_.unit();
      times.last = times.first + makespan * 0.3 * random_.unit();
    }
    const RatedPolicy rated = rate(by_times(problem_, base.rows, times, random_));
    if (rated.makespan < makespan) judge(rated.rows, "list");
  }
}

/// Improves the best candidates in turn, more often the better ones.
void RowSearch::improve() {
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

}  // namespace rannc::partition::found
