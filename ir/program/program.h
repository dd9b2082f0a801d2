/// The linear program of a stage function, without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/graph/graph.h"
#include "ir/op/aten.h"
#include "ir/program/program_loop.h"

namespace rannc::ir {

/// An operand of an instruction.
struct ProgramOperand {
  enum class Kind : uint8_t {
    kAbsent,
    kSlot,   ///< a value of this run; `index` counts `Program::slots`
    kFixed,  ///< a parameter, buffer, constant or result of P; `index` is the value's number
  };
  Kind kind = Kind::kAbsent;
  bool last = false;  ///< of a slot: nothing after this instruction reads it
  uint32_t index = 0;
  bool operator==(const ProgramOperand&) const = default;
};

/// A place for a value during a run: an argument, or a result of an instruction.
struct ProgramSlot {
  ValueId value;
  ValueId memory;  ///< the value whose memory it shares, or itself; invalid: memory of a fixed value
  bool operator==(const ProgramSlot&) const = default;
};

/// A task, or several that run as one.
struct Instruction {
  enum class Kind : uint8_t {
    kCalls,        ///< ATen calls
    kTask,         ///< a whole task, above autograd
    kExchange,     ///< a task that replicas compute together
    kRandomInput,  ///< random numbers
    kAdd,          ///< adds its operand to a sum
    kAddProduct,   ///< adds the product of its two operands, which are matrices, to a sum
    kLoop,         ///< one loop over rows and columns
    kMark,         ///< the gradients of a bucket of the stage are final, if no later run adds to them
    kReturn,       ///< the last instruction; its operands are the results of the program
  };
  Kind kind = Kind::kCalls;
  std::vector<TaskId> tasks;               ///< none: a random input that is returned, a sum of an argument, the return
  std::vector<ProgramOperand> operands;    ///< of its tasks, one task after the other
  uint32_t first_result = 0, results = 0;  ///< slots
  std::vector<uint32_t> dead;              ///< results that nothing reads
  /// Of `kCalls`. Slots are those of its results that a call makes, each once, in order. A result that is an operand
  /// has the operand's slot.
  std::shared_ptr<const aten::Lowering> lowering;
  bool grad_mode = false;  ///< the kernel returns what its gradient reads in grad mode only
  bool records = false;    ///< of `kTask`: the task keeps its tape
  uint32_t number = 0;     ///< of the sum, the loop, the bucket, or the value that is random

  TaskId task() const { return tasks.empty() ? TaskId() : tasks[0]; }
  bool adds() const { return kind == Kind::kAdd || kind == Kind::kAddProduct; }
};

/// A program. Sizes, the device's number and whether a run trains are bound when it runs. Derived from a graph, never
/// stored.
struct Program {
  std::string name;              ///< `F`, `P_load`
  const Graph* graph = nullptr;  ///< of its values and tasks
  DeviceType device = DeviceType::kCpu;
  std::vector<ProgramSlot> slots;  ///< arguments first
  uint32_t arguments = 0;
  std::vector<Instruction> instructions;
  std::vector<ProgramLoop> loops;

  /// Whether it computes and returns nothing.
  bool is_empty() const { return instructions.size() == 1 && instructions[0].operands.empty(); }
};

}  // namespace rannc::ir
