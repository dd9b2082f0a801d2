/// Simulates the timeline and the memory of a schedule with given durations.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::partition {

/// Times of one stage for one replica's share of one micro-batch, in any unit. B takes I + W.
struct ComputeTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0, recompute = 0;
};

/// The member that holds the time of a pass.
constexpr double ComputeTimes::*time_of(ir::Pass pass) {
  constexpr double ComputeTimes::*kTimes[ir::kPasses] = {&ComputeTimes::forward, &ComputeTimes::recompute,
                                                         &ComputeTimes::input_gradient, &ComputeTimes::weight_gradient};
  return kTimes[static_cast<size_t>(pass)];
}

/// Cost of a message: `per_byte` on the wire, and `latency` after its last byte has left.
struct LinkCost {
  double latency = 0, per_byte = 0;
};

/// A resource that a message occupies, and the part of its time on the wire.
struct Hold {
  uint32_t resource = 0;
  double share = 1;
};

/// A sum of gradients over the replicas of a stage.
struct SumCost {
  double duration = 0;
  /// From the mark to the end of the stage's last B or W on a device. At its mark the gradients of a sum are final, and
  /// the device joins it. A mark never precedes the start of that B or W. 0: the device joins when its row reaches the
  /// sum, after E.
  double ahead = 0;
};

/// All durations. Empty parts cost nothing.
struct ScheduleCosts {
  /// [stage][size class]: time is not linear in a micro-batch's size.
  std::vector<std::vector<ComputeTimes>> compute;
  std::vector<uint32_t> size_class;              ///< of each micro-batch; empty: all 0
  std::vector<std::vector<SumCost>> all_reduce;  ///< [stage][bucket]: AR or SC
  std::vector<double> shared;                    ///< by group of a shared parameter
  std::vector<double> step;                      ///< S or U by stage
  std::vector<double> gather;                    ///< AG by stage, after all replicas have joined
  std::vector<double> begin;                     ///< P by stage, before its first forward pass on a device
  std::vector<double> gradients;                 ///< E by stage, before its gradients are reduced or its step
  std::function<LinkCost(DeviceId from, DeviceId to)> link;
  /// Shared resources that a message occupies exclusively, as dense numbers (ports, switches, buses). Empty: the
  /// sender's outgoing and the receiver's incoming port. A collective occupies those of a ring through its members.
  std::function<std::vector<Hold>(DeviceId from, DeviceId to)> resources;
};

struct SimulationOptions {
  bool contention = false;  ///< messages and collectives wait for their `resources`, first come, first served
  bool overlap = true;      ///< false: a send occupies its device until the message has arrived
  /// Rendezvous: sends, receives and collectives block their devices until they end (lowered rows only). A completed
  /// run proves that no order of events can deadlock, because no action chooses between partners.
  bool blocking = false;
  bool step_barrier = false;  ///< no step before every gradient is reduced on every device (clipping by a global norm)
  bool memory = true;         ///< fill `peak_bytes`
  bool spans = true;          ///< fill `spans`, and `period` from them
  /// Skips periods of the steady state (`steady_state.h`); times are unchanged. Requires `contention` and no `spans`.
  /// Periods are detected if times are exact: see `grain`.
  bool skip_periods = false;
  /// Every duration is rounded to a multiple of this power of two; 0: no rounding. If all times stay below 2^53 grains,
  /// sums are exact, so equal states have equal numbers.
  double grain = 0;
};

struct Span {
  double start = 0, end = 0;
};

struct DeviceTimeline {
  double busy = 0;             ///< P F B I W R E and steps
  double first = 0, last = 0;  ///< start of the first and end of the last of these
  int64_t peak_bytes = 0;
};

struct Timeline {
  /// By device and action. A send lasts until its message has arrived. A receive lasts from its posting until then, or
  /// takes no time if the message is already there. Collectives wait for their last member, for the sum of the same
  /// stage before them, and for their resources.
  std::vector<std::vector<Span>> spans;
  std::vector<DeviceTimeline> devices;
  double makespan = 0;
  /// Mean time between micro-batches that leave stage 0 backward (in inference: the last stage), over the middle half.
  double period = 0;
  /// Idle part of devices * makespan, 0…1. Devices without a stage do not count.
  double bubble = 0;
  uint64_t simulated = 0;  ///< actions simulated individually: all, unless periods were skipped
};

/// Simulates the schedule: each row in order, each action as early as `ir::Dependencies` allows. Transfers overlap
/// computation and start when their send is reached. Receives are posted early and delay only the action that reads
/// them. Compute-only rows send at the end of each computation and have no collectives or steps.
///
/// Near-linear in actions without contention; with contention a factor log(devices) more. Deterministic; ties go to the
/// smaller device. Fails with S6 if rows deadlock, with buffered transfers, or with rendezvous if `blocking` is set.
Result<Timeline> simulate(const ir::PipelineShape& shape, const ir::Schedule& schedule, const ScheduleCosts& costs,
                          const SimulationOptions& options = {});

/// Rounds `time` as `SimulationOptions::grain` describes.
inline double in_grains(double time, double grain) { return grain > 0 ? std::nearbyint(time / grain) * grain : time; }

/// Returns costs with equal times on all stages and one latency on every link.
ScheduleCosts uniform_costs(const ir::PipelineShape& shape, ComputeTimes times, double latency = 0);

/// Idle time between the start of a device's first and the end of its last action: what is lost when every stage steps
/// at its own time.
double inner_idle(const DeviceTimeline& device);

/// Mean time between the ends of the backward passes of two micro-batches on stage 0. This is the exact period of a
/// periodic schedule if both lie in its steady state, a multiple of its pattern apart.
double period_between(const ir::Schedule& schedule, const Timeline& timeline, uint32_t first, uint32_t last);

}  // namespace rannc::partition
