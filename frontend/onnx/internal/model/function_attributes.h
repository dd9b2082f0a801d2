/// Binds the attributes that nodes in a function's body refer to.
#pragma once

#include <string>
#include <unordered_map>

#include "onnx/defs/schema.h"

namespace rannc::frontend {

/// Attributes of a call, with defaults for omitted ones. Points into the call and the function.
using Arguments = std::unordered_map<std::string, const ONNX_NAMESPACE::AttributeProto*>;

Arguments arguments_of(const ONNX_NAMESPACE::FunctionProto& function, const ONNX_NAMESPACE::NodeProto& call);

/// Returns `node` with references to the function's attributes replaced by the arguments.
ONNX_NAMESPACE::NodeProto substitute_attributes(const ONNX_NAMESPACE::NodeProto& node, const Arguments& arguments);

/// Returns `node` with the defaults of omitted attributes added.
ONNX_NAMESPACE::NodeProto with_defaults(const ONNX_NAMESPACE::NodeProto& node, const ONNX_NAMESPACE::OpSchema& schema);

}  // namespace rannc::frontend
