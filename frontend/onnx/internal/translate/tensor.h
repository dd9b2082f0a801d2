/// Reads ONNX tensors as typed bytes.
#pragma once

#include <optional>
#include <string>

#include "frontend/onnx/internal/file/external_data.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Returns the element type for `TensorProto::DataType` number `type`. Returns nothing for strings, complex numbers and
/// 8- and 4-bit floats.
std::optional<ir::DType> element_type(int type);
/// The inverse.
int onnx_element_type(ir::DType dtype);
/// ONNX's name of an element type, or its number if it has none. For messages.
std::string element_type_name(int type);

struct Tensor {
  ir::ValueType type;  ///< with contents for integers of rank 0 or 1
  ir::TensorData data;
};

/// Reads a tensor of a model processed by `note_data_ranges`. `model` is the path of its file. Errors: unsupported
/// element type, negative or overflowing shape, data that does not match type and shape, invalid external data.
Result<Tensor> read_tensor(const ONNX_NAMESPACE::TensorProto& proto, const std::string& model, ExternalData& external,
                           const Location& where);

}  // namespace rannc::frontend
