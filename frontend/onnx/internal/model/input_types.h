/// Types of graph inputs, where symbols and samples come from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

struct InputTypes {
  std::string batch_symbol;          ///< empty: no input has a symbol on axis 0
  std::vector<ir::ValueType> types;  ///< parallel to the inputs asked for
};

/// Reads the types of `inputs`. Names of dimensions become symbols, expressions over names of other dimensions become
/// expressions, dimensions of no name get a symbol `<input>_d<axis>`. An input that has the batch symbol on an axis
/// gets its layout. Errors: inputs that are no tensors or have no shape, unsupported element types, negative extents, a
/// batch symbol asked for that no input has.
Result<InputTypes> read_input_types(const std::vector<const ONNX_NAMESPACE::ValueInfoProto*>& inputs,
                                    const ImportOptions& options, const std::string& file);

}  // namespace rannc::frontend
