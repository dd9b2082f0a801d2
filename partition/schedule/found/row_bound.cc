/// Lower bounds. A B counts as an I with its W directly after it, whose gradient leaves late; so every bound for I and
/// W holds for B. All arguments hold with contention too, which only delays.
///
///   1. Way. One micro-batch passes all stages forward and backward.
///   2. Work. On device d, no pass starts before r, no backward pass before g, and every I ends at least h before the
///      end. Before g, d runs F and R alone: at most U, because it has g - r of time and keeps every result. After T -
///      h, it runs W and steps alone: at most V, because it has h of time and each W that waits holds memory. All other
///      work lies in [g, T - h], so T >= g + (work - U - V) + h.
///   3. Memory. A micro-batch occupies its bytes on d at least from the start of F to the end of W, which takes L, the
///      longest way between them. All lie within [r, T - q], q the least time after a W. So sum(bytes * L) over slots
///      and micro-batches <= room * (T - r - q). With one size of micro-batches and slots, room is rounded down to
///      whole ones; if d has one slot, at most k fit and the (j + k)-th starts L after the j-th: T >= r +
///      floor((M-1)/k) L +
///      ((M-1) mod k) F + L + q.
///
/// U and V are maxima of fractional knapsacks: time per pass, under the bytes that it holds. Bytes of a pass exclude
/// what its device keeps for another stage anyway, and what an R would restore. The R of a micro-batch may be missing
/// if nothing runs between its F and its B or I; then d idles for the way between them. So R counts min(R, that way).
#include "partition/schedule/found/row_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/schedule/dependencies.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

/// Times of one micro-batch alone, of one class.
struct ClassPaths {
  std::vector<double> forward, gradient, after;
  double way = 0;
};

class Paths {
 public:
  explicit Paths(const RowProblem& problem) : problem_(problem) {
    gradient_ = problem.parts == BackwardParts::kWhole ? ActionKind::kBackward : ActionKind::kInputGradient;
  }

  double time(uint32_t slot, ActionKind kind, uint32_t c) const { return problem_.slots[slot].time[c][index_of(kind)]; }
  double gradient_time(uint32_t slot, uint32_t c) const { return time(slot, gradient_, c); }
  double weight_time(uint32_t slot, uint32_t c) const {
    return problem_.parts == BackwardParts::kWhole ? 0 : time(slot, ActionKind::kWeightGradient, c);
  }

  /// Starts of F and of I from the start of the F of `from`, along ways through it; -1: none. `from` = slots: from the
  /// beginning.
  void starts(uint32_t c, uint32_t from, std::vector<double>& forward, std::vector<double>& gradient) const {
    const auto count = static_cast<uint32_t>(problem_.slots.size());
    const bool whole = from == count;
    forward.assign(count, whole ? 0 : -1);
    gradient.assign(count, -1);
    if (!whole) forward[from] = 0;
    for (uint32_t s = whole ? 0 : from; s < count; ++s) {
      for (const Feed& feed : problem_.slots[s].inputs) {
        if (forward[feed.slot] < 0) continue;
        const double end = forward[feed.slot] + time(feed.slot, ActionKind::kForward, c);
        forward[s] = std::max(forward[s], end + feed.least[c]);
      }
    }
    for (uint32_t s = count; s-- > (whole ? 0 : from);) {
      if (forward[s] >= 0) gradient[s] = forward[s] + time(s, ActionKind::kForward, c);
      for (const Feed& feed : problem_.slots[s].gradients) {
        if (gradient[feed.slot] < 0) continue;
        gradient[s] = std::max(gradient[s], gradient[feed.slot] + gradient_time(feed.slot, c) + feed.least[c]);
      }
    }
  }

  ClassPaths of_class(uint32_t c) const {
    const auto count = static_cast<uint32_t>(problem_.slots.size());
    ClassPaths paths;
    starts(c, count, paths.forward, paths.gradient);
    paths.after.assign(count, 0);
    for (uint32_t s = 0; s < count; ++s) {  // in the order of stages: gradients go to earlier ones
      paths.after[s] = std::max(paths.after[s], weight_time(s, c) + problem_.slots[s].tail);
      for (const Feed& feed : problem_.slots[s].gradients) {
        double& source = paths.after[feed.slot];
        source = std::max(source, feed.least[c] + gradient_time(s, c) + paths.after[s]);
      }
    }
    for (uint32_t s = 0; s < count; ++s)
      paths.way = std::max(paths.way, paths.gradient[s] + gradient_time(s, c) + paths.after[s]);
    return paths;
  }

 private:
  const RowProblem& problem_;
  ActionKind gradient_;
};

/// Passes of equal time that hold equal bytes.
struct Held {
  double time = 0, count = 0;
  int64_t bytes = 0;
};

/// Most time of passes that together hold no more than `room`.
double most_time(std::vector<Held> passes, double room) {
  std::sort(passes.begin(), passes.end(), [](const Held& a, const Held& b) {
    return a.time * static_cast<double>(b.bytes) > b.time * static_cast<double>(a.bytes);
  });
  double time = 0;
  for (const Held& pass : passes) {
    double count = pass.count;
    if (pass.bytes > 0) {
      count = std::min(count, room / static_cast<double>(pass.bytes));
      room -= count * static_cast<double>(pass.bytes);
    }
    time += count * pass.time;
  }
  return time;
}

class Bounds {
 public:
  Bounds(const RowProblem& problem)
      : problem_(problem), dependencies_(*problem.shape), ways_(problem), least_(slot_paths(problem)) {
    counts_.assign(problem.classes, 0);
    for (const uint32_t c : problem.class_of) ++counts_[c];
    for (uint32_t k = problem.micro_batches; k-- > 0;) {
      if (example_.size() < problem.classes) example_.resize(problem.classes);
      example_[problem.class_of[k]] = k;
    }
  }

  RowBound best() {
    for (uint32_t c = 0; c < problem_.classes; ++c) raise(ways_.of_class(c).way, "way of one micro-batch");
    for (const Lane& lane : problem_.lanes) {
      for (const DeviceId device : lane.devices) of_device(lane, device);
    }
    best_.value *= 1 - 1e-12;
    return best_;
  }

 private:
  void raise(double value, std::string argument) {
    if (value > best_.value) best_ = {value, std::move(argument)};
  }

  int64_t samples(uint32_t s, DeviceId device, uint32_t c) const {
    const StageId stage = problem_.slots[s].stage;
    const auto replica = static_cast<size_t>(dependencies_.replica(stage, device));
    const size_t replicas = problem_.shape->stages[stage.index()].devices.size();
    return ir::replica_samples(problem_.shape->micro_batches[example_[c]], replica, replicas).size();
  }

  /// Least bytes that a micro-batch of the class holds on the device from F to B or W, and from I to W.
  struct Bytes {
    int64_t held = 0, waiting = 0;
  };
  Bytes bytes(uint32_t s, DeviceId device, uint32_t c) const {
    const ir::StageShape& stage = problem_.shape->stages[problem_.slots[s].stage.index()];
    const int64_t own = samples(s, device, c);
    int64_t twice = 0;
    for (const uint32_t route : dependencies_.routes_into(problem_.slots[s].stage)) {
      const ir::RouteShape& r = problem_.shape->routes[route];
      const bool kept = r.consumer_saves || r.consumer_keeps;
      if (kept && dependencies_.replica(r.producer, device) >= 0) twice += r.bytes_per_sample * own;
    }
    const int64_t saved = std::max<int64_t>(0, stage.saved_bytes * own - twice);
    const int64_t kept = stage.recompute ? std::max<int64_t>(0, stage.kept_bytes * own - twice) : saved;
    const int64_t waiting = saved + std::min<int64_t>(0, stage.pending_bytes * own);
    return {std::min({saved, kept, std::max<int64_t>(0, waiting)}), std::max<int64_t>(0, waiting)};
  }

  /// The way from the start of F to the start of I.
  double loop(uint32_t s, uint32_t c) {
    std::vector<double> forward, gradient;
    ways_.starts(c, s, forward, gradient);
    return gradient[s];
  }

  void of_device(const Lane& lane, DeviceId device) {
    Sums sums;
    const int64_t limit = problem_.shape->memory_bytes.empty() ? 0 : problem_.shape->memory_bytes[device.index()];
    int64_t fixed = 0;
    for (const uint32_t s : lane.slots) fixed += problem_.shape->stages[problem_.slots[s].stage.index()].fixed_bytes;
    const double room = limit > 0 ? static_cast<double>(limit - fixed) : kNever;
    for (const uint32_t s : lane.slots) add_slot(sums, s, device, limit > 0);
    by_work(sums, room, device);
    if (limit > 0) by_memory(sums, lane, room, device);
  }

  struct Sums {
    double first = kNever, gradient = kNever, after = kNever, quit = kNever;  ///< r, g, h, q
    double work = 0, finish = 0, area = 0;
    std::vector<Held> early, late;
    bool equal = true;
    int64_t unit = -1;
    double loop = 0, forward = 0;  ///< of the last slot
  };

  void add_slot(Sums& sums, uint32_t s, DeviceId device, bool limited) {
    const Slot& slot = problem_.slots[s];
    sums.first = std::min(sums.first, least_.forward[s]);
    sums.gradient = std::min(sums.gradient, least_.gradient[s]);
    sums.after = std::min(sums.after, least_.after[s]);
    sums.quit = std::min(sums.quit, slot.tail);
    sums.finish += slot.finish;
    bool begun = false;
    for (uint32_t c = 0; c < problem_.classes; ++c) {
      if (samples(s, device, c) == 0) continue;
      const double forward = ways_.time(s, ActionKind::kForward, c), way = limited || slot.recompute ? loop(s, c) : 0;
      const double backward = ways_.time(s, ActionKind::kBackward, c);
      const double rebuild = slot.recompute ? least_rebuild(s, c, way - forward) : 0;
      const double most_rebuild = slot.recompute ? ways_.time(s, ActionKind::kRecompute, c) : 0;
      const Bytes held = bytes(s, device, c);
      sums.work += counts_[c] * (forward + backward + rebuild);
      sums.early.push_back({forward + most_rebuild, counts_[c], held.held});
      if (problem_.parts == BackwardParts::kSplit)
        sums.late.push_back({ways_.weight_time(s, c), counts_[c], held.waiting});
      begun = true;
      if (!limited) continue;
      const double stay = way + backward;
      sums.area += counts_[c] * static_cast<double>(held.held) * stay;
      sums.equal &= sums.unit < 0 || sums.unit == held.held;
      sums.unit = held.held;
      sums.loop = stay;
      sums.forward = forward;
    }
    if (begun) {
      sums.work += slot.begin;
      sums.early.push_back({slot.begin, 1, 0});
    }
  }

  double least_rebuild(uint32_t s, uint32_t c, double idle) const {
    const double rebuild = ways_.time(s, ActionKind::kRecompute, c);
    return problem_.recomputed == ir::RecomputedMicroBatches::kAll          ? rebuild
           : problem_.recomputed == ir::RecomputedMicroBatches::kAllButLast ? rebuild * (counts_[c] - 1) / counts_[c]
                                                                            : std::min(rebuild, idle);
  }

  void by_work(const Sums& sums, double room, DeviceId device) {
    const double early = std::min(sums.gradient - sums.first, most_time(sums.early, room));
    const double late = std::min(sums.after, most_time(sums.late, room) + sums.finish);
    raise(sums.gradient + (sums.work + sums.finish - early - late) + sums.after,
          fmt::format("work of device {}", device.index()));
  }

  void by_memory(const Sums& sums, const Lane& lane, double room, DeviceId device) {
    if (sums.area <= 0 || room <= 0) return;
    const std::string argument = fmt::format("memory of device {}", device.index());
    const auto unit = static_cast<double>(sums.unit);
    const double whole = sums.equal && sums.unit > 0 ? std::floor(room / unit) * unit : room;
    if (whole <= 0) return;
    raise(sums.first + sums.area / whole + sums.quit, argument);
    if (lane.slots.size() > 1 || problem_.classes > 1) return;
    const double fit = std::min(whole / unit, static_cast<double>(problem_.micro_batches));
    const double rounds = std::floor((problem_.micro_batches - 1) / fit);
    const double rest = problem_.micro_batches - 1 - rounds * fit;
    raise(sums.first + rounds * sums.loop + rest * sums.forward + sums.loop + sums.quit, argument);
  }

  const RowProblem& problem_;
  const ir::Dependencies dependencies_;
  const Paths ways_;
  const SlotPaths least_;
  std::vector<double> counts_;     ///< micro-batches by class
  std::vector<uint32_t> example_;  ///< by class: a micro-batch of it
  RowBound best_;
};

}  // namespace

SlotPaths slot_paths(const RowProblem& problem) {
  const Paths ways(problem);
  SlotPaths least;
  for (uint32_t c = 0; c < problem.classes; ++c) {
    ClassPaths paths = ways.of_class(c);
    if (c == 0) {
      least = {std::move(paths.forward), std::move(paths.gradient), std::move(paths.after)};
      continue;
    }
    for (size_t s = 0; s < problem.slots.size(); ++s) {
      least.forward[s] = std::min(least.forward[s], paths.forward[s]);
      least.gradient[s] = std::min(least.gradient[s], paths.gradient[s]);
      least.after[s] = std::min(least.after[s], paths.after[s]);
    }
  }
  return least;
}

RowBound row_bound(const RowProblem& problem) { return Bounds(problem).best(); }

}  // namespace rannc::partition::found
