/// Maps a running operator to the task of the model that it comes from.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/base/ids.h"

namespace rannc::runtime {

/// Whether a loaded program keeps the source locations of its operators. The records are as large as a small model's
/// weights, so they are dropped by default.
enum class Origins : uint8_t { kForgotten, kKept };

/// A task of the plan whose forward or backward pass runs.
struct RunningTask {
  TaskId task;
  bool backward = false;
};

/// Returns the task that this thread executes. Empty outside of programs, in the backward pass of a tape, and in a
/// program that was loaded without origins. For LibTorch's operator callbacks.
std::optional<RunningTask> running_task();

}  // namespace rannc::runtime
