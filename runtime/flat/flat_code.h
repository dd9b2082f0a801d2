/// The instructions of a flat program.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "ir/op/loop.h"
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
  };
  Kind kind = Kind::kCall;
  TaskId task;
  bool grad_mode = false;                     ///< the kernel returns what its gradient reads in grad mode only
  bool records = false;                       ///< of `kTask`: the task keeps its tape
  std::optional<c10::OperatorHandle> handle;  ///< of `kCall`
  uint32_t first = 0, count = 0;              ///< arguments
  uint32_t slot = 0, results = 0;             ///< slots of the results
  uint32_t index = 0;  ///< `kAdd`: the sum; `kKernel`: the kernel; `kLoop`: the loop; `kRandomInput`: the value
};

/// Tasks that one compiled loop computes. Its inputs are the arguments of the instruction.
struct FlatLoop {
  /// An operand: an input of the loop, or a result of an earlier member.
  struct Operand {
    bool is_made = false;
    uint32_t index = 0;   ///< of the input, or of the member
    uint32_t result = 0;  ///< of the member
  };
  struct Member {
    TaskId task;
    ir::LoopTask loop;
    std::vector<std::optional<Operand>> operands;  ///< nothing: absent
    std::vector<ir::DType> types;                  ///< of its results
  };
  /// Random numbers of `value`. Those of a sample lie one after the other.
  struct Random {
    ValueId value;
    ir::RandomInput random;
    uint32_t elements = 0;  ///< of a sample: number in the size table
    bool operator==(const Random&) const = default;
  };
  struct Input {
    ir::LoopValue value;
    ir::DType dtype = ir::DType::kF32;
    uint32_t divisor = 0, period = 0, outer_divisor = 0, outer_period = 0;  ///< numbers in the size table
    std::optional<int64_t> ignored;                                         ///< of labels
    std::optional<Random> random;  ///< random numbers that the loop makes; the argument is absent
  };
  struct Output {
    uint32_t member = 0, result = 0;
    std::optional<uint32_t> random;  ///< instead of a result: numbers that the loop makes for this input
    ir::DType dtype = ir::DType::kF32;
    std::vector<uint32_t> sizes;  ///< numbers in the size table
  };
  ir::DType dtype = ir::DType::kF32;
  bool by_rows = false;
  uint32_t rows = 0, columns = 0;  ///< numbers in the size table
  std::vector<Member> members;
  std::vector<Input> inputs;
  std::vector<Output> outputs;  ///< parallel to the results of the instruction
};

struct FlatCode {
  using Slots = std::vector<FlatArgument>;
  struct TensorList {
    Slots items;
    bool optional = false;
  };

  const ir::Graph* graph = nullptr;
  at::Device device = at::kCPU;
  SizeTable* size_table = nullptr;
  std::vector<FlatInstruction> instructions;
  std::vector<FlatArgument> arguments;
  std::vector<c10::IValue> constants;
  std::vector<uint32_t> sizes;                    ///< numbers in the size table
  std::vector<std::vector<uint32_t>> size_lists;  ///< the same
  std::vector<TensorList> lists;
  std::vector<TaskKernel> kernels;
  std::vector<FlatLoop> loops;
  std::vector<FlatArgument> results;
  std::vector<std::vector<uint32_t>> dead;  ///< by instruction: result slots that nothing reads
  std::vector<ValueId> values;              ///< by slot; invalid: an intermediate result of a lowering
  uint32_t argument_count = 0;              ///< the first slots
  uint32_t slot_count = 0;
  native::Function native = nullptr;  ///< runs instead of the instructions if there is one
};

}  // namespace rannc::runtime
