#include "partition/schedule/found/order_model.h"

#include <algorithm>
#include <span>

namespace rannc::partition::found {

using ir::ActionKind;

namespace {

constexpr uint64_t kTimedCost = 4;  ///< of an action run in the order of time, measured by bench-found

}  // namespace

OrderModel::OrderModel(const RowProblem& problem)
    : problem_(problem),
      starts_(problem.lanes.size()),
      next_(problem.lanes.size()),
      clock_(problem.lanes.size()),
      timed_(problem.resources > 0),
      ports_(problem) {}

double OrderModel::arrival(const Letter& letter) const {
  const Slot& slot = problem_.slots[letter.slot];
  const bool forward = letter.kind == ActionKind::kForward;
  if (!forward && !ir::computes_input_gradient(letter.kind)) return 0;
  const uint32_t size_class = problem_.class_of[letter.micro_batch];
  const auto& ends = forward ? forward_end_ : gradient_end_;
  double time = 0;
  for (const Feed& feed : forward ? slot.inputs : slot.gradients) {
    time = std::max(time, timed_ ? arrivals_[feed.id * problem_.micro_batches + letter.micro_batch]
                                 : ends[cell(feed.slot, letter.micro_batch)] + feed.delay[size_class]);
  }
  return time;
}

void OrderModel::start(Place place, const Letter& letter, double time) {
  starts_[place.lane][place.position] = time;
  double end = time + problem_.time(letter.slot, letter.kind, letter.micro_batch);
  const size_t at = cell(letter.slot, letter.micro_batch);
  if (letter.kind == ActionKind::kForward) {
    if (letter.micro_batch == 0) end += problem_.slots[letter.slot].begin;
    forward_end_[at] = end;
  } else if (ir::computes_input_gradient(letter.kind)) {
    gradient_end_[at] = end;
  }
  if (ir::adds_weight_gradient(letter.kind)) weight_end_[letter.slot] = end;
  clock_[place.lane] = end;
  order_.push_back(place);
}

/// The slots that read the letter's result.
static std::span<const Reader> readers_of(const RowProblem& problem, const Letter& letter) {
  const Slot& slot = problem.slots[letter.slot];
  if (letter.kind == ActionKind::kForward) return slot.readers;
  return ir::computes_input_gradient(letter.kind) ? std::span<const Reader>(slot.sources) : std::span<const Reader>();
}

/// Runs a row until it waits.
void OrderModel::advance(const LaneRows& rows, uint32_t lane) {
  const LaneRow& row = rows[lane];
  for (uint32_t& i = next_[lane]; i < row.size(); ++i) {
    const double inputs = arrival(row[i]);
    if (inputs == kNever) return;
    start({lane, i}, row[i], std::max(clock_[lane], inputs));
    for (const Reader& reader : readers_of(problem_, row[i])) {
      const uint32_t other = problem_.slots[reader.slot].lane;
      if (listed_[other]) continue;
      listed_[other] = true;
      worklist_.push_back(other);
    }
  }
}

void OrderModel::send(const Letter& letter, uint32_t lane) {
  const bool forward = letter.kind == ActionKind::kForward;
  for (const Reader& reader : readers_of(problem_, letter)) {
    const Slot& slot = problem_.slots[reader.slot];
    const Feed& feed = (forward ? slot.inputs : slot.gradients)[reader.feed];
    const double arrives = ports_.send(feed, problem_.class_of[letter.micro_batch], clock_[lane]);
    arrivals_[feed.id * problem_.micro_batches + letter.micro_batch] = arrives;
    if (slot.lane != lane) wakes_.push({std::max(arrives, clock_[slot.lane]), slot.lane});
  }
}

void OrderModel::advance_by_time(const LaneRows& rows, uint32_t lane, double now) {
  const LaneRow& row = rows[lane];
  if (now < clock_[lane]) return;
  if (unsent_[lane]) {
    unsent_[lane] = false;
    send(row[next_[lane] - 1], lane);
  }
  if (next_[lane] == row.size()) return;
  const Letter& letter = row[next_[lane]];
  const double inputs = arrival(letter);
  if (inputs == kNever) return;
  const double time = std::max(clock_[lane], inputs);
  if (time > now) return wakes_.push({time, lane});
  start({lane, next_[lane]++}, letter, time);
  unsent_[lane] = true;
  wakes_.push({clock_[lane], lane});
}

void OrderModel::run_by_time(const LaneRows& rows) {
  ports_.clear();
  arrivals_.assign(size_t{problem_.feeds} * problem_.micro_batches, kNever);
  unsent_.assign(rows.size(), false);
  for (uint32_t l = 0; l < rows.size(); ++l) wakes_.push({0, l});
  while (!wakes_.empty()) {
    const auto [time, lane] = wakes_.top();
    wakes_.pop();
    advance_by_time(rows, lane, time);
  }
}

double OrderModel::run(const LaneRows& rows) {
  const size_t cells = problem_.slots.size() * problem_.micro_batches, lanes = rows.size();
  forward_end_.assign(cells, kNever);
  gradient_end_.assign(cells, kNever);
  weight_end_.assign(problem_.slots.size(), 0);
  next_.assign(lanes, 0);
  clock_.assign(lanes, 0);
  order_.clear();
  for (uint32_t l = 0; l < lanes; ++l) starts_[l].resize(rows[l].size());
  if (timed_) {
    run_by_time(rows);
  } else {
    listed_.assign(lanes, true);
    for (uint32_t l = static_cast<uint32_t>(lanes); l-- > 0;) worklist_.push_back(l);
    while (!worklist_.empty()) {
      const uint32_t l = worklist_.back();
      worklist_.pop_back();
      listed_[l] = false;
      advance(rows, l);
    }
  }
  actions_ += order_.size() * (timed_ ? kTimedCost : 1);
  for (size_t l = 0; l < lanes; ++l) {
    if (next_[l] < rows[l].size()) return end_ = kNever;
  }
  return end_ = finish(rows);
}

double OrderModel::finish(const LaneRows& rows) {
  double end = 0, sum = 0;
  for (uint32_t l = 0; l < rows.size(); ++l) {
    double lane_end = clock_[l];
    for (const uint32_t s : problem_.lanes[l].slots) lane_end += problem_.slots[s].finish;
    const uint32_t last = static_cast<uint32_t>(rows[l].size()) - 1;
    if (rows[l].empty()) continue;
    sum += lane_end;
    if (lane_end > end) end = lane_end, last_ = {l, last};
    for (const uint32_t s : problem_.lanes[l].slots) {
      const double own = weight_end_[s] + problem_.slots[s].tail;
      if (own <= end) continue;
      end = own;
      uint32_t at = last;
      while (at > 0 && !(rows[l][at].slot == s && ir::adds_weight_gradient(rows[l][at].kind))) --at;
      last_ = {l, at};
    }
  }
  mean_end_ = rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  return end;
}

std::vector<Place> OrderModel::tight_places(const LaneRows& rows) const {
  std::vector<Place> tight;
  Place at = last_;
  while (true) {
    const Letter& letter = rows[at.lane][at.position];
    const double start = starts_[at.lane][at.position];
    if (start <= 0) return tight;
    if (start > arrival(letter)) {
      if (at.position == 0) return tight;
      tight.push_back(at);
      --at.position;
      continue;
    }
    if (at.position > 0) {
      const Letter& before = rows[at.lane][at.position - 1];
      double end = starts_[at.lane][at.position - 1] + problem_.time(before.slot, before.kind, before.micro_batch);
      if (before.kind == ActionKind::kForward && before.micro_batch == 0) end += problem_.slots[before.slot].begin;
      if (end >= start) {
        tight.push_back(at);
        --at.position;
        continue;
      }
    }
    const bool forward = letter.kind == ActionKind::kForward;
    const Slot& slot = problem_.slots[letter.slot];
    const auto& ends = forward ? forward_end_ : gradient_end_;
    uint32_t source = letter.slot;
    for (const Feed& feed : forward ? slot.inputs : slot.gradients) {
      const size_t own = feed.id * problem_.micro_batches + letter.micro_batch;
      if ((timed_ ? arrivals_[own]
                  : ends[cell(feed.slot, letter.micro_batch)] + feed.delay[problem_.class_of[letter.micro_batch]]) >=
          start)
        source = feed.slot;
    }
    if (source == letter.slot) return tight;
    const uint32_t lane = problem_.slots[source].lane;
    uint32_t position = 0;
    const auto& row = rows[lane];
    while (position < row.size() && !(row[position].slot == source && row[position].micro_batch == letter.micro_batch &&
                                      (forward ? row[position].kind == ActionKind::kForward
                                               : ir::computes_input_gradient(row[position].kind)))) {
      ++position;
    }
    if (position == row.size()) return tight;
    at = {lane, position};
  }
}

std::vector<std::vector<double>> OrderModel::latest_starts(const LaneRows& rows) const {
  std::vector<std::vector<double>> latest;
  std::vector<double> lane_end(rows.size(), end_);
  for (uint32_t l = 0; l < rows.size(); ++l) {
    latest.emplace_back(rows[l].size(), end_);
    for (const uint32_t s : problem_.lanes[l].slots) lane_end[l] -= problem_.slots[s].finish;
  }
  std::vector<double> forward(forward_end_.size(), end_), gradient = forward, weight;
  for (const Slot& slot : problem_.slots) weight.push_back(end_ - slot.tail);
  for (size_t i = order_.size(); i-- > 0;) {
    const Place at = order_[i];
    const Letter& letter = rows[at.lane][at.position];
    const Slot& slot = problem_.slots[letter.slot];
    const size_t own = cell(letter.slot, letter.micro_batch);
    const bool is_forward = letter.kind == ActionKind::kForward;
    double end = lane_end[at.lane];
    if (is_forward) end = std::min(end, forward[own]);
    if (ir::computes_input_gradient(letter.kind)) end = std::min(end, gradient[own]);
    if (ir::adds_weight_gradient(letter.kind)) end = std::min(end, weight[letter.slot]);
    double start = end - problem_.time(letter.slot, letter.kind, letter.micro_batch);
    if (is_forward && letter.micro_batch == 0) start -= slot.begin;
    latest[at.lane][at.position] = lane_end[at.lane] = start;
    const uint32_t size_class = problem_.class_of[letter.micro_batch];
    if (!is_forward && !ir::computes_input_gradient(letter.kind)) continue;
    for (const Feed& feed : is_forward ? slot.inputs : slot.gradients) {
      double& source = (is_forward ? forward : gradient)[cell(feed.slot, letter.micro_batch)];
      source = std::min(source, start - feed.delay[size_class]);
    }
  }
  return latest;
}

}  // namespace rannc::partition::found
