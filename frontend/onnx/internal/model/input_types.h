/// Reads the types of graph inputs, which define the symbols, and checks those of graph outputs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

struct InputTypes {
  std::string batch_symbol;          ///< empty: none
  std::vector<ir::ValueType> types;  ///< parallel to the requested inputs
};

/// Reads the types of `inputs`. Names of dimensions become symbols, and expressions over such names become expressions.
/// An unnamed dimension gets the symbol `<input>_d<axis>`. An input that has the batch symbol on an axis gets its
/// layout. Errors: inputs that are no tensors or have no shape, unsupported element types, negative extents, a
/// requested batch symbol that no input has.
Result<InputTypes> read_input_types(const std::vector<const ONNX_NAMESPACE::ValueInfoProto*>& inputs,
                                    const ImportOptions& options, const std::string& file);

/// Compares what a file declares about an output with the inferred type. Errors: another element type, or another
/// extent where both are numbers. Returns a note on another rank, which exporters declare by mistake. What is not
/// declared or not inferred fits.
Result<std::optional<Note>> check_output_type(const ONNX_NAMESPACE::ValueInfoProto& output,
                                              const ir::ValueType& inferred, const std::string& file);

}  // namespace rannc::frontend
