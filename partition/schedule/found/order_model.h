/// Start times of given rows as longest paths.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "partition/schedule/found/row_words.h"

namespace rannc::partition::found {

/// An action by its place in the rows.
struct Place {
  uint32_t lane = 0, position = 0;
};

class OrderModel {
 public:
  explicit OrderModel(const RowProblem& problem);

  /// Starts each action as early as possible. Returns the end of the step; `kNever` if rows wait for each other.
  /// O(actions). With ports, actions are run in the order of time, as in the simulator, which takes a factor
  /// log(lanes) more.
  double run(const LaneRows& rows);
  /// Mean over lanes of the end of their rows in the last run: breaks ties between equal makespans.
  double mean_end() const { return mean_end_; }
  /// Start of an action in the last run.
  double start(Place place) const { return starts_[place.lane][place.position]; }

  /// Places of the last run on a longest path whose action waits for the one before it in its row, last first. The rows
  /// must be those of the run. Of several causes the row comes first.
  std::vector<Place> tight_places(const LaneRows& rows) const;

  /// Latest start of each action for which no step ends later than the last run, by lane and position.
  std::vector<std::vector<double>> latest_starts(const LaneRows& rows) const;

  uint64_t actions() const { return actions_; }  ///< simulated so far

 private:
  size_t cell(uint32_t slot, uint32_t micro_batch) const { return slot * problem_.micro_batches + micro_batch; }
  /// Arrival of everything that the letter reads; `kNever`: not known.
  double arrival(const Letter& letter) const;
  void advance(const LaneRows& rows, uint32_t lane);
  void run_by_time(const LaneRows& rows);
  void advance_by_time(const LaneRows& rows, uint32_t lane, double now);
  void start(Place place, const Letter& letter, double time);
  void send(const Letter& letter, uint32_t lane);
  double finish(const LaneRows& rows);

  const RowProblem& problem_;
  std::vector<double> forward_end_, gradient_end_, weight_end_;  ///< by slot and micro-batch
  std::vector<std::vector<double>> starts_;
  std::vector<uint32_t> next_;
  std::vector<double> clock_;
  std::vector<uint32_t> worklist_;
  std::vector<bool> listed_;
  std::vector<Place> order_;  ///< in which actions were started: topological
  Place last_;                ///< ends a longest path
  double end_ = 0, mean_end_ = 0;
  const bool timed_;              ///< messages wait for ports
  std::vector<double> arrivals_;  ///< by feed and micro-batch
  Ports ports_;
  using Wake = std::pair<double, uint32_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  std::vector<bool> unsent_;  ///< by lane: the results of the action before `next_`
  uint64_t actions_ = 0;
};

}  // namespace rannc::partition::found
