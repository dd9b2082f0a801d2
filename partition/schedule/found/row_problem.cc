#include "partition/schedule/found/row_problem.h"

#include <algorithm>
#include <map>

#include "ir/schedule/dependencies.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

class Builder {
 public:
  Builder(const ir::PipelineShape& shape, const ScheduleCosts& costs, bool contention)
      : shape_(shape), costs_(costs), contention_(contention), dependencies_(shape) {}

  RowProblem build() {
    problem_.shape = &shape_;
    problem_.micro_batches = shape_.micro_batch_count();
    classify();
    add_lanes();
    for (Slot& slot : problem_.slots) describe(slot);
    for (uint32_t s = 0; s < problem_.slots.size(); ++s) connect(s);
    for (Slot& slot : problem_.slots) sort_readers(slot);
    if (!occupied_) problem_.resources = 0;
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
    const auto rise = [&](const ir::ComputeMemory& memory, int64_t kept) {
      const ir::SizedBytes& peak = memory.of(stage.peaks.usual);
      if (peak.empty()) return std::max<int64_t>(kept, 0) + stage.temporary_bytes * samples;
      return samples == 0 ? 0 : bytes_at(peak, samples);
    };
    result.passing = rise(ir::kRepeatedForward, result.kept);
    const auto set = [&](ActionKind kind, int64_t kept) {
      result.rise[index_of(kind)] = rise(ir::traits(kind).memory, kept);
    };
    set(ActionKind::kForward, result.saved);
    set(ActionKind::kBackward, 0);
    set(ActionKind::kInputGradient, result.pending);
    set(ActionKind::kWeightGradient, 0);
    set(ActionKind::kRecompute, result.saved - result.kept);
    return result;
  }

  /// Messages that a device reads from another for one pass, all together.
  struct Traffic {
    double latency = 0, wire = 0, longest = 0;  ///< `longest`: one message alone
    uint32_t route = std::numeric_limits<uint32_t>::max();
  };
  using Traffics = std::map<std::pair<DeviceId, uint32_t>, Traffic>;  ///< by peer and its slot

  void add(Traffics& traffics, const ir::Message& m, uint32_t slot, DeviceId to) const {
    Traffic& traffic = traffics[{m.peer, slot}];
    traffic.route = std::min(traffic.route, m.route);
    if (m.peer == to || !costs_.link) return;
    const LinkCost cost = costs_.link(m.peer, to);
    const double wire = cost.per_byte * static_cast<double>(shape_.routes[m.route].bytes_per_sample * m.samples.size());
    traffic.latency = cost.latency;
    traffic.wire += wire;
    traffic.longest = std::max(traffic.longest, wire);
  }

  /// Merges what a device reads into the feeds of its slot.
  void merge(std::vector<Feed>& feeds, const Traffics& traffics, uint32_t size_class, DeviceId to) {
    for (const auto& [from, traffic] : traffics) {
      Feed& feed = feed_of(feeds, from.second, traffic.route);
      const bool ports = contention_ && costs_.link && from.first != to;  // an empty message waits, too
      occupied_ |= ports && traffic.wire > 0;
      const double delay = traffic.latency + (ports ? traffic.wire : traffic.longest);
      feed.least[size_class] = std::min(feed.least[size_class], traffic.latency + traffic.longest);
      if (delay < feed.delay[size_class]) continue;
      feed.delay[size_class] = delay;
      feed.wire[size_class] = traffic.wire;
      if (!ports) continue;
      feed.holds = costs_.resources ? costs_.resources(from.first, to)
                                    : std::vector<Hold>{{2 * from.first.index()}, {2 * to.index() + 1}};
      for (const Hold& hold : feed.holds) problem_.resources = std::max(problem_.resources, hold.resource + 1);
    }
  }

  Feed& feed_of(std::vector<Feed>& feeds, uint32_t slot, uint32_t route) {
    const auto at = std::find_if(feeds.begin(), feeds.end(), [&](const Feed& one) { return one.slot == slot; });
    if (at != feeds.end()) return *at;
    const std::vector<double> none(problem_.classes, 0);
    feeds.push_back({slot, problem_.feeds++, route, none, std::vector<double>(problem_.classes, kNever), none, {}});
    return feeds.back();
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
          Traffics traffics;
          dependencies_.each_producer(device, ir::compute_action(kind, slot.stage, example_[c]),
                                      [&](const ir::Message& m, const ir::Action& needed) {
                                        add(traffics, m, slot_on(needed.stage, m.peer), device);
                                      });
          merge(kind == ActionKind::kForward ? slot.inputs : slot.gradients, traffics, c, device);
        }
      }
    }
    for (auto* feeds : {&slot.inputs, &slot.gradients}) {
      for (uint32_t i = 0; i < feeds->size(); ++i) {
        Feed& one = (*feeds)[i];
        for (double& least : one.least) least = least == kNever ? 0 : least;
        Slot& source = problem_.slots[one.slot];
        (feeds == &slot.inputs ? source.readers : source.sources).push_back({s, i});
      }
    }
  }

  /// Messages are sent in the order of routes.
  void sort_readers(Slot& slot) const {
    const auto sort = [&](std::vector<Reader>& readers, std::vector<Feed> Slot::*feeds) {
      const auto route = [&](const Reader& reader) { return (problem_.slots[reader.slot].*feeds)[reader.feed].route; };
      std::stable_sort(readers.begin(), readers.end(),
                       [&](const Reader& a, const Reader& b) { return route(a) < route(b); });
    };
    sort(slot.readers, &Slot::inputs);
    sort(slot.sources, &Slot::gradients);
  }

  const ir::PipelineShape& shape_;
  const ScheduleCosts& costs_;
  const bool contention_;
  const ir::Dependencies dependencies_;
  std::vector<uint32_t> example_;  ///< by class: a micro-batch of it
  bool occupied_ = false;          ///< some message takes time on a wire, under contention
  RowProblem problem_;
};

}  // namespace

RowProblem make_row_problem(const ir::PipelineShape& shape, const ScheduleCosts& costs, BackwardParts parts,
                            ir::RecomputedMicroBatches recomputed, const SimulationOptions& options) {
  RowProblem problem = Builder(shape, costs, options.contention).build();
  problem.parts = parts;
  problem.recomputed = recomputed;
  return problem;
}

}  // namespace rannc::partition::found
