/// Memory that a program holds while it runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/instruction_set.h"
#include "ir/gradient/joint.h"
#include "ir/graph/views.h"
#include "ir/program/program.h"

namespace rannc::ir {

/// Follows programs of one joint graph instruction by instruction, as the explicit engine runs them: a value lives
/// until its last reader has run or, if it is returned, to the end.
///
/// Limits: temporary memory of a task is what its operator entry declares (`OpInfo::copied`, `OpInfo::temporary`), the
/// scratch memory of convolutions, and what `vjp` tasks allocate. Values of unknown size count as empty.
class ProgramMemory {
 public:
  struct Model {
    const Joint& joint;
    const Views& views;  ///< of the joint graph
    std::span<const InstructionSet> instructions;
    std::span<const ValueId> samples = {};  ///< values that are not counted, as if they were fixed
    std::span<const int64_t> sums = {};     ///< by mark: bytes of a sum over replicas; two run at once
    DeviceType device = DeviceType::kCpu;   ///< whose allocator rounds bytes (`block_bytes`)
  };
  /// Both arguments must outlive it.
  ProgramMemory(const Model& model, const Bindings& sizes);

  struct Run {
    bool creates_sums = false;     ///< it is the first to add to its sums
    bool keeps_arguments = false;  ///< the caller holds the arguments longer
    bool marks = false;            ///< sums over replicas begin at its marks
  };
  /// Peak bytes above the memory in use before the program, which includes its arguments.
  int64_t peak(const Program& program, const Run& run);
  /// Bytes of a value. Those of a gradient of rows: the rows that were looked up and their numbers.
  int64_t bytes(ValueId value);
  /// Bytes of the sum of a value.
  int64_t sum_bytes(ValueId value) const;

 private:
  ValueId memory_of(const ProgramSlot& slot) const;
  void grow(int64_t bytes);
  void hold(const ProgramSlot& slot);
  void drop(const ProgramSlot& slot);
  bool frees(const ProgramOperand& operand) const;
  void step(const Instruction& of);
  void add(const Instruction& of);
  void mark(uint32_t bucket);
  int64_t replace_copied(const Instruction& of);
  int64_t scratch(const Instruction& of);
  int64_t packed(std::span<const TaskId> tasks);
  int64_t repeated(TaskId task);

  const Model model_;
  const Graph& graph_;
  const Bindings& sizes_;
  std::vector<std::optional<int64_t>> bytes_of_;
  std::vector<bool> is_sample_;  ///< by value
  const Program* program_ = nullptr;
  Run run_;
  std::vector<uint32_t> held_;      ///< by memory: number of slots
  std::vector<uint32_t> replaced_;  ///< slots whose copies the current instruction reads
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace rannc::ir
