/// The table of actions by which devices train one mini-batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"

namespace rannc::ir {

/// What a pass over a share of a micro-batch needs.
struct PassBytes {
  int64_t samples = 0, bytes = 0;
  bool operator==(const PassBytes&) const = default;
};

/// One pipeline stage as a schedule sees it. Bytes are those of one replica.
struct StageShape {
  std::vector<DeviceId> devices;  ///< replica r runs on devices[r]; distinct
  bool recompute = false;         ///< a forward pass may drop `saved` and redo it in an `R`
  int64_t fixed_bytes = 0;        ///< parameters, optimizer state, buffers, samples of the mini-batch: always there
  int64_t saved_bytes = 0;        ///< per sample: kept from F (or R) until B or W; includes received inputs
  int64_t kept_bytes = 0;         ///< per sample: kept from an F whose work an R repeats, until B or W
  int64_t pending_bytes = 0;      ///< per sample: change from I to W (what W needs less what I frees); may be negative
  int64_t temporary_bytes = 0;    ///< per sample: only while an action of the stage runs
  bool keeps_results = false;     ///< `saved` includes what is sent: it takes no more until it has left
  int64_t gradient_bytes = 0;     ///< gradients of parameters: from the first B or W of the step on
  /// Per sample: what an action needs at most beyond what was there before it, all that it makes and keeps included;
  /// 0: not known, then it needs what it makes and keeps, and `temporary_bytes`.
  int64_t passing_bytes = 0;   ///< an F whose work an R repeats, or of inference
  int64_t forward_bytes = 0;   ///< any other F, and R
  int64_t backward_bytes = 0;  ///< B, and I
  /// A step's first B, the sums of parameters' gradients included, which do not grow with samples: by share, larger
  /// ones first. Empty: as the others.
  std::vector<PassBytes> first_backward;
  int64_t step_bytes = 0;  ///< while gradients are summed over replicas, and the optimizer steps
  bool operator==(const StageShape&) const = default;
};

/// A value that one other stage reads: a value with two reading stages makes two routes. `producer` < `consumer`.
struct RouteShape {
  StageId producer, consumer;
  int64_t bytes_per_sample = 0;  ///< of the activation; its gradient has the same size
  bool gradient = true;          ///< whether a gradient comes back; never for integers and booleans
  bool operator==(const RouteShape&) const = default;
};

/// A parameter that several stages hold; the gradients of all are added before any of them steps.
struct SharedShape {
  std::vector<StageId> stages;  ///< owner first, the others ascending; distinct, two or more
  int64_t bytes = 0;
  bool operator==(const SharedShape&) const = default;
};

/// What a schedule has to know of a plan. A device may hold several stages, a stage several devices.
struct PipelineShape {
  std::vector<StageShape> stages;  ///< in topological order
  std::vector<RouteShape> routes;
  std::vector<SharedShape> shared;
  std::vector<uint32_t> micro_batches;  ///< samples of each
  uint32_t devices = 0;
  std::vector<int64_t> memory_bytes;  ///< limit of each device, 0: none; may be empty: none anywhere
  bool training = true;               ///< false: forward only

  uint32_t micro_batch_count() const { return static_cast<uint32_t>(micro_batches.size()); }
  bool operator==(const PipelineShape&) const = default;
};

/// A chain of stages, stage i on device i, micro-batches of one sample, every stage saving one byte per sample.
PipelineShape chain_shape(uint32_t stages, uint32_t micro_batches);

/// `[first, last)` of a micro-batch's samples.
struct SampleRange {
  int64_t first = 0, last = 0;
  bool empty() const { return first >= last; }
  int64_t size() const { return last - first; }
};

/// Samples of replica r of n in a micro-batch of b: [⌊b·r/n⌋, ⌊b·(r+1)/n⌋).
inline SampleRange replica_samples(int64_t samples, size_t replica, size_t replicas) {
  if (replicas == 1) return {0, samples};
  const auto r = static_cast<int64_t>(replica), n = static_cast<int64_t>(replicas);
  return {samples * r / n, samples * (r + 1) / n};
}

/// The replica whose range contains a sample.
inline size_t sample_owner(int64_t samples, int64_t sample, size_t replicas) {
  return replicas == 1 ? 0 : static_cast<size_t>(((sample + 1) * static_cast<int64_t>(replicas) - 1) / samples);
}

enum class ActionKind : uint8_t {
  kForward,            ///< F: run the stage
  kBackward,           ///< B: I and W in one
  kInputGradient,      ///< I: gradients of the stage's inputs
  kWeightGradient,     ///< W: gradients of the stage's parameters, added to the accumulators
  kRecompute,          ///< R: the forward pass again, to rebuild what it saved
  kSendActivation,     ///< SA: hand the samples that `peer` needs to the transport; does not wait for it
  kReceiveActivation,  ///< RA: offer a buffer; the F that reads it waits
  kSendGradient,       ///< SG
  kReceiveGradient,    ///< RG: the B or I of the producing stage waits
  kAllReduce,          ///< AR: sum the stage's gradients over its replicas
  kReduceShared,       ///< RS: sum a shared parameter's gradients over all replicas of all its stages
  kStep,               ///< S: optimizer step of the stage's parameters, once its AR and RS are done
};
inline constexpr int kActionKinds = 12;

/// One entry of a device's row.
struct Action {
  static constexpr uint32_t kNone = 0xffffff;

  ActionKind kind = ActionKind::kForward;
  /// Sends and receives: index of the route. ReduceShared: index into `PipelineShape::shared`. Else kNone.
  uint32_t route : 24 = kNone;
  /// The stage that acts: for a send or receive the one on this device, i.e. SA and RG the producer, RA and SG the
  /// consumer of the route. ReduceShared: the group's first stage on this device.
  StageId stage;
  uint32_t micro_batch = 0;  ///< 0 for AR, RS and S
  DeviceId peer;             ///< sends and receives: the other device

  bool operator==(const Action&) const = default;
};
static_assert(sizeof(Action) == 16, "schedules of 4,096 devices x 1,024 micro-batches stay below a gigabyte");

Action compute_action(ActionKind kind, StageId stage, uint32_t micro_batch);
/// SA, RA, SG or RG of `route`, as seen from the device whose other end is `peer`; fills in the acting stage.
Action transfer_action(const PipelineShape& shape, ActionKind kind, uint32_t route, uint32_t micro_batch,
                       DeviceId peer);
/// AR or S of a stage.
Action stage_action(ActionKind kind, StageId stage);
/// RS of a group on a device that holds at least one of its stages.
Action reduce_shared_action(const PipelineShape& shape, uint32_t group, DeviceId device);

bool is_compute(ActionKind kind);     ///< F B I W R
bool is_send(ActionKind kind);        ///< SA SG
bool is_receive(ActionKind kind);     ///< RA RG
bool is_collective(ActionKind kind);  ///< AR RS
std::string_view letters(ActionKind kind);

/// Per device, what it does in order. *Compute-only* schedules (what generators write) have F, B, I, W and R alone;
/// *lowered* ones (what executors walk) have every transfer, collective and step too.
struct Schedule {
  std::string name;                       ///< the generator's name, `1f1b`; a word
  std::vector<std::vector<Action>> rows;  ///< by device
  /// Weights change between the micro-batches (asynchronous schedules): for comparison only, never run.
  bool changes_numbers = false;
  /// Rows are lowered; set by `lower_schedule`. Actions alone do not tell: one stage without gradients sends nothing.
  bool lowered = false;

  bool operator==(const Schedule&) const = default;
};

/// `F2.0` (stage.micro-batch), `SA5.0>d1` and `RA5.0<d0` (route.micro-batch), `AR2`, `S2` (stage), `RS0` (group).
std::string to_string(const Action& action);

/// A line `schedule <name>[ asynchronous][ lowered]`, then a line `d<device>: <actions>` per device.
std::string print_schedule(const Schedule& schedule);

/// Reads what `print_schedule` writes, and tables by hand: `#` comments, devices in any order, the letter d left out,
/// `F0` where the device holds one stage of `shape`. Stages of sends, receives and RS come from `shape`. Rows with a
/// transfer, collective or step are lowered with or without the word.
Result<Schedule> parse_schedule(std::string_view text, const PipelineShape& shape, const std::string& file = {});

/// Compute actions only, a line per device: `1: F0 B0` where a device holds one stage, else `1: F1.0 F3.0`.
std::string print_compute_rows(const Schedule& schedule);

/// 16 hexadecimal digits over rows, name and flags.
std::string digest(const Schedule& schedule);

}  // namespace rannc::ir
