/// Binds the attributes that the nodes of a function's body refer to.
#pragma once

#include <string>
#include <unordered_map>

#include "onnx/defs/schema.h"

namespace rannc::frontend {

/// Attributes of a call, and the defaults of those it leaves out. Points into both.
using Arguments = std::unordered_map<std::string, const ONNX_NAMESPACE::AttributeProto*>;

Arguments arguments_of(const ONNX_NAMESPACE::FunctionProto& function, const ONNX_NAMESPACE::NodeProto& call);

/// `node` with references to the function's attributes replaced by what the caller gave.
ONNX_NAMESPACE::NodeProto substitute_attributes(const ONNX_NAMESPACE::NodeProto& node, const Arguments& arguments);

/// `node` with the defaults of its operator's attributes written out.
ONNX_NAMESPACE::NodeProto with_defaults(const ONNX_NAMESPACE::NodeProto& node, const ONNX_NAMESPACE::OpSchema& schema);

}  // namespace rannc::frontend
