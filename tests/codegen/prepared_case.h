/// Calls of core operators as they are lowered, over random operands.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {

/// One case in one precision.
struct Prepared {
  const OpInfo* op = nullptr;
  std::vector<Operand> operands;
  Attributes attributes;
  std::vector<ValueType> types;  ///< of the results
  aten::Lowering lowering;
};

Prepared prepare(const OpCase& c, DType precision);
c10::ScalarType scalar_type(DType dtype);
std::vector<int64_t> sizes_of(const Shape& shape, int64_t batch);
/// Positive floats, integers of the operand's range (as floats too, where it says so), or its contents.
at::Tensor draw(const Operand& operand, int64_t batch);
/// One tensor for each operand that is there.
std::vector<at::Tensor> drawn(const Prepared& made, int64_t batch);
/// These tensors, one for each operand that is there, in the places of all operands.
std::vector<std::optional<at::Tensor>> in_places(const Prepared& made, const std::vector<at::Tensor>& tensors);
/// Results of the calls; gradients as rows are made dense.
std::vector<at::Tensor> execute(const Prepared& made, const std::vector<at::Tensor>& inputs, int64_t batch);

}  // namespace rannc::ir::testing
