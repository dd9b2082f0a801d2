#include "frontend/onnx/internal/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/onnx/internal/function_attributes.h"
#include "frontend/onnx/internal/input_types.h"
#include "frontend/onnx/internal/module_paths.h"
#include "frontend/onnx/internal/names.h"
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/scan.h"
#include "frontend/onnx/internal/translators.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// What ONNX's checker is told of the operator sets of a body.
ONNX_NAMESPACE::checker::CheckerContext checker_context(const Opsets& opsets) {
  ONNX_NAMESPACE::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(ONNX_NAMESPACE::Version::IR_VERSION));
  std::unordered_map<std::string, int> imports(opsets.begin(), opsets.end());
  if (const auto standard = imports.find(""); standard != imports.end()) imports["ai.onnx"] = standard->second;
  context.set_opset_imports(std::move(imports));
  return context;
}

/// The names of one body: the model's graph, or one call of a function.
struct Scope {
  Scope(const Opsets& opsets, std::string prefix, std::string module, int depth)
      : opsets(opsets),
        checker(checker_context(opsets)),
        prefix(std::move(prefix)),
        module(std::move(module)),
        depth(depth) {}

  const Opsets& opsets;
  const ONNX_NAMESPACE::checker::CheckerContext checker;
  std::string prefix;                                         ///< of nodes and values inside
  std::string module;                                         ///< that all nodes inside belong to; empty: ask each
  std::unordered_map<std::string, std::string> output_names;  ///< formal output -> name outside
  Names values;
  int depth = 0;
};

/// A node, or a name, of the model; spelt out only for a message.
struct Place {
  const std::string& file;
  std::string_view prefix;  ///< of a node's name
  const NodeProto* node = nullptr;
  std::string_view name;

  operator Location() const {  // NOLINT: a place is a location
    return {file, 0, 0, node ? std::string(prefix) + node_name(*node) : std::string(name)};
  }
};

constexpr int kMaxDepth = 100;

class Importer {
 public:
  Importer(const ModelFile& model, const std::string& file, const ImportOptions& options)
      : model_(model),
        head_(model.head()),
        file_(file),
        options_(options),
        external_(file, options.missing_weights),
        source_{file, &external_} {}

  Result<Imported> run() {
    RANNC_TRY(import());
    return Imported{std::move(graph_), std::move(notes_)};
  }

  /// Where `run` failed: symbols that would have to be equal.
  const std::optional<SymbolPair>& unequal_symbols() const { return unequal_symbols_; }

 private:
  Result<void> import() {
    if (!head_.has_graph()) return error(Location{file_}, "not an ONNX model: it has no graph");
    if (head_.graph().sparse_initializer_size() > 0) {
      return error(Location{file_, 0, 0, head_.graph().sparse_initializer(0).values().name()},
                   "sparse initializers are not supported");
    }
    RANNC_ASSIGN(const Opsets opsets, read_opsets(head_, Location{file_}));
    RANNC_ASSIGN(functions_, Functions::read(head_, file_));
    // Without functions a look at all operators is needed only where one of them is not translated.
    if (functions_.empty() && model_.node_count() <= options_.max_nodes) {
      const auto translated = translate(opsets);
      if (!translated.ok()) {
        RANNC_TRY(check_operators(model_, functions_, opsets, options_.max_nodes, file_));
        return translated.diagnostic();
      }
      return {};
    }
    RANNC_TRY(check_operators(model_, functions_, opsets, options_.max_nodes, file_));
    return translate(opsets);
  }

  Result<void> translate(const Opsets& opsets) {
    Scope scope(opsets, "", "", 0);
    scope.values.reserve(model_.node_count() + model_.initializer_count());
    graph_.set_name(head_.graph().name());
    RANNC_TRY(add_inputs(scope));
    RANNC_TRY(add_initializers(scope));
    RANNC_TRY(model_.each_node([&](const NodeProto& node) { return add_node(scope, node); }));
    return add_outputs(scope);
  }

  Place at(const Scope& scope, const NodeProto& node) const { return {file_, scope.prefix, &node, {}}; }
  Place at(std::string_view name) const { return {file_, {}, nullptr, name}; }

  Result<void> define(Scope& scope, const std::string& name, ValueId value, const Place& where) {
    if (scope.values.add(name, value)) return {};
    return error(where, fmt::format("'{}' is defined twice", name));
  }

  Result<ValueId> look_up(const Scope& scope, const std::string& name, const Place& where) const {
    const ValueId* const found = scope.values.find(name);
    if (found == nullptr) return error(where, fmt::format("'{}' is read, but nothing before makes it", name));
    if (!found->valid()) {
      return error(where, fmt::format("'{}' is read, but this output of its node is not supported", name));
    }
    return *found;
  }

  /// Up to version 3 of the format initializers are inputs too, with a default nobody overrides.
  Result<void> add_inputs(Scope& scope) {
    std::unordered_set<std::string_view> listed, initialized;
    for (const ValueInfoProto& input : head_.graph().input()) listed.insert(input.name());
    if (!listed.empty()) {
      RANNC_TRY(model_.each_initializer([&](const TensorProto& tensor) -> Result<void> {
        if (const auto name = listed.find(tensor.name()); name != listed.end()) initialized.insert(*name);
        return {};
      }));
    }
    std::vector<const ValueInfoProto*> inputs;
    for (const ValueInfoProto& input : head_.graph().input()) {
      if (!initialized.contains(input.name())) inputs.push_back(&input);
    }
    RANNC_ASSIGN(InputTypes types, read_input_types(inputs, options_, file_));
    graph_.set_batch_symbol(types.batch_symbol);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = inputs[i]->name();
      if (name.empty()) return error(Location{file_}, fmt::format("input {} has no name", i));
      const ValueId value = graph_.add_value(ir::ValueKind::kInput, name, std::move(types.types[i]));
      graph_.add_input(value);
      RANNC_TRY(define(scope, name, value, at(name)));
    }
    return {};
  }

  Result<void> add_initializers(Scope& scope) {
    Location where{file_, 0, 0, {}};
    return model_.each_initializer([&](const TensorProto& proto) -> Result<void> {
      where.node = proto.name();
      if (proto.name().empty()) return error(where, "an initializer has no name");
      RANNC_ASSIGN(Tensor tensor, read_tensor(proto, file_, external_, where));
      const ValueId value =
          graph_.add_value(ir::ValueKind::kConstant, proto.name(), std::move(tensor.type), std::move(tensor.data));
      return define(scope, proto.name(), value, at(proto.name()));
    });
  }

  Result<void> add_outputs(const Scope& scope) {
    for (const ValueInfoProto& output : head_.graph().output()) {
      RANNC_ASSIGN(const ValueId value, look_up(scope, output.name(), at(output.name())));
      graph_.add_output(value);
    }
    if (graph_.outputs().empty()) return error(Location{file_}, "the graph has no outputs");
    return {};
  }

  Result<Node::Wiring> wire(const Scope& scope, const NodeProto& node) const {
    Node::Wiring wiring;
    for (const std::string& input : node.input()) {
      ValueId value;
      if (!input.empty()) {
        RANNC_ASSIGN(value, look_up(scope, input, at(scope, node)));
      }
      wiring.operands.push_back(value);
    }
    for (const std::string& output : node.output()) {
      const auto outside = scope.output_names.find(output);
      wiring.output_names.push_back(output.empty()                        ? output
                                    : outside == scope.output_names.end() ? scope.prefix + output
                                                                          : outside->second);
    }
    return wiring;
  }

  Result<void> define_outputs(Scope& scope, const NodeProto& node, const std::vector<ValueId>& values) {
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      RANNC_TRY(define(scope, node.output(i), values[static_cast<size_t>(i)], at(scope, node)));
    }
    return {};
  }

  Result<void> add_node(Scope& scope, const NodeProto& node) {
    if (scope.depth > kMaxDepth) return error(at(scope, node), "functions are nested too deep");
    if (const FunctionProto* const function = functions_.find(node)) {
      RANNC_ASSIGN(const Opsets opsets, read_opsets(*function, at(scope, node)));
      return call(scope, node, node, *function, opsets);
    }
    const auto opset = scope.opsets.find(domain_of(node.domain()));
    if (opset == scope.opsets.end()) {
      return error(at(scope, node), fmt::format("no version of the operator set '{}' is imported", node.domain()));
    }
    RANNC_TRY(check_node(scope, node));
    const Translate translate =
        domain_of(node.domain()).empty() ? find_translator(node.op_type(), opset->second) : nullptr;
    if (!translate) return call_schema(scope, node, opset->second);
    RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
    note_readers(graph_, wiring.operands, node, scope.module, notes_);
    Node view(graph_, node, opset->second, at(scope, node), std::move(wiring), source_);
    translate(view);
    unequal_symbols_ = view.unequal_symbols();
    if (view.failure()) return Diagnostic(*view.failure());
    if (view.by_definition()) return call_schema(scope, node, opset->second);
    if (node.op_type() == "Constant" && view.outputs()[0].valid()) {
      notes_.literals.emplace(graph_.value(view.outputs()[0]).name);
    }
    return define_outputs(scope, node, view.outputs());
  }

  /// ONNX's own check of a node against its operator's schema: attributes, their types, numbers of operands.
  Result<void> check_node(const Scope& scope, const NodeProto& node) const {
    try {
      ONNX_NAMESPACE::checker::check_node(node, scope.checker, {});
    } catch (const std::exception& failure) {
      const std::string_view what = failure.what();
      return error(at(scope, node), fmt::format("not a valid {}: {}", node.op_type(), what.substr(0, what.find('\n'))));
    }
    return {};
  }

  /// An operator that ONNX defines by other operators, perhaps depending on the types of its operands.
  Result<void> call_schema(Scope& scope, const NodeProto& node, int opset) {
    const auto* const schema =
        ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), opset, domain_of(node.domain()));
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
    Opsets opsets{{"", opset}};
    for (const auto& entry : body.opset_import()) {
      if (domain_of(entry.domain()).empty()) opsets[""] = static_cast<int>(entry.version());
    }
    return call(scope, node, with_defaults(node, *schema), body, opsets);
  }

  Result<std::vector<ONNX_NAMESPACE::TypeProto>> operand_types(const Scope& scope, const NodeProto& node) const {
    std::vector<ONNX_NAMESPACE::TypeProto> types;
    for (const std::string& input : node.input()) {
      ONNX_NAMESPACE::TypeProto& type = types.emplace_back();
      if (input.empty()) continue;
      RANNC_ASSIGN(const ValueId value, look_up(scope, input, at(scope, node)));
      const ir::ValueType& known = graph_.type(value);
      type.mutable_tensor_type()->set_elem_type(onnx_element_type(known.dtype));
      if (!known.shape) continue;
      auto* const shape = type.mutable_tensor_type()->mutable_shape();
      for (const ir::Dim& dim : *known.shape) {
        if (dim.is_constant()) {
          shape->add_dim()->set_dim_value(dim.constant());
        } else {
          shape->add_dim()->set_dim_param(dim.str());
        }
      }
    }
    return types;
  }

  /// Translates the body of a function in a scope of its own, with the attributes of `completed`.
  Result<void> call(Scope& scope, const NodeProto& node, const NodeProto& completed, const FunctionProto& function,
                    const Opsets& opsets) {
    const Place where = at(scope, node);
    RANNC_ASSIGN(const Node::Wiring wiring, wire(scope, node));
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      return error(where,
                   fmt::format("{} has {} operands and {} outputs, its function takes {} and makes {}", node.op_type(),
                               node.input_size(), node.output_size(), function.input_size(), function.output_size()));
    }
    Scope inner(opsets, scope.prefix + node_name(node) + "/",
                scope.module.empty() ? module_path(node) : scope.module, scope.depth + 1);
    for (int i = 0; i < function.input_size(); ++i) {
      const auto index = static_cast<size_t>(i);
      const ValueId given = index < wiring.operands.size() ? wiring.operands[index] : ValueId();
      if (given.valid()) {
        RANNC_TRY(define(inner, function.input(i), given, where));
      } else {
        absent_.insert(inner.prefix + function.input(i));
      }
    }
    for (int i = 0; i < node.output_size(); ++i) {
      inner.output_names.emplace(function.output(i), wiring.output_names[static_cast<size_t>(i)]);
    }
    const Arguments arguments = arguments_of(function, completed);
    for (const NodeProto& part : function.node()) {
      RANNC_TRY(add_node(inner, without_absent(inner, substitute_attributes(part, arguments))));
    }
    std::vector<ValueId> results;
    for (int i = 0; i < node.output_size(); ++i) {
      ValueId value;
      if (!node.output(i).empty()) {
        RANNC_ASSIGN(value, look_up(inner, function.output(i), where));
      }
      results.push_back(value);
    }
    return define_outputs(scope, node, results);
  }

  /// Operands that stand for optional inputs which the caller left out are absent themselves.
  NodeProto without_absent(const Scope& scope, NodeProto node) const {
    for (std::string& input : *node.mutable_input()) {
      if (!input.empty() && absent_.contains(scope.prefix + input)) input.clear();
    }
    return node;
  }

  const ModelFile& model_;
  const ModelProto& head_;
  const std::string& file_;
  const ImportOptions& options_;
  ExternalData external_;
  Node::Source source_;
  Functions functions_;
  ir::Graph graph_;
  ImportNotes notes_;
  std::optional<SymbolPair> unequal_symbols_;
  std::unordered_set<std::string> absent_;  ///< full names of formal inputs that a call leaves out
};

}  // namespace

Result<Imported> import_model(const ModelFile& model, const std::string& file, const ImportOptions& options) {
  ImportOptions tried = options;
  constexpr int kMostSymbols = 32;
  for (int i = 0;; ++i) {
    Importer importer(model, file, tried);
    auto imported = importer.run();
    const auto& unequal = importer.unequal_symbols();
    if (imported.ok() || !unequal || i == kMostSymbols) return imported;
    if (!tried.same_symbol.emplace(unequal->second, unequal->first).second) return imported;
  }
}

}  // namespace rannc::frontend
