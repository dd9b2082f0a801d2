/// Schedules: the actions by which devices train one mini-batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"
#include "ir/schedule/action_kinds.h"
#include "ir/schedule/pipeline_shape.h"

namespace rannc::ir {

/// One entry of a device's row.
struct Action {
  static constexpr uint32_t kNone = 0xffffff;

  ActionKind kind = ActionKind::kForward;
  /// Sends and receives: index of the route. ReduceShared: index into `PipelineShape::shared`. Else kNone.
  uint32_t route : 24 = kNone;
  /// The acting stage. Sends and receives: the stage on this device, i.e. the route's producer for SA and RG, its
  /// consumer for RA and SG. ReduceShared: the group's first stage on this device.
  StageId stage;
  uint32_t micro_batch = 0;  ///< AR and SC: the bucket; 0 for RS, S, U and AG
  DeviceId peer;             ///< sends and receives: the other device

  bool operator==(const Action&) const = default;
};
static_assert(sizeof(Action) == 16, "schedules of 4,096 devices x 1,024 micro-batches stay below a gigabyte");

Action compute_action(ActionKind kind, StageId stage, uint32_t micro_batch);
/// SA, RA, SG or RG of `route` on the device whose other end is `peer`. Fills in the acting stage.
Action transfer_action(const PipelineShape& shape, ActionKind kind, uint32_t route, uint32_t micro_batch,
                       DeviceId peer);
/// AR, S, SC, U or AG of a stage. `bucket`: of AR and SC.
Action stage_action(ActionKind kind, StageId stage, uint32_t bucket = 0);
/// RS of a group on a device that holds at least one of its stages.
Action reduce_shared_action(const PipelineShape& shape, uint32_t group, DeviceId device);

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
/// `AR2.1`, `SC2.1` (stage.bucket, of all buckets but the first), `RS0` (group).
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
