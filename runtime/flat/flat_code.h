/// The instructions of a flat program: a program whose calls are completed by the schemas of LibTorch.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "ir/program/program.h"
#include "runtime/flat/flat_program.h"

namespace rannc::runtime {

/// One argument of an instruction. `index` counts within what `kind` names.
struct FlatArgument {
  enum class Kind : uint8_t {
    kAbsent,
    kSlot,      ///< a value of this run
    kFixed,     ///< `FlatRun::fixed`
    kConstant,  ///< `Code::constants`
    kSize,      ///< `Code::sizes`, as an integer
    kSizes,     ///< `Code::size_lists`
    kTensors,   ///< `Code::lists`
    kTraining,
  };
  Kind kind = Kind::kAbsent;
  bool last = false;  ///< of a slot: its last reader
  uint32_t index = 0;
  bool operator==(const FlatArgument&) const = default;
  bool is_tensor() const { return kind == Kind::kSlot || kind == Kind::kFixed; }
};

struct FlatInstruction {
  enum class Kind : uint8_t {
    kCall,         ///< a boxed call
    kTask,         ///< a whole task above autograd
    kKernel,       ///< a task of the caller
    kRandomInput,  ///< random numbers of the caller
    kAdd,          ///< adds an argument to a sum
    kAddProduct,   ///< adds the product of two matrices to a sum
    kLoop,         ///< a loop, which only compiled functions can run
    kMark,         ///< the gradients of a bucket are final
  };
  Kind kind = Kind::kCall;
  TaskId task;
  bool grad_mode = false;                     ///< the kernel returns what its gradient reads in grad mode only
  bool records = false;                       ///< of `kTask`: the task keeps its tape
  std::optional<c10::OperatorHandle> handle;  ///< of `kCall`
  uint32_t first = 0, count = 0;              ///< arguments
  uint32_t slot = 0, results = 0;             ///< slots of the results
  /// `kAdd`: the sum; `kKernel`: the kernel; `kLoop`: the loop; `kMark`: the bucket; `kRandomInput`: the value
  uint32_t index = 0;
};

struct FlatCode {
  using Slots = std::vector<FlatArgument>;
  struct TensorList {
    Slots items;
    bool optional = false;
  };

  ir::Program program;  ///< that it was resolved from
  at::Device device = at::kCPU;
  SizeTable* size_table = nullptr;
  std::vector<FlatInstruction> instructions;
  std::vector<FlatArgument> arguments;
  std::vector<c10::IValue> constants;
  std::vector<uint32_t> sizes;                    ///< numbers in the size table
  std::vector<std::vector<uint32_t>> size_lists;  ///< the same
  std::vector<TensorList> lists;
  std::vector<TaskKernel> kernels;
  std::vector<FlatArgument> results;
  std::vector<std::vector<uint32_t>> dead;  ///< by instruction: result slots that nothing reads
  std::vector<ValueId> values;              ///< by slot; invalid: an intermediate result of a lowering
  uint32_t slot_count = 0;                  ///< arguments first
  native::Function native = nullptr;        ///< runs instead of the instructions if there is one

  const ir::Graph& graph() const { return *program.graph; }
  uint32_t argument_count() const { return program.arguments; }
};

}  // namespace rannc::runtime
