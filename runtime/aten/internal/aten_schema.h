/// Schemas of ATen calls.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "ir/op/aten.h"

namespace rannc::runtime {

/// Returns the registered operator, or null. Look-ups are cached. Thread-safe.
const c10::OperatorHandle* handle_of(const std::string& schema);

/// Returns the call's argument for parameter `index`; null means the default value.
const ir::aten::Argument* argument_for(const ir::aten::Call& call, const c10::FunctionSchema& schema, size_t index);

}  // namespace rannc::runtime
