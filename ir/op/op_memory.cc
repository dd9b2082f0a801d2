#include "ir/op/op_memory.h"

#include "ir/graph/byte_count.h"

namespace rannc::ir {

bool MemoryCall::has(size_t operand) const {
  const auto inputs = graph_.inputs(task_);
  return operand < inputs.size() && inputs[operand].valid();
}

Dim MemoryCall::operand_bytes(size_t operand) const { return byte_count(this->operand(operand)); }
Dim MemoryCall::result_bytes(size_t result) const { return byte_count(this->result(result)); }

bool MemoryCall::is_dense(size_t operand, std::span<const int64_t> axes) const {
  return views_.is_dense(graph_, value(operand), axes);
}

bool MemoryCall::has_rows(size_t operand) const {
  return views_.has_rows(graph_, value(operand), LowerCall::kRowBytes);
}

Dim MemoryCall::copies(std::initializer_list<size_t> operands) const {
  Dim total = 0;
  for (const size_t operand : operands) {
    if (has(operand) && views_.is_scattered(value(operand))) total = total + operand_bytes(operand);
  }
  return total;
}

Dim MemoryCall::merged_copies(std::initializer_list<size_t> operands, size_t apart) const {
  Dim total = 0;
  for (const size_t operand : operands) {
    if (has(operand) && !views_.merges(graph_, value(operand), apart)) total = total + operand_bytes(operand);
  }
  return total;
}

}  // namespace rannc::ir
