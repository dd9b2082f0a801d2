/// One function of a stage as C++.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/aten/flat_code.h"

namespace rannc::codegen {

/// Input of `native_function`.
/// The loops of a stage. Tasks of equal structure share a function.
class NativeLoops {
 public:
  /// Returns the number of the loop's function, and its scratch rows. `says` names its operators.
  std::pair<uint32_t, uint32_t> add(const runtime::FlatLoop& loop, const std::string& says);
  bool empty() const { return texts_.empty(); }
  /// The definitions and the table `kLoops`.
  std::string text() const;

 private:
  std::map<std::string, std::pair<uint32_t, uint32_t>> numbers_;  ///< by definition without a name
  std::vector<std::string> texts_;
};

struct NativeFunction {
  std::string name;
  const runtime::FlatCode& code;
  std::function<std::string(TaskId)> place;  ///< of a task of the joint graph: number, operator, place in the model
};

/// Returns the definition of a function of type `rannc::native::Function`. Symbolic sizes are `s[number]`, weights
/// `w[value]`. Adds its loops to `loops`, and the operators that it calls to
/// `headers`, as names of headers `ATen/ops/<name>_ops.h`. Errors name an operator without such a header.
Result<std::string> native_function(const NativeFunction& function, std::set<std::string>& headers, NativeLoops& loops);

}  // namespace rannc::codegen
