/// Steps of the search for rows: each adds candidates and keeps the best.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/schedule/found/find_rows.h"
#include "partition/schedule/found/lane_memory.h"
#include "partition/schedule/found/list_rows.h"
#include "partition/schedule/found/order_model.h"
#include "partition/schedule/found/random.h"
#include "partition/schedule/found/row_judge.h"

namespace rannc::partition::found {

/// Rows to improve, with their simulated makespan.
struct Candidate {
  LaneRows rows;
  double makespan = kNever;
};

class RowSearch {
 public:
  RowSearch(const FoundProblem& given, const FoundOptions& options);

  /// Judges every named schedule, as it is and as words.
  void try_named();
  /// Lists rows by the policies to begin with.
  void try_policies();
  /// Changes the best policies for so many actions.
  void change_policies(uint64_t actions);
  /// Lists the passes of the best rows again in the order of their latest starts.
  void reorder(uint64_t actions);
  /// Moves computations of the best rows, those of better ones more often, until the budget is spent.
  void improve();
  /// Judges words from elsewhere.
  void judge(LaneRows rows, const std::string& origin);

  /// Whether the budget is spent or the bound is reached.
  bool done() const;
  /// Whether the policies to begin with cost much of the budget.
  bool is_dear() const;
  uint64_t spent() const { return model_.actions() + judge_.actions() + charged_; }
  /// Counts actions that were simulated elsewhere.
  void charge(uint64_t actions) { charged_ += actions; }

  const RowProblem& problem() const { return problem_; }
  OrderModel& model() { return model_; }
  const std::vector<Candidate>& pool() const { return pool_; }
  /// The rows of the result; empty: it has no words.
  const LaneRows& best_rows() const { return best_rows_; }
  FoundSchedule& result() { return result_; }

 private:
  /// A policy with the makespan of its rows by the model.
  struct RatedPolicy {
    Policy policy;
    double makespan = kNever;
    LaneRows rows;
  };

  double enough() const { return result_.bound.value * (1 + 1e-9); }
  Verdict judge(const ir::Schedule& schedule, const std::string& origin, const LaneRows* words);
  void lower_limits(const Verdict& verdict, const LaneRows& rows);
  bool fits(const LaneRows& rows);
  void keep(Candidate candidate);
  void try_split(LaneRows rows, const std::string& name);
  RatedPolicy rate(Policy policy);
  void rank(RatedPolicy rated);
  std::vector<int64_t> limits() const;

  const FoundOptions options_;
  RowProblem problem_;
  RowJudge judge_;
  OrderModel model_;
  LaneBytes bytes_;
  Random random_;
  uint64_t charged_ = 0;
  std::vector<Candidate> pool_;        ///< best first
  std::vector<RatedPolicy> policies_;  ///< best first
  LaneRows best_rows_;
  FoundSchedule result_;
};

}  // namespace rannc::partition::found
