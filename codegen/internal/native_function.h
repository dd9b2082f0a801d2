/// One function of a stage as C++.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "runtime/aten/flat_code.h"

namespace rannc::codegen {

/// Input of `native_function`.
struct NativeFunction {
  std::string name;
  const runtime::FlatCode& code;
  std::function<std::string(TaskId)> place;  ///< of a task of the joint graph: number, operator, place in the model
};

/// Returns the definition of a function of type `rannc::native::Function`. Symbolic sizes are `s[number]`, weights
/// `w[value]`. Adds the operators that it calls to
/// `headers`, as names of headers `ATen/ops/<name>_ops.h`. Errors name an operator without such a header.
Result<std::string> native_function(const NativeFunction& function, std::set<std::string>& headers);

}  // namespace rannc::codegen
