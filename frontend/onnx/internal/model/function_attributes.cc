#include "frontend/onnx/internal/model/function_attributes.h"

#include <algorithm>

namespace rannc::frontend {

using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::NodeProto;

Arguments arguments_of(const ONNX_NAMESPACE::FunctionProto& function, const NodeProto& call) {
  Arguments arguments;
  for (const AttributeProto& attribute : function.attribute_proto()) arguments[attribute.name()] = &attribute;
  for (const AttributeProto& attribute : call.attribute()) arguments[attribute.name()] = &attribute;
  return arguments;
}

NodeProto substitute_attributes(const NodeProto& node, const Arguments& arguments) {
  NodeProto copy = node;
  copy.clear_attribute();
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      AttributeProto* const same = copy.add_attribute();
      *same = attribute;
      if (!attribute.has_g()) continue;
      for (NodeProto& inside : *same->mutable_g()->mutable_node()) inside = substitute_attributes(inside, arguments);
      continue;
    }
    const auto given = arguments.find(attribute.ref_attr_name());
    if (given == arguments.end()) continue;
    AttributeProto* const bound = copy.add_attribute();
    *bound = *given->second;
    bound->set_name(attribute.name());
  }
  return copy;
}

NodeProto with_defaults(const NodeProto& node, const ONNX_NAMESPACE::OpSchema& schema) {
  NodeProto copy = node;
  for (const auto& entry : schema.attributes()) {
    const auto& given = node.attribute();
    const bool present =
        std::any_of(given.begin(), given.end(), [&](const AttributeProto& a) { return a.name() == entry.first; });
    const auto& attribute = entry.second;
    if (!present && attribute.default_value.has_type()) *copy.add_attribute() = attribute.default_value;
  }
  return copy;
}

}  // namespace rannc::frontend
