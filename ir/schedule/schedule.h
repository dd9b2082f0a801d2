/// Schedules: the actions by which devices train one mini-batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"

namespace rannc::ir {

/// Memory that a pass over `samples` samples of a micro-batch needs.
struct PassBytes {
  int64_t samples = 0, bytes = 0;
  bool operator==(const PassBytes&) const = default;
};

/// Properties of a pipeline stage that schedules use. Bytes are those of one replica.
struct StageShape {
  std::vector<DeviceId> devices;  ///< replica r runs on devices[r]; distinct
  bool recompute = false;         ///< a forward pass may drop `saved` and redo it in an `R`
  int64_t fixed_bytes = 0;        ///< parameters, optimizer state, buffers, samples of the mini-batch: always held
  int64_t saved_bytes = 0;        ///< per sample: kept from F (or R) until B or W; includes received inputs
  int64_t kept_bytes = 0;         ///< per sample: kept from an F that an R repeats, until B or W
  int64_t pending_bytes = 0;      ///< per sample: change from I to W (needed by W minus freed by I); may be negative
  int64_t temporary_bytes = 0;    ///< per sample: only while an action of the stage runs
  int64_t gradient_bytes = 0;     ///< gradients of parameters: from the first B or W of the step on
  /// Per sample: peak bytes of an action above the memory in use before it, including all that it produces and keeps.
  /// 0: unknown, unless `of_functions`; the action then needs what it produces and keeps, and `temporary_bytes`.
  int64_t passing_bytes = 0;   ///< an F that an R repeats, or an F of inference
  int64_t forward_bytes = 0;   ///< any other F
  int64_t rebuild_bytes = 0;   ///< R; unknown: `forward_bytes`
  int64_t backward_bytes = 0;  ///< B
  int64_t input_bytes = 0;     ///< I; unknown: `backward_bytes`
  int64_t weight_bytes = 0;    ///< W
  /// A step's first B, including the gradient sums of parameters, which do not grow with samples. One entry per number
  /// of samples, larger ones first. Empty: like any other B.
  std::vector<PassBytes> first_backward;
  std::vector<PassBytes> first_weight;  ///< the same for a step's first W
  int64_t step_bytes = 0;               ///< while gradients are summed over replicas and the optimizer steps
  bool of_functions = false;            ///< passes are those of functions, which may do nothing: 0 bytes are 0
  bool sharded = false;  ///< each replica updates a share of the parameters: SC, U and AG instead of AR and S
  bool operator==(const StageShape&) const = default;
};

/// A value that one other stage reads. A value with two reading stages has two routes. `producer` < `consumer`.
struct RouteShape {
  StageId producer, consumer;
  int64_t bytes_per_sample = 0;  ///< of the activation; its gradient has the same size
  bool gradient = true;          ///< whether a gradient is sent back; never for integers and booleans
  /// Whether the value is part of what its producer saves, or of what it keeps for an R. A pending send then needs no
  /// further memory.
  bool saved = false, kept = false;
  /// The same of its consumer. A value between stages of one device that both keep is there once.
  bool consumer_saves = false, consumer_keeps = false;
  bool operator==(const RouteShape&) const = default;
};

/// A parameter that several stages hold. Their gradients are added before any of them steps.
struct SharedShape {
  std::vector<StageId> stages;  ///< owner first, the others ascending; distinct, two or more
  int64_t bytes = 0;
  bool operator==(const SharedShape&) const = default;
};

/// The view of a plan that schedules use. A device may hold several stages, and a stage may have several devices.
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

/// A chain of stages: stage i runs on device i, micro-batches have one sample, every stage saves one byte per sample.
PipelineShape chain_shape(uint32_t stages, uint32_t micro_batches);

/// The samples `[first, last)` of a micro-batch.
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
  kRecompute,          ///< R: repeat the forward pass to restore its saved values
  kSendActivation,     ///< SA: pass the samples that `peer` needs to the transport; does not wait for it
  kReceiveActivation,  ///< RA: post a receive buffer; the F that reads it waits
  kSendGradient,       ///< SG
  kReceiveGradient,    ///< RG: the B or I of the producing stage waits
  kAllReduce,          ///< AR: sum the stage's gradients over its replicas
  kReduceShared,       ///< RS: sum a shared parameter's gradients over all replicas of all its stages
  kStep,               ///< S: optimizer step of the stage's parameters, once its AR and RS are done
  kReduceScatter,      ///< SC: sum the stage's gradients over its replicas, each replica's share on that replica
  kUpdateShare,        ///< U: optimizer step of this replica's share, once its SC and RS are done
  kAllGather,          ///< AG: copy each replica's share of the updated parameters to the others
};
inline constexpr int kActionKinds = 15;

/// One entry of a device's row.
struct Action {
  static constexpr uint32_t kNone = 0xffffff;

  ActionKind kind = ActionKind::kForward;
  /// Sends and receives: index of the route. ReduceShared: index into `PipelineShape::shared`. Else kNone.
  uint32_t route : 24 = kNone;
  /// The acting stage. Sends and receives: the stage on this device, i.e. the route's producer for SA and RG, its
  /// consumer for RA and SG. ReduceShared: the group's first stage on this device.
  StageId stage;
  uint32_t micro_batch = 0;  ///< 0 for AR, RS, S, SC, U and AG
  DeviceId peer;             ///< sends and receives: the other device

  bool operator==(const Action&) const = default;
};
static_assert(sizeof(Action) == 16, "schedules of 4,096 devices x 1,024 micro-batches stay below a gigabyte");

Action compute_action(ActionKind kind, StageId stage, uint32_t micro_batch);
/// SA, RA, SG or RG of `route` on the device whose other end is `peer`. Fills in the acting stage.
Action transfer_action(const PipelineShape& shape, ActionKind kind, uint32_t route, uint32_t micro_batch,
                       DeviceId peer);
/// AR, S, SC, U or AG of a stage.
Action stage_action(ActionKind kind, StageId stage);
/// RS of a group on a device that holds at least one of its stages.
Action reduce_shared_action(const PipelineShape& shape, uint32_t group, DeviceId device);

bool is_compute(ActionKind kind);     ///< F B I W R
bool is_send(ActionKind kind);        ///< SA SG
bool is_receive(ActionKind kind);     ///< RA RG
bool is_collective(ActionKind kind);  ///< AR RS SC AG
bool is_update(ActionKind kind);      ///< S U
/// Whether it is an action of a whole stage: AR S SC U AG.
bool is_of_stage(ActionKind kind);
/// AR of a stage, or SC if it is sharded.
ActionKind reduction_kind(const StageShape& stage);
/// S of a stage, or U if it is sharded.
ActionKind update_kind(const StageShape& stage);
std::string_view letters(ActionKind kind);

/// The ordered actions of each device. *Compute-only* schedules, written by generators, contain only F, B, I, W and R.
/// *Lowered* schedules, run by executors, also contain every transfer, collective and step.
struct Schedule {
  std::string name;                       ///< the generator's name, `1f1b`; a word
  std::vector<std::vector<Action>> rows;  ///< by device
  /// Weights change between micro-batches (asynchronous schedules). For comparison only, never run.
  bool changes_numbers = false;
  /// Rows are lowered; set by `lower_schedule`. Actions do not determine it: one stage without gradients sends nothing.
  bool lowered = false;

  bool operator==(const Schedule&) const = default;
};

/// `F2.0` (stage.micro-batch), `SA5.0>d1` and `RA5.0<d0` (route.micro-batch), `AR2`, `S2`, `SC2`, `U2`, `AG2` (stage),
/// `RS0` (group).
std::string to_string(const Action& action);

/// Prints a line `schedule <name>[ asynchronous][ lowered]`, then a line `d<device>: <actions>` per device.
std::string print_schedule(const Schedule& schedule);

/// Parses the output of `print_schedule` and hand-written tables. Tables may have `#` comments, list devices in any
/// order, omit the letter d, and write `F0` for a device that holds one stage of `shape`. Stages of sends, receives and
/// RS come from `shape`. Rows with a transfer, collective or step are lowered with or without the word.
Result<Schedule> parse_schedule(std::string_view text, const PipelineShape& shape, const std::string& file = {});

/// Prints compute actions only, one line per device: `1: F0 B0` for a device that holds one stage, else `1: F1.0 F3.0`.
std::string print_compute_rows(const Schedule& schedule);

/// Digest of rows, name and flags: 16 hexadecimal digits.
std::string digest(const Schedule& schedule);

}  // namespace rannc::ir
