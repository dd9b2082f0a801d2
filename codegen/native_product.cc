// Decides by sizes whether a product has a kernel of the stage.
#include "codegen/internal/native_product.h"

#include "codegen/native/product_run.h"

namespace rannc::codegen {

namespace {

using runtime::FlatArgument;

/// The value in an argument; invalid for an intermediate result.
ValueId value_of(const runtime::FlatCode& code, const FlatArgument& argument) {
  if (argument.kind == FlatArgument::Kind::kFixed) return ValueId(argument.index);
  return argument.kind == FlatArgument::Kind::kSlot ? code.values[argument.index] : ValueId();
}

const ir::ValueType* matrix(const runtime::FlatCode& code, ValueId value) {
  if (!value.valid()) return nullptr;
  const ir::ValueType& type = code.graph().type(value);
  return type.shape && type.shape->size() == 2 ? &type : nullptr;
}

}  // namespace

bool is_small_product(const runtime::FlatCode& code, const runtime::FlatInstruction& of) {
  const ir::ValueType* const a = matrix(code, value_of(code, code.arguments[of.first]));
  const ir::ValueType* const made = matrix(code, code.graph().outputs(of.task)[0]);
  if (a == nullptr || made == nullptr || a->dtype != made->dtype) return false;
  if (a->dtype != ir::DType::kF32 && a->dtype != ir::DType::kF64) return false;
  int symbols = 0;
  const auto extent = [&](const ir::Dim& dim) {
    if (dim.is_constant()) return dim.constant();
    ++symbols;
    return int64_t{1};
  };
  const int64_t rows = extent((*made->shape)[0]), columns = extent((*made->shape)[1]), depth = extent((*a->shape)[1]);
  return symbols <= 1 && native::is_small(rows, columns, depth);
}

}  // namespace rannc::codegen
