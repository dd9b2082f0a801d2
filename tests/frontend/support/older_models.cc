#include "tests/frontend/support/older_models.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "frontend/onnx/internal/translate/tensor.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/graph/constant.h"
#include "onnx/defs/schema.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::test {

using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::OpSchema;
using ONNX_NAMESPACE::OpSchemaRegistry;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr int kOldest = 7, kNewest = 27;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Operands by the names of their schema.
std::map<std::string, std::string> operands_by_name(const NodeProto& node, const OpSchema& schema) {
  std::map<std::string, std::string> found;
  for (int i = 0; i < node.input_size(); ++i) {
    const auto index = static_cast<size_t>(i);
    if (index < schema.inputs().size() && !node.input(i).empty()) {
      found[lower(schema.inputs()[index].GetName())] = node.input(i);
    }
  }
  return found;
}

class Rewriting {
 public:
  Rewriting(const NodeCase& found, ModelProto& model, const OpSchema& from, const OpSchema& to)
      : case_(found), graph_(*model.mutable_graph()), node_(*graph_.mutable_node(0)), from_(from), to_(to) {}

  bool run() {
    if (static_cast<size_t>(node_.output_size()) > to_.outputs().size() && !ends_variadic(to_.outputs())) return false;
    const bool same = from_.since_version() == to_.since_version();
    if (!same && (!move_operands() || !drop_attributes())) return false;
    drop_unread_inputs();
    return true;
  }

 private:
  static bool ends_variadic(const std::vector<OpSchema::FormalParameter>& parameters) {
    return !parameters.empty() && parameters.back().GetOption() == OpSchema::Variadic;
  }

  /// By name, or by place where the name was another.
  bool move_operands() {
    if (ends_variadic(from_.inputs())) return ends_variadic(to_.inputs());
    std::map<std::string, std::string> given = operands_by_name(node_, from_);
    const NodeProto old = node_;
    node_.clear_input();
    for (size_t i = 0; i < to_.inputs().size(); ++i) {
      std::string name = lower(to_.inputs()[i].GetName());
      if (!given.contains(name) && i < from_.inputs().size() && !has_operand(to_, from_.inputs()[i].GetName())) {
        name = lower(from_.inputs()[i].GetName());
      }
      const auto operand = given.find(name);
      node_.add_input(operand == given.end() ? "" : operand->second);
      if (operand != given.end()) given.erase(operand);
    }
    while (node_.input_size() > 0 && node_.input(node_.input_size() - 1).empty()) node_.mutable_input()->RemoveLast();
    return std::all_of(given.begin(), given.end(), [&](const auto& one) { return becomes_attribute(one); });
  }

  static bool has_operand(const OpSchema& schema, const std::string& name) {
    return std::any_of(schema.inputs().begin(), schema.inputs().end(),
                       [&](const auto& operand) { return lower(operand.GetName()) == lower(name); });
  }

  std::optional<TensorProto> data_of(const std::string& name) const {
    for (const TensorProto& tensor : graph_.initializer()) {
      if (tensor.name() == name) return tensor;
    }
    for (int i = 0; i < graph_.input_size(); ++i) {
      TensorProto tensor;
      const auto file = case_.folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
      if (graph_.input(i).name() == name && tensor.ParseFromString(read_file(file))) return tensor;
    }
    return std::nullopt;
  }

  bool becomes_attribute(const std::pair<const std::string, std::string>& operand) {
    const auto attribute = to_.attributes().find(operand.first);
    auto tensor = data_of(operand.second);
    if (attribute == to_.attributes().end() || !tensor) return false;
    tensor->clear_doc_string();
    frontend::ExternalData external(case_.folder / "model.onnx");
    const auto read = frontend::read_tensor(*tensor, "", external, {});
    const auto numbers = read.ok() ? ir::decode_numbers(read->type, read->data, 1000)
                                   : Result<std::vector<double>>(Diagnostic(read.diagnostic()));
    if (!numbers.ok()) return false;
    AttributeProto& made = *node_.add_attribute();
    made.set_name(operand.first);
    made.set_type(static_cast<AttributeProto::AttributeType>(attribute->second.type));
    for (const double number : *numbers) {
      made.set_i(static_cast<int64_t>(number));
      made.set_f(static_cast<float>(number));
      if (made.type() == AttributeProto::INTS) made.add_ints(made.i());
      if (made.type() == AttributeProto::FLOATS) made.add_floats(made.f());
    }
    if (made.type() != AttributeProto::INT) made.clear_i();
    if (made.type() != AttributeProto::FLOAT) made.clear_f();
    return true;
  }

  bool drop_attributes() {
    auto& attributes = *node_.mutable_attribute();
    for (int i = attributes.size() - 1; i >= 0; --i) {
      if (to_.attributes().contains(attributes[i].name())) continue;
      const auto known = from_.attributes().find(attributes[i].name());
      if (known == from_.attributes().end()) return false;
      const AttributeProto& otherwise = known->second.default_value;
      const bool is_default = attributes[i].i() == otherwise.i() && attributes[i].f() == otherwise.f() &&
                              attributes[i].s() == otherwise.s() && attributes[i].ints_size() == 0;
      if (!is_default) return false;
      attributes.DeleteSubrange(i, 1);
    }
    return true;
  }

  bool is_read(const std::string& name) const {
    return std::find(node_.input().begin(), node_.input().end(), name) != node_.input().end();
  }

  void drop_unread_inputs() {
    auto& inputs = *graph_.mutable_input();
    for (int i = inputs.size() - 1; i >= 0; --i) {
      if (!is_read(inputs[i].name())) inputs.DeleteSubrange(i, 1);
    }
    auto& initializers = *graph_.mutable_initializer();
    for (int i = initializers.size() - 1; i >= 0; --i) {
      if (!is_read(initializers[i].name())) initializers.DeleteSubrange(i, 1);
    }
  }

  const NodeCase& case_;
  GraphProto& graph_;
  NodeProto& node_;
  const OpSchema& from_;
  const OpSchema& to_;
};

/// The words of a text.
std::string words(const char* text) {
  std::istringstream in(text ? text : "");
  std::string all;
  for (std::string word; in >> word;) all += word + " ";
  return all;
}

std::vector<std::string> names(const std::vector<OpSchema::FormalParameter>& parameters) {
  std::vector<std::string> found;
  for (const auto& parameter : parameters) found.push_back(parameter.GetName());
  return found;
}

std::map<std::string, std::string> attributes(const OpSchema& schema) {
  std::map<std::string, std::string> found;
  for (const auto& [name, attribute] : schema.attributes()) {
    found[name] = std::to_string(attribute.required) + attribute.default_value.SerializeAsString();
  }
  return found;
}

bool says_the_same(const OpSchema& a, const OpSchema& b) {
  return words(a.doc()) == words(b.doc()) && names(a.inputs()) == names(b.inputs()) &&
         names(a.outputs()) == names(b.outputs()) && attributes(a) == attributes(b);
}

}  // namespace

std::vector<std::pair<std::string, int>> changed_versions() {
  std::vector<std::pair<std::string, int>> changed;
  for (const auto& [op, opsets] : operator_versions()) {
    for (size_t i = 1; i < opsets.size(); ++i) {
      const OpSchema* const before = OpSchemaRegistry::Schema(op, opsets[i - 1], "");
      const OpSchema* const now = OpSchemaRegistry::Schema(op, opsets[i], "");
      if (!says_the_same(*before, *now)) changed.emplace_back(op, opsets[i]);
    }
  }
  return changed;
}

std::vector<VersionsOfOperator> operator_versions() {
  std::map<std::string, std::vector<int>> by_name;
  for (const OpSchema& schema : OpSchemaRegistry::get_all_schemas_with_history()) {
    if (!schema.domain().empty()) continue;
    const int first = std::max(schema.since_version(), kOldest);
    if (first > kNewest || (schema.Deprecated() && !frontend::find_translator(schema.Name(), first))) continue;
    const OpSchema* const in_force = OpSchemaRegistry::Schema(schema.Name(), first, "");
    if (in_force && in_force->since_version() == schema.since_version()) by_name[schema.Name()].push_back(first);
  }
  std::vector<VersionsOfOperator> all;
  for (auto& [op, opsets] : by_name) {
    std::sort(opsets.begin(), opsets.end());
    all.push_back({op, std::move(opsets)});
  }
  return all;
}

std::optional<std::string> at_opset(const NodeCase& found, int opset) {
  ModelProto model;
  if (!model.ParseFromString(found.model) || model.graph().node_size() != 1) return std::nullopt;
  for (auto& import : *model.mutable_opset_import()) {
    if (!import.domain().empty()) continue;
    const OpSchema* const from = OpSchemaRegistry::Schema(found.op, static_cast<int>(import.version()), "");
    const OpSchema* const to = OpSchemaRegistry::Schema(found.op, opset, "");
    import.set_version(opset);
    if (!from || !to || !Rewriting(found, model, *from, *to).run()) return std::nullopt;
  }
  return model.SerializeAsString();
}

}  // namespace rannc::test
