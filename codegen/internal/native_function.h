/// One function of a stage as C++.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/flat/flat_code.h"

namespace rannc::codegen {

/// The kernels of a stage that are compiled once per instruction set: loops, and products of small matrices.
class NativeKernels {
 public:
  /// `allowed`: tasks may be computed by them instead of LibTorch's operators.
  explicit NativeKernels(bool allowed) : allowed_(allowed) {}
  bool allowed() const { return allowed_; }
  /// Returns the number of the loop's function, and its scratch rows. `operators` names its operators. Tasks of equal
  /// structure share a function.
  std::pair<uint32_t, uint32_t> add(const ir::ProgramLoop& loop, const std::string& operators);
  void add_products() { has_products_ = true; }
  bool has_loops() const { return !texts_.empty(); }
  bool has_products() const { return has_products_; }
  /// The definitions of the loops and the table `kLoops`.
  std::string loops() const;

 private:
  bool allowed_, has_products_ = false;
  std::map<std::string, std::pair<uint32_t, uint32_t>> numbers_;  ///< by definition without a name
  std::vector<std::string> texts_;
};

/// Input of `native_function`.
struct NativeFunction {
  std::string name;
  const runtime::FlatCode& code;
  std::function<std::string(TaskId)> place;  ///< of a task of the joint graph: number, operator, place in the model
};

/// Returns the definition of a function of type `rannc::native::Function`. Symbolic sizes are `s[number]`, weights
/// `w[value]`. Adds its kernels to `kernels`, and the operators that it calls to
/// `headers`, as names of headers `ATen/ops/<name>_ops.h`. Errors name an operator without such a header.
Result<std::string> native_function(const NativeFunction& function, std::set<std::string>& headers,
                                    NativeKernels& kernels);

/// Whether an instruction is LibTorch's `cat`. The equal `concat` is called, whose headers compile in half the time.
bool joins_tensors(const runtime::FlatInstruction& of);

}  // namespace rannc::codegen
