#include "runtime/execute/progress.h"

#include <fmt/format.h>

#include <utility>

namespace rannc::runtime {

std::string describe(const Activity& activity) {
  std::string text(activity.what);
  if (activity.action) text = fmt::format("{} ({})", ir::words(activity.action->kind), to_string(*activity.action));
  if (activity.step) text += fmt::format(" of step {}", *activity.step);
  if (!activity.action) return text;
  text += fmt::format(", stage {}", activity.action->stage.index());
  if (ir::has_micro_batch(activity.action->kind)) text += fmt::format(", micro-batch {}", activity.action->micro_batch);
  return text;
}

void Progress::begin(Lane lane, const Activity& activity) {
  const std::lock_guard lock(mutex_);
  Work& work = lanes_[static_cast<size_t>(lane)];
  work.activity = activity;
  work.rests = false;
  ++work.changes;
}

void Progress::rest(Lane lane) {
  const std::lock_guard lock(mutex_);
  Work& work = lanes_[static_cast<size_t>(lane)];
  work.rests = true;
  ++work.changes;
}

Progress::State Progress::state(Lane lane) const {
  const std::lock_guard lock(mutex_);
  const Work& work = lanes_[static_cast<size_t>(lane)];
  return {work.activity, work.changes, work.rests || work.waits > 0};
}

void Progress::add_waits(int change) {
  const std::lock_guard lock(mutex_);
  Work& work = lanes_[static_cast<size_t>(Lane::kSteps)];
  work.waits += change;
  ++work.changes;
}

void Progress::declare_hung(std::string why) {
  const std::lock_guard lock(mutex_);
  hung_ = std::move(why);
}

std::string Progress::hung() const {
  const std::lock_guard lock(mutex_);
  return hung_;
}

std::optional<StallClock::Stall> StallClock::look(const Progress& progress, Progress::Lane lane) {
  const std::chrono::milliseconds now = clock_.now();
  Seen& seen = seen_[static_cast<size_t>(lane)];
  const Progress::State state = progress.state(lane);
  if (state.waits || state.changes != seen.changes) seen = {state.changes, now};
  if (state.waits) return std::nullopt;
  return Stall{state.activity, now - seen.since};
}

}  // namespace rannc::runtime
