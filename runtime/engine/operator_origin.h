/// Maps a running operator to the task of the model that it comes from.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/base/ids.h"

namespace rannc::runtime {

/// Whether a loaded program keeps the source locations of its operators. The records are as large as a small model's
/// weights, so they are dropped by default.
enum class Origins : uint8_t { kForgotten, kKept };

/// Returns the task that this thread's forward pass is executing. Empty outside of a forward pass, and in a program
/// that was loaded without origins. For LibTorch's operator callbacks.
std::optional<TaskId> running_task();

}  // namespace rannc::runtime
