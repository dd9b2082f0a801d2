/// Timeline and memory of a schedule under given durations.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::partition {

/// Times of one stage for one replica's share of one micro-batch, in any one unit. B takes I + W.
struct ComputeTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0, recompute = 0;
};

/// What a message costs: `latency` after its last byte has left, `per_byte` on the wire.
struct LinkCost {
  double latency = 0, per_byte = 0;
};

/// What a message occupies, and for which part of its time on the wire.
struct Hold {
  uint32_t resource = 0;
  double share = 1;
};

/// Everything that takes time. Empty parts cost nothing.
struct ScheduleCosts {
  /// [stage][size class]: time is not linear in a micro-batch's size.
  std::vector<std::vector<ComputeTimes>> compute;
  std::vector<uint32_t> size_class;  ///< of each micro-batch; empty: all 0
  std::vector<double> all_reduce;    ///< by stage, once all replicas have joined
  std::vector<double> shared;        ///< by group of a shared parameter
  std::vector<double> step;          ///< by stage
  std::function<LinkCost(DeviceId from, DeviceId to)> link;
  /// Shared things that a message occupies one at a time, as dense numbers (ports, switches, buses).
  /// Empty: the sender's outgoing and the receiver's incoming port.
  std::function<std::vector<Hold>(DeviceId from, DeviceId to)> resources;
};

struct SimulationOptions {
  bool contention = false;  ///< messages wait for their `resources`, first come first served
  bool overlap = true;      ///< false: a send occupies its device until the message has arrived
  /// Rendezvous: sends, receives and collectives hold their devices until they are over (lowered rows only). A run that
  /// ends proves that no order of events can deadlock, since no action chooses between partners.
  bool blocking = false;
  bool step_barrier = false;  ///< no step before every gradient is reduced everywhere (clipping by a global norm)
  bool memory = true;         ///< fill `peak_bytes`
  bool spans = true;          ///< fill `spans`, and `period` from them
  /// Leave out periods of the steady part (`steady_state.h`): the same times, `contention` and no `spans` given.
  /// Periods are recognised where times are exact: see `grain`.
  bool skip_periods = false;
  /// Every duration is rounded to a multiple of this power of two, 0: none. Where all times stay below 2^53 grains,
  /// sums are exact, so that equal states have equal numbers.
  double grain = 0;
};

struct Span {
  double start = 0, end = 0;
};

struct DeviceTimeline {
  double busy = 0;             ///< F B I W R and steps
  double first = 0, last = 0;  ///< start of the first, end of the last of these
  int64_t peak_bytes = 0;
};

struct Timeline {
  /// By device and action. A send lasts until its message has arrived, a receive from its posting until then (or ends
  /// where it starts, if the message was there); collectives from the last member's joining.
  std::vector<std::vector<Span>> spans;
  std::vector<DeviceTimeline> devices;
  double makespan = 0;
  /// Mean time between micro-batches leaving stage 0 backward (in inference: the last stage) over the middle half.
  double period = 0;
  /// Idle part of devices x makespan, 0…1; devices without a stage do not count.
  double bubble = 0;
  uint64_t simulated = 0;  ///< actions that were run one by one; all of them unless periods were left out
};

/// Runs the schedule: rows in order, each action as early as `ir::Dependencies` lets it. Transfers run beside
/// computation and start when their send is reached; receives are posted early and hold up only the action that reads
/// them. Compute-only rows send at the end of each computation and have no collectives or steps.
///
/// Without contention near-linear in actions; with contention a factor log(devices) more. Deterministic; ties go to the
/// smaller device. Fails with S6 where rows wait for each other for ever: with buffered transfers, or under rendezvous
/// where `blocking` is set.
Result<Timeline> simulate(const ir::PipelineShape& shape, const ir::Schedule& schedule, const ScheduleCosts& costs,
                          const SimulationOptions& options = {});

/// `time` as `SimulationOptions::grain` has it.
inline double in_grains(double time, double grain) { return grain > 0 ? std::nearbyint(time / grain) * grain : time; }

/// Costs with equal times on all stages, and one latency on every link.
ScheduleCosts uniform_costs(const ir::PipelineShape& shape, ComputeTimes times, double latency = 0);

/// Idle time inside a device's own first-to-last span: what is lost when every stage steps at its own time.
double inner_idle(const DeviceTimeline& device);

/// Mean time between the ends of the backward passes of two micro-batches on stage 0: the exact period of a periodic
/// schedule when both lie in its steady part, a multiple of its pattern apart.
double period_between(const ir::Schedule& schedule, const Timeline& timeline, uint32_t first, uint32_t last);

}  // namespace rannc::partition
