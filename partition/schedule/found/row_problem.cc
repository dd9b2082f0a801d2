#include "partition/schedule/found/row_problem.h"

#include <algorithm>
#include <map>

#include "ir/schedule/dependencies.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

class Builder {
 public:
  Builder(const ir::PipelineShape& shape, const ScheduleCosts& costs)
      : shape_(shape), costs_(costs), dependencies_(shape) {}

  RowProblem build() {
    problem_.shape = &shape_;
    problem_.micro_batches = shape_.micro_batch_count();
    classify();
    add_lanes();
    for (Slot& slot : problem_.slots) describe(slot);
    for (uint32_t s = 0; s < problem_.slots.size(); ++s) connect(s);
    return std::move(problem_);
  }

 private:
  /// Micro-batches of equal samples and size class form a class.
  void classify() {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;
    for (uint32_t k = 0; k < problem_.micro_batches; ++k) {
      const uint32_t size = costs_.size_class.empty() ? 0 : costs_.size_class[k];
      const auto [at, added] = known.emplace(std::pair(shape_.micro_batches[k], size), problem_.classes);
      if (added) {
        ++problem_.classes;
        example_.push_back(k);
      }
      problem_.class_of.push_back(at->second);
    }
  }

  void add_lanes() {
    std::map<std::vector<StageId>, uint32_t> lane_of;
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      const auto stages = dependencies_.stages_on(DeviceId(d));
      if (stages.empty()) continue;
      const auto [at, added] = lane_of.emplace(std::vector(stages.begin(), stages.end()), problem_.lanes.size());
      if (added) problem_.lanes.emplace_back();
      Lane& lane = problem_.lanes[at->second];
      lane.devices.push_back(DeviceId(d));
      const int64_t limit = shape_.memory_bytes.empty() ? 0 : shape_.memory_bytes[d];
      if (limit > 0) lane.limit = std::min(lane.limit, limit);
    }
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      for (const auto& [stages, lane] : lane_of) {
        if (std::find(stages.begin(), stages.end(), StageId(s)) == stages.end()) continue;
        problem_.lanes[lane].slots.push_back(static_cast<uint32_t>(problem_.slots.size()));
        problem_.lanes[lane].fixed_bytes += shape_.stages[s].fixed_bytes;
        Slot slot;
        slot.stage = StageId(s);
        slot.lane = lane;
        problem_.slots.push_back(std::move(slot));
      }
    }
  }

  /// Most samples of a micro-batch on a device of the slot.
  int64_t samples(const Slot& slot, uint32_t micro_batch) const {
    const size_t replicas = shape_.stages[slot.stage.index()].devices.size();
    int64_t most = 0;
    for (const DeviceId device : problem_.lanes[slot.lane].devices) {
      const auto replica = static_cast<size_t>(dependencies_.replica(slot.stage, device));
      most = std::max(most, ir::replica_samples(shape_.micro_batches[micro_batch], replica, replicas).size());
    }
    return most;
  }

  void describe(Slot& slot) const {
    const size_t s = slot.stage.index();
    const auto cost = [s](const std::vector<double>& costs) { return s < costs.size() ? costs[s] : 0; };
    slot.begin = cost(costs_.begin);
    slot.finish = cost(costs_.gradients) + cost(costs_.step);
    slot.tail = std::max(slot.finish, cost(costs_.step) + sum_time(slot.stage));
    if (ir::stage_kind(shape_.stages[s], ir::ActionClass::kGather)) slot.tail += cost(costs_.gather);
    slot.gradient_bytes = shape_.stages[s].gradient_bytes;
    slot.recompute = shape_.stages[s].recompute;
    for (const uint32_t k : example_) {
      slot.time.push_back(times(slot, k));
      slot.bytes.push_back(bytes(shape_.stages[s], samples(slot, k)));
    }
  }

  /// Time of the sums over replicas that lies after the last B or W.
  double sum_time(StageId stage) const {
    if (stage.index() >= costs_.all_reduce.size() || shape_.stages[stage.index()].devices.size() < 2) return 0;
    double time = 0, ahead = 0;
    for (const SumCost& sum : costs_.all_reduce[stage.index()]) {
      time += sum.duration;
      ahead = std::max(ahead, sum.ahead);
    }
    return std::max(0.0, time - ahead);
  }

  ByKind<double> times(const Slot& slot, uint32_t micro_batch) const {
    ByKind<double> result{};
    const size_t s = slot.stage.index();
    if (s >= costs_.compute.size() || costs_.compute[s].empty() || samples(slot, micro_batch) == 0) return result;
    const ComputeTimes& given = costs_.compute[s][costs_.size_class.empty() ? 0 : costs_.size_class[micro_batch]];
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (const ir::Pass pass : ir::kActionTraits[kind].passes) result[kind] += given.*time_of(pass);
    }
    return result;
  }

  static SlotBytes bytes(const ir::StageShape& stage, int64_t samples) {
    SlotBytes result{stage.saved_bytes * samples, stage.kept_bytes * samples, stage.pending_bytes * samples, {}, 0};
    const auto rise = [&](int64_t needed, int64_t kept) {
      return needed > 0 || stage.of_functions ? needed * samples
                                              : std::max<int64_t>(kept, 0) + stage.temporary_bytes * samples;
    };
    const auto known = [&](int64_t peak, int64_t unknown) { return peak > 0 || stage.of_functions ? peak : unknown; };
    result.passing = rise(stage.passing_bytes, result.kept);
    result.rise[index_of(ActionKind::kForward)] = rise(stage.forward_bytes, result.saved);
    result.rise[index_of(ActionKind::kBackward)] = rise(stage.backward_bytes, 0);
    result.rise[index_of(ActionKind::kInputGradient)] =
        rise(known(stage.input_bytes, stage.backward_bytes), result.pending);
    result.rise[index_of(ActionKind::kWeightGradient)] = rise(stage.weight_bytes, 0);
    result.rise[index_of(ActionKind::kRecompute)] =
        rise(known(stage.rebuild_bytes, stage.forward_bytes), result.saved - result.kept);
    return result;
  }

  double delay(DeviceId from, DeviceId to, uint32_t route, int64_t samples) const {
    if (from == to || !costs_.link) return 0;
    const LinkCost cost = costs_.link(from, to);
    return cost.latency + cost.per_byte * static_cast<double>(shape_.routes[route].bytes_per_sample * samples);
  }

  /// Adds a message to the feed of `from`, which is created if there is none.
  void feed(std::vector<Feed>& feeds, uint32_t from, uint32_t size_class, double delay) const {
    auto at = std::find_if(feeds.begin(), feeds.end(), [&](const Feed& one) { return one.slot == from; });
    if (at == feeds.end()) {
      feeds.push_back({from, std::vector<double>(problem_.classes, 0), std::vector<double>(problem_.classes, kNever)});
      at = feeds.end() - 1;
    }
    at->delay[size_class] = std::max(at->delay[size_class], delay);
    at->least[size_class] = std::min(at->least[size_class], delay);
  }

  uint32_t slot_on(StageId stage, DeviceId device) const {
    for (uint32_t s = 0; s < problem_.slots.size(); ++s) {
      if (problem_.slots[s].stage != stage) continue;
      const auto& devices = problem_.lanes[problem_.slots[s].lane].devices;
      if (std::find(devices.begin(), devices.end(), device) != devices.end()) return s;
    }
    RANNC_CHECK(false) << "stage " << stage.index() << " is not on device " << device.index();
    return 0;
  }

  void connect(uint32_t s) {
    Slot& slot = problem_.slots[s];
    for (uint32_t c = 0; c < problem_.classes; ++c) {
      for (const DeviceId device : problem_.lanes[slot.lane].devices) {
        for (const ActionKind kind : {ActionKind::kForward, ActionKind::kInputGradient}) {
          auto& feeds = kind == ActionKind::kForward ? slot.inputs : slot.gradients;
          dependencies_.each_producer(device, ir::compute_action(kind, slot.stage, example_[c]),
                                      [&](const ir::Message& m, const ir::Action& needed) {
                                        feed(feeds, slot_on(needed.stage, m.peer), c,
                                             delay(m.peer, device, m.route, m.samples.size()));
                                      });
        }
      }
    }
    for (auto* feeds : {&slot.inputs, &slot.gradients}) {
      for (Feed& one : *feeds) {
        for (double& least : one.least) least = least == kNever ? 0 : least;
        auto& back = feeds == &slot.inputs ? problem_.slots[one.slot].readers : problem_.slots[one.slot].sources;
        back.push_back(s);
      }
    }
  }

  const ir::PipelineShape& shape_;
  const ScheduleCosts& costs_;
  const ir::Dependencies dependencies_;
  std::vector<uint32_t> example_;  ///< by class: a micro-batch of it
  RowProblem problem_;
};

}  // namespace

RowProblem make_row_problem(const ir::PipelineShape& shape, const ScheduleCosts& costs, BackwardParts parts,
                            ir::RecomputedMicroBatches recomputed) {
  RowProblem problem = Builder(shape, costs).build();
  problem.parts = parts;
  problem.recomputed = recomputed;
  return problem;
}

}  // namespace rannc::partition::found
