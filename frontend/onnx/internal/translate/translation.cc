#include "frontend/onnx/internal/translate/translation.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/internal/model/function_attributes.h"
#include "frontend/onnx/internal/model/module_paths.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/state/name_source.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr int kMaxDepth = 100;

/// Returns the counterpart in `region` of a value of the enclosing region `of`.
ValueId seen(Region& region, const Region& of, ValueId value) {
  return &region == &of ? value : region.take(seen(*region.around, of, value));
}

/// Warns about a bound of Clip that is a single number of the state: it becomes an attribute and is not trained.
void warn_of_bounds(const NodeProto& node, const ir::Graph& graph, const std::vector<ValueId>& operands,
                    ImportNotes& notes) {
  if (node.op_type() != "Clip") return;
  for (size_t i = 1; i < operands.size(); ++i) {
    if (!operands[i].valid() || !ir::is_float(graph.type(operands[i]).dtype)) continue;
    const std::string name(graph.value(operands[i]).name);
    const auto listed = notes.stored.listed.find(name);
    const bool is_parameter = listed != notes.stored.listed.end() && listed->second == ir::ValueKind::kParameter;
    const bool is_computed = ir::is_folded(name) && !notes.stored.literals.contains(name);
    const auto& shape = graph.type(operands[i]).shape;
    const bool is_number = shape && ir::element_count(*shape) == ir::Dim(1) && !graph.producer(operands[i]).valid();
    if (is_number && (is_parameter || is_computed || notes.stored.weights.contains(name)))
      ++notes.counted_warnings[fmt::format("'{}' is state of the program and bounds a Clip: it is not trained", name)];
  }
}

void set_tensor_type(const ir::ValueType& known, ONNX_NAMESPACE::TypeProto::Tensor& type) {
  type.set_elem_type(onnx_element_type(known.dtype));
  if (!known.shape) return;
  auto* const shape = type.mutable_shape();
  for (const ir::Dim& dim : *known.shape) {
    if (dim.is_constant()) {
      shape->add_dim()->set_dim_value(dim.constant());
    } else {
      shape->add_dim()->set_dim_param(dim.str());
    }
  }
}

}  // namespace

Result<void> Translation::define(Scope& scope, const std::string& name, Item item, const Place& where) {
  const bool fresh = item.list ? scope.values.find(name) == nullptr && scope.lists.emplace(name, *item.list).second
                               : !scope.lists.contains(name) && scope.values.add(name, item.value);
  if (fresh) return {};
  return error(where, fmt::format("'{}' is defined twice", name));
}

Result<void> Translation::define(Scope& scope, const std::string& name, ValueId value, const Place& where) {
  return define(scope, name, Item{value, {}}, where);
}

Result<Translation::Item> Translation::item(const Scope& scope, const std::string& name, const Place& where) {
  for (const Scope* at = &scope; at != nullptr; at = at->around) {
    if (at->absent.contains(name)) return Item{};
    if (const ValueId* const found = at->values.find(name)) {
      if (found->valid()) return Item{seen(scope.region, at->region, *found), {}};
      return error(where, fmt::format("'{}' is read, but this output of its node is not supported", name));
    }
    if (const auto found = at->lists.find(name); found != at->lists.end()) {
      List list = found->second;
      for (ValueId& element : list.elements) element = seen(scope.region, at->region, element);
      return Item{{}, std::move(list)};
    }
  }
  return error(where, fmt::format("'{}' is read, but nothing before defines it", name));
}

Result<ValueId> Translation::look_up(const Scope& scope, const std::string& name, const Place& where) {
  RANNC_ASSIGN(const Item found, item(scope, name, where));
  if (found.value.valid()) return found.value;
  const bool sequence = found.list && !found.list->absent;
  return error(where, fmt::format("'{}' is {} where a tensor is needed", name,
                                  sequence     ? "a sequence"
                                  : found.list ? "an empty optional"
                                               : "absent"));
}

Result<Node::Wiring> Translation::wire(const Scope& scope, const NodeProto& node) {
  Node::Wiring wiring;
  wiring.operands.reserve(static_cast<size_t>(node.input_size()));
  wiring.output_names.reserve(static_cast<size_t>(node.output_size()));
  for (const std::string& input : node.input()) {
    wiring.operands.emplace_back();
    if (input.empty()) continue;
    const ValueId* const here = scope.values.find(input);  // the common case
    if (here != nullptr && here->valid()) {
      wiring.operands.back() = *here;
      continue;
    }
    RANNC_ASSIGN(Item found, item(scope, input, at(scope, node)));
    wiring.operands.back() = found.value;
    if (found.list) wiring.lists.emplace(wiring.operands.size() - 1, *std::move(found.list));
  }
  for (const std::string& output : node.output()) {
    const auto outside = scope.output_names.find(output);
    wiring.output_names.push_back(output.empty()                        ? output
                                  : outside == scope.output_names.end() ? scope.prefix + output
                                                                        : outside->second);
  }
  return wiring;
}

Result<void> Translation::define_outputs(Scope& scope, const NodeProto& node, const std::vector<ValueId>& values) {
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    const bool list = !scope.lists.empty() && scope.lists.contains(name);
    if (list || !scope.values.add(name, values[static_cast<size_t>(i)])) {
      return error(at(scope, node), fmt::format("'{}' is defined twice", name));
    }
  }
  return {};
}

Result<void> Translation::define_outputs(Scope& scope, const NodeProto& node, Items items) {
  items.resize(std::max(items.size(), static_cast<size_t>(node.output_size())));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    RANNC_TRY(define(scope, node.output(i), std::move(items[static_cast<size_t>(i)]), at(scope, node)));
  }
  return {};
}

Result<void> Translation::add_initializer(Scope& scope, const TensorProto& proto) {
  const Place where{file_, scope.prefix, nullptr, proto.name()};
  if (proto.name().empty()) return error(where, "an initializer has no name");
  if (scope.place.in_subgraph) return add_stored(scope, proto);
  RANNC_ASSIGN(Tensor tensor, read_tensor(proto, file_, external_, where));
  state_.store(scope.prefix + proto.name());
  const ValueId value = scope.region.graph.add_value(ir::ValueKind::kConstant, scope.prefix + proto.name(),
                                                     std::move(tensor.type), std::move(tensor.data));
  return define(scope, proto.name(), value, where);
}

Result<void> Translation::add_node(Scope& scope, const NodeProto& node) {
  RANNC_TRY(translate(scope, node));
  return count(scope, at(scope, node));
}

Result<void> Translation::translate(Scope& scope, const NodeProto& node) {
  if (scope.depth > kMaxDepth) return error(at(scope, node), "functions and subgraphs are nested too deep");
  if (!node.domain().empty() && domain_of(node.domain()).empty()) {  // ONNX's registry has only the empty name
    NodeProto plain = node;
    plain.clear_domain();
    return translate(scope, plain);
  }
  if (const FunctionProto* const function = functions_.find(node)) {
    RANNC_ASSIGN(const Opsets opsets, read_opsets(*function, at(scope, node)));
    return call(scope, node, node, *function, opsets);
  }
  const auto opset = scope.opsets.find(domain_of(node.domain()));
  if (opset == scope.opsets.end()) {
    return error(at(scope, node), fmt::format("no version of the operator set '{}' is imported", node.domain()));
  }
  const int version = version_of(node, opset->second);
  RANNC_TRY(check_node(scope, node, version));
  const bool standard = domain_of(node.domain()).empty();
  if (standard && has_subgraphs(node.op_type())) return add_control(scope, node, version);
  const Translate translate = standard ? find_translator(node.op_type(), version) : nullptr;
  if (!translate) return call_schema(scope, node, version);
  if (scope.place.in_subgraph) {
    RANNC_ASSIGN(const bool stored, stores(scope, node, version));
    if (stored) return {};
  }
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  ir::Graph& graph = scope.region.graph;
  wiring.traced = traced_call(node);
  state_.read(graph, wiring.operands,
              {node, scope.prefix + node_name(node), scope.module, scope.prefix, wiring.traced,
               scope.region.around != nullptr});
  if (scope.region.around == nullptr) unweighted_.read(graph, wiring.operands, wiring.traced);
  if (!wiring.lists.empty() && !takes_lists(node.op_type())) {
    const auto& [index, list] = *wiring.lists.begin();
    RANNC_TRY(look_up(scope, node.input(static_cast<int>(index)), at(scope, node)));
  }
  if (scope.region.around == nullptr) {
    note_module(node, scope.prefix + node_name(node), scope.module, notes_.training);
    const std::string_view result = wiring.output_names.empty() ? std::string_view() : wiring.output_names[0];
    training_mode_.read({graph, node, version, wiring.operands, result}, wiring.traced);
  }
  if (wiring.traced) RANNC_TRY(detached_.stop(graph, node, *wiring.traced, at(scope, node), wiring.operands));
  if (scope.region.around != nullptr) restore_bias(scope, node, wiring);
  warn_of_bounds(node, graph, wiring.operands, notes_);
  Node view(graph, node, version, at(scope, node), std::move(wiring), source_);
  translate(view);
  unequal_symbols_ = view.unequal_symbols();
  if (view.failure()) return Diagnostic(*view.failure());
  if (view.by_definition()) return call_schema(scope, node, version);
  if (!view.remark().empty()) ++notes_.counted_remarks[view.remark()];
  if (view.is_literal()) notes_.stored.literals.emplace(graph.value(view.outputs()[0]).name);
  for (const ValueId table : view.tables()) notes_.stored.literals.emplace(graph.value(table).name);
  for (const ValueId weight : view.weights()) notes_.stored.weights.emplace(graph.value(weight).name);
  notes_.remarks.insert(notes_.remarks.end(), view.remarks().begin(), view.remarks().end());
  if (view.output_lists().empty()) return define_outputs(scope, node, view.outputs());
  Items items;
  for (size_t i = 0; i < view.outputs().size(); ++i) {
    const auto list = view.output_lists().find(i);
    items.push_back(list == view.output_lists().end() ? Item{view.outputs()[i], {}} : Item{{}, list->second});
  }
  return define_outputs(scope, node, std::move(items));
}

/// Runs ONNX's check of a node against its schema: attributes, their types, number of operands. A version that ONNX has
/// withdrawn is accepted if there is a translator, which does its own checks.
Result<void> Translation::check_node(const Scope& scope, const NodeProto& node, int opset) const {
  const bool standard = domain_of(node.domain()).empty();
  const auto schema = [&] {
    return ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), opset, domain_of(node.domain()));
  };
  try {
    // Nodes of subgraphs are checked individually, because they read names from outside.
    const bool alone = has_subgraphs(node.op_type()) || opset != scope.opsets.at(domain_of(node.domain()));
    if (const auto* const own = standard && alone ? schema() : nullptr) {
      own->Verify(node);
    } else if (has_external_data(node)) {
      ONNX_NAMESPACE::checker::check_node(without_external_data(node), scope.checker, {});
    } else {
      ONNX_NAMESPACE::checker::check_node(node, scope.checker, {});
    }
  } catch (const std::exception& failure) {
    const auto* const withdrawn = standard && find_translator(node.op_type(), opset) ? schema() : nullptr;
    if (withdrawn != nullptr && withdrawn->Deprecated()) return {};
    const std::string_view what = failure.what();
    return error(at(scope, node), fmt::format("not a valid {}: {}", node.op_type(), what.substr(0, what.find('\n'))));
  }
  return {};
}

/// Expands an operator that ONNX defines by other operators, possibly depending on operand types.
Result<void> Translation::call_schema(Scope& scope, const NodeProto& node, int opset) {
  const auto* const schema = ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), opset, domain_of(node.domain()));
  FunctionProto body;
  bool built = false;
  try {
    if (schema && schema->HasContextDependentFunction()) {
      RANNC_ASSIGN(const std::vector<ONNX_NAMESPACE::TypeProto> types, operand_types(scope, node));
      const ONNX_NAMESPACE::FunctionBodyBuildContextImpl context(node, types);
      built = schema->BuildContextDependentFunction(context, body, opset);
    }
    if (const auto* const fixed = !built && schema ? schema->GetFunction(opset) : nullptr) {
      body = *fixed;
      built = true;
    }
  } catch (const std::exception& failure) {
    return error(at(scope, node), fmt::format("{}: {}", node.op_type(), failure.what()));
  }
  if (!built) return error(at(scope, node), fmt::format("no translation for operator {}", node.op_type()));
  Opsets opsets = scope.opsets;
  for (const auto& entry : body.opset_import()) {
    if (domain_of(entry.domain()).empty()) opsets[""] = static_cast<int>(entry.version());
  }
  return call(scope, node, with_defaults(node, *schema), body, opsets);
}

Result<std::vector<ONNX_NAMESPACE::TypeProto>> Translation::operand_types(const Scope& scope, const NodeProto& node) {
  std::vector<ONNX_NAMESPACE::TypeProto> types;
  for (const std::string& input : node.input()) {
    ONNX_NAMESPACE::TypeProto& type = types.emplace_back();
    if (input.empty()) continue;
    RANNC_ASSIGN(const Item found, item(scope, input, at(scope, node)));
    if (found.value.valid()) set_tensor_type(scope.region.graph.type(found.value), *type.mutable_tensor_type());
    if (!found.list || found.list->elements.empty()) continue;
    auto* const element = type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
    element->set_elem_type(onnx_element_type(scope.region.graph.type(found.list->elements[0]).dtype));
  }
  return types;
}

/// Translates the body of a function in its own scope, with the attributes of `completed`. Optional inputs that the
/// call omits are absent operands inside.
Result<void> Translation::call(Scope& scope, const NodeProto& node, const NodeProto& completed,
                               const FunctionProto& function, const Opsets& opsets) {
  const Place where = at(scope, node);
  RANNC_ASSIGN(const Node::Wiring wiring, wire(scope, node));
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    return error(where,
                 fmt::format("{} has {} operands and {} outputs, its function takes {} and makes {}", node.op_type(),
                             node.input_size(), node.output_size(), function.input_size(), function.output_size()));
  }
  Scope inner(opsets, scope.region, scope.prefix + node_name(node) + "/",
              scope.module.empty() ? module_path(node) : scope.module, scope.depth + 1, nullptr,
              scope.place.function_of(node, function));
  inner.maker = fmt::format("function '{}'", function.name());
  for (int i = 0; i < function.input_size(); ++i) {
    const auto index = static_cast<size_t>(i);
    const auto list = wiring.lists.find(index);
    const ValueId given = index < wiring.operands.size() ? wiring.operands[index] : ValueId();
    if (given.valid() || list != wiring.lists.end()) {
      Item item{given, {}};
      if (list != wiring.lists.end()) item.list = list->second;
      RANNC_TRY(define(inner, function.input(i), std::move(item), where));
    } else {
      inner.absent.insert(function.input(i));
    }
  }
  for (int i = 0; i < node.output_size(); ++i) {
    inner.output_names.emplace(function.output(i), wiring.output_names[static_cast<size_t>(i)]);
  }
  const Arguments arguments = arguments_of(function, completed);
  for (const NodeProto& part : function.node()) RANNC_TRY(add_node(inner, substitute_attributes(part, arguments)));
  Items results(static_cast<size_t>(node.output_size()));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    RANNC_ASSIGN(results[static_cast<size_t>(i)], item(inner, function.output(i), where));
  }
  return define_outputs(scope, node, std::move(results));
}

}  // namespace rannc::frontend
