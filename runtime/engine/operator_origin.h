/// Says which task of the model an operator comes from while it runs.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/base/ids.h"

namespace rannc::runtime {

/// Whether a loaded program remembers where in its text an operator stands. The records are as large as a small model's
/// weights: they are kept only for who asks.
enum class Origins : uint8_t { kForgotten, kKept };

/// The task whose statement this thread's forward pass is at; none outside of a forward pass, and none in a program
/// that was loaded without its origins. For LibTorch's callbacks at operators.
std::optional<TaskId> running_task();

}  // namespace rannc::runtime
