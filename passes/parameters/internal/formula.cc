#include "passes/parameters/internal/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rannc::passes {

namespace {

constexpr int64_t kMostFormulaElements = 1 << 22;

std::optional<Formula::Value> known(ir::StoredTensor tensor) {
  auto bytes = tensor.data.in_file() ? tensor.data.read() : Result<std::vector<std::byte>>(tensor.data.bytes());
  if (!bytes.ok()) return std::nullopt;
  tensor.data = ir::TensorData::in_memory(*std::move(bytes));
  auto numbers = ir::decode_numbers(tensor.type, tensor.data, kMostFormulaElements);
  if (!numbers.ok()) return std::nullopt;
  return Formula::Value{std::move(tensor), *std::move(numbers)};
}

}  // namespace

bool Formula::add_leaf(const ir::StoredTensor& tensor) {
  if (!tensor.data.present()) return false;
  auto leaf = known(tensor);
  if (!leaf) return false;
  values_.push_back(*std::move(leaf));
  return true;
}

size_t Formula::add_constant(ir::DType dtype, const ir::Shape& shape, std::span<const double> numbers) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape = shape;
  const std::vector<int64_t> whole(numbers.begin(), numbers.end());
  ir::TensorData data = ir::is_float(dtype) ? ir::encode_numbers(dtype, numbers) : ir::encode_integers(dtype, whole);
  values_.push_back({{std::move(type), std::move(data)}, {numbers.begin(), numbers.end()}});
  return values_.size() - 1;
}

std::optional<size_t> Formula::apply(const ir::OpInfo& op, std::initializer_list<size_t> operands,
                                     ir::Attributes attributes) {
  if (evaluator_ == nullptr) return std::nullopt;
  std::vector<const ir::StoredTensor*> tensors;
  for (const size_t operand : operands) tensors.push_back(&values_[operand].tensor);
  ++computed_;
  auto results = evaluator_->evaluate(op, tensors, attributes);
  if (!results.ok() || results->empty()) return std::nullopt;
  auto made = known(std::move(results->front()));
  if (!made) return std::nullopt;
  made->op = &op;
  made->operands = operands;
  made->attributes = std::move(attributes);
  for (const size_t operand : operands) ++values_[operand].uses;
  values_.push_back(*std::move(made));
  return values_.size() - 1;
}

void Formula::shrink(size_t size) {
  while (values_.size() > size) {
    for (const size_t operand : values_.back().operands) --values_[operand].uses;
    values_.pop_back();
  }
}

double distance(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double off = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    off = std::max(off, std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : std::numeric_limits<double>::infinity());
  }
  for (const double number : b) largest = std::max(largest, std::isfinite(number) ? std::abs(number) : 0);
  return off == 0 ? 0 : off / largest;
}

}  // namespace rannc::passes
