/// Runs tasks of a graph as a flat list of boxed calls below LibTorch's autograd.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/program/program.h"
#include "runtime/flat/nonfinite.h"
#include "runtime/native/stage.h"

namespace rannc::runtime {

/// Sizes that programs use, evaluated once per call instead of once per use.
class SizeTable {
 public:
  /// Returns the number of an expression.
  uint32_t number(const ir::Dim& dim);
  /// Evaluates all expressions. Does nothing if the bindings are those of the last call. The error for an unbound
  /// symbol names it.
  Result<void> bind(const ir::Bindings& bindings);
  int64_t operator[](uint32_t number) const { return values_[number]; }
  const int64_t* values() const { return values_.data(); }
  const ir::Dim& dim(uint32_t number) const { return dims_[number]; }
  size_t count() const { return dims_.size(); }
  const ir::Bindings& bindings() const { return bindings_; }

 private:
  std::vector<ir::Dim> dims_;
  std::map<std::string, uint32_t> numbers_;
  std::vector<int64_t> values_;
  ir::Bindings bindings_;
};

/// Runs a task in the place of LibTorch, on its operands (undefined: absent). Exceptions are the task's failure.
using TaskKernel = std::function<std::vector<at::Tensor>(std::span<const at::Tensor> operands, bool training)>;

/// What a program is bound to.
struct FlatBinding {
  at::Device device = at::kCPU;
  std::map<TaskId, TaskKernel> kernels = {};  ///< of all tasks that replicas compute together
};

struct FlatRun {
  std::span<const at::Tensor> fixed;  ///< by value of the graph
  std::span<at::Tensor* const> sums = {};
  std::function<Result<at::Tensor>(ValueId)> random_input = {};  ///< random numbers
  std::function<native::Numbers(ValueId)> numbers = {};          ///< for loops that make them
  bool training = true;
  TaskId* running = nullptr;                       ///< receives the task that runs
  std::function<void(uint32_t bucket)> mark = {};  ///< called at marks
  /// Receives results that are not finite, each of which is examined only if it is set. Not of compiled functions.
  std::function<void(const FlatNonfinite&)> nonfinite = {};
};

struct FlatCode;
class FlatInterpreter;

/// A program whose calls are completed by LibTorch's schemas. Handles are resolved once. A value is freed by its last
/// reader. Not thread-safe.
class FlatProgram {
 public:
  /// The graph of the program must outlive this one. `sizes` is shared by the programs of a stage and outlives them.
  static Result<FlatProgram> resolve(ir::Program program, const FlatBinding& to, SizeTable& sizes);
  FlatProgram();
  FlatProgram(FlatProgram&&) noexcept;
  FlatProgram& operator=(FlatProgram&&) noexcept;
  ~FlatProgram();

  /// Runs on `arguments` in the order of the spec, each of which is freed by its last reader if the caller holds no
  /// other reference. An error has the failing task's number in the graph in `failed_task`.
  Result<std::vector<at::Tensor>> run(std::vector<at::Tensor> arguments, const FlatRun& run);
  TaskId failed_task() const { return failed_; }
  /// Begins a run in segments, each but the last of which ends with marks. Not of a compiled function. `with` must
  /// outlive it.
  void begin(std::vector<at::Tensor> arguments, const FlatRun& with);
  /// Runs the next segment. Returns the results of the last one, else nothing.
  Result<std::vector<at::Tensor>> run_segment();
  bool has_begun() const { return begun_ != nullptr; }
  /// By segment but the last: the buckets whose marks end it.
  std::vector<std::vector<uint32_t>> marks() const;
  /// Runs `function` from now on, which was compiled from this program (`fingerprint`).
  void use(native::Function function);
  /// Returns a 128-bit hash of the program's text (`ir/program/program_text.h`) as 32 hexadecimal digits.
  std::string fingerprint() const;
  const FlatCode& code() const { return *code_; }
  /// Whether it was built.
  bool exists() const { return code_ != nullptr; }
  /// Number of calls of one run, for tests and costs.
  size_t calls() const;
  /// Whether a run enqueues only calls of kernels, never a whole task above autograd.
  bool only_calls() const;

 private:
  friend class FlatResolver;
  /// Runs a part of a program, below autograd.
  template <class Part>
  Result<std::vector<at::Tensor>> guarded(FlatInterpreter& interpreter, Part&& part);
  std::unique_ptr<FlatCode> code_;
  std::unique_ptr<FlatInterpreter> begun_;  ///< run in segments
  TaskId failed_;
};

}  // namespace rannc::runtime
