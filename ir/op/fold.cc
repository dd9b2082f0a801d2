#include "ir/op/fold.h"

#include <algorithm>

namespace rannc::ir {

namespace {

std::vector<int64_t> sizes_of(const ValueType& type) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : *type.shape) sizes.push_back(dim.constant());
  return sizes;
}

std::optional<Integers> decode(const StoredTensor& tensor) {
  auto data = decode_integers(tensor.type, tensor.data, kMostFoldedIntegers);
  if (!data) return std::nullopt;
  const auto beyond = [](int64_t x) { return x < 0; };
  if (tensor.type.dtype == DType::kU64 && std::any_of(data->begin(), data->end(), beyond)) return std::nullopt;
  return Integers{tensor.type.dtype, sizes_of(tensor.type), *std::move(data)};
}

// Number of elements of all results; nothing if there are too many.
std::optional<int64_t> count_of(std::span<const ValueType> types) {
  int64_t sum = 0;
  for (const ValueType& type : types) {
    const int64_t count = is_float(type.dtype) ? INT64_MAX : static_count(type).value_or(INT64_MAX);
    if (count > kMostFoldedIntegers - sum) return std::nullopt;
    sum += count;
  }
  return sum;
}

std::vector<StoredTensor> encode(std::span<const ValueType> types, std::span<const int64_t> data) {
  std::vector<StoredTensor> results;
  for (const ValueType& type : types) {
    const auto count = static_cast<size_t>(*static_count(type));
    results.push_back({type, encode_integers(type.dtype, data.first(count))});
    data = data.subspan(count);
  }
  return results;
}

}  // namespace

std::vector<int64_t> FoldCall::out_shape(size_t output) const { return sizes_of(outputs[output]); }

std::optional<std::vector<StoredTensor>> fold_integers(const OpInfo& op, std::span<const StoredTensor* const> operands,
                                                       const Attributes& attributes, std::span<const ValueType> types) {
  const auto count = count_of(types);
  if (op.fold == nullptr || !count) return std::nullopt;
  std::vector<Integers> decoded(operands.size());
  std::vector<const Integers*> inputs(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) continue;
    auto integers = decode(*operands[i]);
    if (!integers) return std::nullopt;
    decoded[i] = *std::move(integers);
    inputs[i] = &decoded[i];
  }
  FoldCall call{inputs, types, {op, attributes}};
  const std::vector<int64_t> data = op.fold(call);
  if (call.failed || static_cast<int64_t>(data.size()) != *count) return std::nullopt;
  return encode(types, data);
}

}  // namespace rannc::ir
