#include "frontend/onnx/internal/translate/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "frontend/onnx/internal/file/data_ranges.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::TensorProto;

namespace {

struct ElementType {
  int onnx;
  ir::DType dtype;
};
constexpr ElementType kElementTypes[] = {
    {TensorProto::FLOAT16, ir::DType::kF16}, {TensorProto::BFLOAT16, ir::DType::kBF16},
    {TensorProto::FLOAT, ir::DType::kF32},   {TensorProto::DOUBLE, ir::DType::kF64},
    {TensorProto::INT8, ir::DType::kI8},     {TensorProto::INT16, ir::DType::kI16},
    {TensorProto::INT32, ir::DType::kI32},   {TensorProto::INT64, ir::DType::kI64},
    {TensorProto::UINT8, ir::DType::kU8},    {TensorProto::UINT16, ir::DType::kU16},
    {TensorProto::UINT32, ir::DType::kU32},  {TensorProto::UINT64, ir::DType::kU64},
    {TensorProto::BOOL, ir::DType::kBool},
};

template <class To, class From>
std::vector<std::byte> convert(const From& field) {
  std::vector<std::byte> bytes(static_cast<size_t>(field.size()) * sizeof(To));
  for (int i = 0; i < field.size(); ++i) {
    const auto value = static_cast<To>(field.Get(i));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

/// The bytes of the typed field that ONNX prescribes for `dtype`.
std::vector<std::byte> typed_field(const TensorProto& proto, ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF32:
      return convert<float>(proto.float_data());
    case ir::DType::kF64:
      return convert<double>(proto.double_data());
    case ir::DType::kI64:
      return convert<int64_t>(proto.int64_data());
    case ir::DType::kU64:
      return convert<uint64_t>(proto.uint64_data());
    case ir::DType::kU32:
      return convert<uint32_t>(proto.uint64_data());
    case ir::DType::kI32:
      return convert<int32_t>(proto.int32_data());
    case ir::DType::kF16:
    case ir::DType::kBF16:
    case ir::DType::kU16:
      return convert<uint16_t>(proto.int32_data());
    case ir::DType::kI16:
      return convert<int16_t>(proto.int32_data());
    case ir::DType::kI8:
      return convert<int8_t>(proto.int32_data());
    case ir::DType::kU8:
      return convert<uint8_t>(proto.int32_data());
    case ir::DType::kBool:
      return convert<bool>(proto.int32_data());
  }
  return {};
}

/// Reads the shape into `type`. Returns the number of bytes.
Result<uint64_t> read_shape(const TensorProto& proto, ir::ValueType& type, const Location& where) {
  constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();
  int64_t bytes = ir::byte_size(type.dtype);
  bool empty = false;
  type.shape.emplace();
  for (const int64_t extent : proto.dims()) {
    if (extent < 0) return error(where, fmt::format("tensor '{}' has the extent {}", proto.name(), extent));
    empty = empty || extent == 0;
    if (extent > 0 && bytes > kMaxBytes / extent) {
      return error(where, fmt::format("the shape of tensor '{}' exceeds 2^63 bytes", proto.name()));
    }
    bytes *= std::max<int64_t>(extent, 1);
    type.shape->emplace_back(extent);
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

/// Names of the places where a tensor has its data: one, or none for an empty tensor.
std::vector<std::string_view> data_fields(const TensorProto& proto) {
  std::vector<std::string_view> found;
  const auto add = [&](std::string_view name, bool present) {
    if (present) found.push_back(name);
  };
  add("external_data", proto.data_location() == TensorProto::EXTERNAL);
  add("raw_data", !proto.raw_data().empty() || byte_range(proto.doc_string()));
  add("float_data", proto.float_data_size() > 0);
  add("double_data", proto.double_data_size() > 0);
  add("int32_data", proto.int32_data_size() > 0);
  add("int64_data", proto.int64_data_size() > 0);
  add("uint64_data", proto.uint64_data_size() > 0);
  add("string_data", proto.string_data_size() > 0);
  return found;
}

Result<ir::TensorData> read_data(const TensorProto& proto, ir::DType dtype, uint64_t bytes, const std::string& model,
                                 ExternalData& external, const Location& where) {
  if (const auto fields = data_fields(proto); fields.size() > 1) {
    return error(where, fmt::format("tensor '{}' has its data in several fields, which may differ: {}", proto.name(),
                                    fmt::join(fields, ", ")));
  }
  if (proto.data_location() == TensorProto::EXTERNAL) return external.locate(proto, bytes, where);
  const auto misfit = [&](uint64_t found) {
    return error(
        where, fmt::format("tensor '{}' has {} bytes of data, its type and shape need {}", proto.name(), found, bytes));
  };
  if (const auto range = byte_range(proto.doc_string())) {
    if (range->length != bytes) return misfit(range->length);
    return ir::TensorData::in_file(model, range->offset, range->length);
  }
  std::vector<std::byte> data;
  if (proto.has_raw_data()) {
    const auto* const raw = reinterpret_cast<const std::byte*>(proto.raw_data().data());
    data.assign(raw, raw + proto.raw_data().size());
  } else {
    data = typed_field(proto, dtype);
  }
  if (data.size() != bytes) return misfit(data.size());
  return ir::TensorData::in_memory(std::move(data));
}

}  // namespace

std::optional<ir::DType> element_type(int type) {
  for (const ElementType& entry : kElementTypes) {
    if (entry.onnx == type) return entry.dtype;
  }
  return std::nullopt;
}

int onnx_element_type(ir::DType dtype) {
  for (const ElementType& entry : kElementTypes) {
    if (entry.dtype == dtype) return entry.onnx;
  }
  return TensorProto::UNDEFINED;
}

std::string element_type_name(int type) {
  return TensorProto::DataType_IsValid(type) ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(type))
                                             : std::to_string(type);
}

Result<Tensor> read_tensor(const TensorProto& proto, const std::string& model, ExternalData& external,
                           const Location& where) {
  const auto dtype = element_type(proto.data_type());
  if (!dtype) {
    return error(where, fmt::format("tensor '{}' has elements of type {}, which is not supported", proto.name(),
                                    element_type_name(proto.data_type())));
  }
  if (proto.has_segment()) return error(where, fmt::format("tensor '{}' is split into segments", proto.name()));
  Tensor tensor;
  tensor.type.dtype = *dtype;
  RANNC_ASSIGN(const uint64_t bytes, read_shape(proto, tensor.type, where));
  RANNC_ASSIGN(tensor.data, read_data(proto, *dtype, bytes, model, external, where));
  tensor.type.contents = ir::constant_contents(tensor.type, tensor.data);
  return tensor;
}

}  // namespace rannc::frontend
