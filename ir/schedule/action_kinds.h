/// The table of action kinds: one row holds what text, dependencies, memory, prices, verifiers and reports read of a
/// kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/schedule/pipeline_shape.h"

namespace rannc::ir {

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
  kAllReduce,          ///< AR: sum a bucket of the stage's gradients over its replicas; S waits for its end
  kReduceShared,       ///< RS: sum a shared parameter's gradients over all replicas of all its stages
  kStep,               ///< S: optimizer step of the stage's parameters, once its AR and RS are done
  kReduceScatter,      ///< SC: the same, each replica's share on that replica
  kUpdateShare,        ///< U: optimizer step of this replica's share, once its SC and RS are done
  kAllGather,          ///< AG: copy each replica's share of the updated parameters to the others
  kEnd,                ///< number of kinds
};
inline constexpr int kActionKinds = static_cast<int>(ActionKind::kEnd);

/// What carries out an action.
enum class ActionClass : uint8_t { kCompute, kSend, kReceive, kReduce, kGather, kUpdate };

/// What an action is about, which its text names.
enum class ActionScope : uint8_t {
  kMicroBatch,  ///< of a stage: `F2.0`
  kActivation,  ///< a message from a route's producer to its consumer, with a peer: `SA5.0>d1`, `RA5.0<d0`
  kGradient,    ///< a message from a route's consumer to its producer
  kStage,       ///< all micro-batches of a stage: `AR2`, or one of its buckets: `AR2.1`
  kGroup,       ///< all stages that share a parameter: `RS0`
};

/// Parts of the work of a stage and micro-batch. In training, each but `kRebuild` must be computed exactly once.
enum class Pass : uint8_t { kForward, kRebuild, kInputGradient, kWeightGradient };
inline constexpr size_t kPasses = 4;

/// Stages for which a lowered training schedule must have an action of a whole stage, once per replica.
enum class ActingStages : uint8_t { kAll, kWhole, kSharded };

/// What a computation needs and keeps.
struct ComputeMemory {
  using Bytes = int64_t StageShape::*;           ///< per sample; null: 0
  ProgramKind peak = ProgramKind::kEnd;          ///< the program that runs; E: it is no computation
  ProgramKind unknown_peak = peak;               ///< in place of `peak`, if that is unknown
  Bytes keeps = nullptr, kept_before = nullptr;  ///< from here until B or W it keeps `keeps` - `kept_before` more

  /// Peak of a usual run; empty: unknown.
  const SizedBytes& of(const ByProgram<SizedBytes>& usual) const {
    return usual[usual[peak].empty() ? unknown_peak : peak];
  }
};

/// Of an F that an R repeats.
inline constexpr ComputeMemory kRepeatedForward{
    .peak = ProgramKind::kBegin, .unknown_peak = ProgramKind::kEvaluate, .keeps = &StageShape::kept_bytes};

/// A list of at most N items.
template <class Item, size_t N>
class ShortList {
 public:
  constexpr ShortList() = default;
  constexpr ShortList(std::initializer_list<Item> items) : size_(items.size()) {
    std::copy(items.begin(), items.end(), items_.begin());
  }
  constexpr const Item* begin() const { return items_.data(); }
  constexpr const Item* end() const { return items_.data() + size_; }
  constexpr size_t size() const { return size_; }
  constexpr bool contains(Item item) const { return std::find(begin(), end(), item) != end(); }

 private:
  std::array<Item, N> items_{};
  size_t size_ = 0;
};

/// A row of the table.
struct ActionTraits {
  ActionKind kind;
  std::string_view letters;  ///< in the text of schedules
  std::string_view words;    ///< for people
  ActionClass action_class;
  ActionScope scope;
  /// Kinds that must be done before, in the order of reports. Computations: of the same stage and micro-batch, or of
  /// all micro-batches for an action of stages; I and W may be part of a B. Sends: of the peer. Receives: of every
  /// message that is read. Others: of the same stage, where it has them. `Dependencies::each` derives the actions.
  ShortList<ActionKind, 3> needs;
  ShortList<Pass, 2> passes = {};  ///< of a computation, which takes the time of all of them
  ComputeMemory memory = {};
  ActingStages stages = ActingStages::kAll;
};

// clang-format off
/// By kind.
inline constexpr std::array<ActionTraits, kActionKinds> kActionTraits = [] {
  using enum ActionKind;
  using enum ActionClass;
  using enum ActionScope;
  using Stage = StageShape;
  return std::array<ActionTraits, kActionKinds>{{
      {kForward, "F", "forward", kCompute, kMicroBatch, {kReceiveActivation}, {Pass::kForward},
       {.peak = ProgramKind::kForward, .keeps = &Stage::saved_bytes}},
      {kBackward, "B", "backward", kCompute, kMicroBatch, {kForward, kReceiveGradient},
       {Pass::kInputGradient, Pass::kWeightGradient},
       {.peak = ProgramKind::kBackward}},
      {kInputGradient, "I", "input gradient", kCompute, kMicroBatch, {kForward, kReceiveGradient},
       {Pass::kInputGradient},
       {.peak = ProgramKind::kInput, .unknown_peak = ProgramKind::kBackward, .keeps = &Stage::pending_bytes}},
      {kWeightGradient, "W", "weight gradient", kCompute, kMicroBatch, {kInputGradient}, {Pass::kWeightGradient},
       {.peak = ProgramKind::kWeight}},
      {kRecompute, "R", "recompute", kCompute, kMicroBatch, {kForward}, {Pass::kRebuild},
       {.peak = ProgramKind::kRebuild, .unknown_peak = ProgramKind::kForward,
        .keeps = &Stage::saved_bytes, .kept_before = &Stage::kept_bytes}},
      {kSendActivation, "SA", "send of an activation", kSend, kActivation, {kForward}},
      {kReceiveActivation, "RA", "receive of an activation", kReceive, kActivation, {kSendActivation}},
      {kSendGradient, "SG", "send of a gradient", kSend, kGradient, {kInputGradient}},
      {kReceiveGradient, "RG", "receive of a gradient", kReceive, kGradient, {kSendGradient}},
      {kAllReduce, "AR", "all-reduce", kReduce, kStage, {kWeightGradient}, {}, {}, ActingStages::kWhole},
      {kReduceShared, "RS", "sum of a shared parameter's gradients", kReduce, kGroup, {kWeightGradient}},
      {kStep, "S", "optimizer step", kUpdate, kStage, {kAllReduce, kReduceShared, kWeightGradient}, {}, {},
       ActingStages::kWhole},
      {kReduceScatter, "SC", "reduce-scatter", kReduce, kStage, {kWeightGradient}, {}, {}, ActingStages::kSharded},
      {kUpdateShare, "U", "update of a share", kUpdate, kStage, {kReduceScatter, kReduceShared, kWeightGradient}, {}, {},
       ActingStages::kSharded},
      {kAllGather, "AG", "all-gather", kGather, kStage, {kUpdateShare}, {}, {}, ActingStages::kSharded},
  }};
}();
// clang-format on
static_assert(std::all_of(kActionTraits.begin(), kActionTraits.end(),
                          [](const ActionTraits& row) {
                            return &row == &kActionTraits[static_cast<size_t>(row.kind)];
                          }),
              "every kind has a row, in the order of the kinds");

constexpr const ActionTraits& traits(ActionKind kind) { return kActionTraits[static_cast<size_t>(kind)]; }
constexpr std::string_view letters(ActionKind kind) { return traits(kind).letters; }
/// `forward`, `receive of a gradient` …
constexpr std::string_view words(ActionKind kind) { return traits(kind).words; }
/// The kind with these letters, if there is one.
constexpr std::optional<ActionKind> kind_with(std::string_view letters) {
  for (const ActionTraits& row : kActionTraits) {
    if (row.letters == letters) return row.kind;
  }
  return std::nullopt;
}

constexpr bool is_of(ActionKind kind, ActionClass which) { return traits(kind).action_class == which; }
constexpr bool is_compute(ActionKind kind) { return is_of(kind, ActionClass::kCompute); }        ///< F B I W R
constexpr bool is_send(ActionKind kind) { return is_of(kind, ActionClass::kSend); }              ///< SA SG
constexpr bool is_receive(ActionKind kind) { return is_of(kind, ActionClass::kReceive); }        ///< RA RG
constexpr bool is_reduction(ActionKind kind) { return is_of(kind, ActionClass::kReduce); }       ///< AR RS SC
constexpr bool is_gather(ActionKind kind) { return is_of(kind, ActionClass::kGather); }          ///< AG
constexpr bool is_update(ActionKind kind) { return is_of(kind, ActionClass::kUpdate); }          ///< S U
constexpr bool is_message(ActionKind kind) { return is_send(kind) || is_receive(kind); }         ///< SA RA SG RG
constexpr bool is_collective(ActionKind kind) { return is_reduction(kind) || is_gather(kind); }  ///< AR RS SC AG
/// F B I W R S U: whether the action occupies its device.
constexpr bool is_work(ActionKind kind) { return is_compute(kind) || is_update(kind); }

/// AR S SC U AG: whether it is an action of a whole stage.
constexpr bool is_of_stage(ActionKind kind) { return traits(kind).scope == ActionScope::kStage; }
/// RS: whether `Action::route` is the index of a shared parameter.
constexpr bool is_of_group(ActionKind kind) { return traits(kind).scope == ActionScope::kGroup; }
/// Whether `Action::micro_batch` names a micro-batch.
constexpr bool has_micro_batch(ActionKind kind) { return !is_of_stage(kind) && !is_of_group(kind); }
constexpr bool is_activation(ActionKind kind) { return traits(kind).scope == ActionScope::kActivation; }  ///< SA RA
/// SA RG: whether a message's end on this device is the producer of its route.
constexpr bool is_at_producer(ActionKind kind) { return is_send(kind) == is_activation(kind); }
/// SA of RA, RG of SG, and vice versa.
constexpr ActionKind counterpart(ActionKind message) {
  if (is_receive(message)) return *traits(message).needs.begin();
  return std::find_if(kActionTraits.begin(), kActionTraits.end(),
                      [&](const ActionTraits& row) { return is_receive(row.kind) && row.needs.contains(message); })
      ->kind;
}

constexpr bool has_pass(ActionKind kind, Pass pass) { return traits(kind).passes.contains(pass); }
constexpr bool is_forward(ActionKind kind) { return has_pass(kind, Pass::kForward); }                     ///< F
constexpr bool computes_input_gradient(ActionKind kind) { return has_pass(kind, Pass::kInputGradient); }  ///< B I
constexpr bool adds_weight_gradient(ActionKind kind) { return has_pass(kind, Pass::kWeightGradient); }    ///< B W
/// The first pass of a computation: of a B, that of the input gradient.
constexpr Pass first_pass(ActionKind compute) { return *traits(compute).passes.begin(); }

/// Whether a training schedule must have the kind, an action of a whole stage, for this stage. Only replicas reduce.
inline bool has_action(const StageShape& stage, ActionKind kind) {
  if (is_reduction(kind) && stage.devices.size() < 2) return false;
  const ActingStages stages = traits(kind).stages;
  return stages == ActingStages::kAll || (stages == ActingStages::kSharded) == stage.sharded;
}
/// How many actions of the kind, one of a whole stage that it must have, the stage has on each device.
inline uint32_t action_count(const StageShape& stage, ActionKind kind) { return is_reduction(kind) ? stage.sums : 1; }
/// The kind by which a stage reduces, updates or gathers, if it does.
inline std::optional<ActionKind> stage_kind(const StageShape& stage, ActionClass which) {
  for (const ActionTraits& row : kActionTraits) {
    if (is_of_stage(row.kind) && row.action_class == which && has_action(stage, row.kind)) return row.kind;
  }
  return std::nullopt;
}

}  // namespace rannc::ir
