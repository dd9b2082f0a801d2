/// Schemas of ATen calls.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "ir/op/aten.h"

namespace rannc::runtime {

/// Returns the registered operator, or null. Look-ups are cached. Thread-safe.
const c10::OperatorHandle* handle_of(const std::string& schema);

/// Returns the call's argument for parameter `index`; null means the default value.
const ir::aten::Argument* argument_for(const ir::aten::Call& call, const c10::FunctionSchema& schema, size_t index);

/// Returns an argument whose value does not depend on the run: numbers, flags, texts, element types and formats.
/// Nothing for tensors, sizes with symbols, the device and the training flag.
std::optional<c10::IValue> constant_of(const ir::aten::Argument::Kind& kind);

}  // namespace rannc::runtime
