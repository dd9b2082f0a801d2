#include "frontend/onnx/internal/importer.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

#include "frontend/onnx/internal/input_types.h"
#include "frontend/onnx/internal/translation.h"
#include "frontend/onnx/internal/written_out.h"
#include "ir/op.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

class Importer {
 public:
  Importer(const ModelFile& model, uint64_t bytes, const std::string& file, const ImportOptions& options)
      : model_(model),
        head_(model.head()),
        file_(file),
        options_(options),
        external_(file, options.missing_weights),
        growth_(bytes),
        source_{file, &external_, &growth_},
        nodes_(file, options, functions_, source_, external_, notes_, growth_) {}

  Result<Imported> run() {
    RANNC_TRY(import());
    nodes_.finish(graph_);
    recognise_written_out(graph_);
    notes_.nodes = model_.node_count();
    return Imported{std::move(graph_), std::move(notes_)};
  }

  /// Where `run` failed: symbols that would have to be equal.
  const std::optional<SymbolPair>& unequal_symbols() const { return nodes_.unequal_symbols(); }

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
    Scope scope(opsets, region_, "", "", 0);
    scope.values.reserve(model_.node_count() + model_.initializer_count());
    graph_.set_name(head_.graph().name());
    nodes_.begin(head_.graph());
    RANNC_TRY(add_inputs(scope));
    RANNC_TRY(model_.each_initializer([&](const TensorProto& proto) { return nodes_.add_initializer(scope, proto); }));
    RANNC_TRY(model_.each_node([&](const NodeProto& node) { return nodes_.add_node(scope, node); }));
    return add_outputs(scope);
  }

  Place at(std::string_view name) const { return {file_, {}, nullptr, name}; }

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
      RANNC_TRY(nodes_.define(scope, name, value, at(name)));
    }
    return {};
  }

  Result<void> add_outputs(Scope& scope) {
    for (const ValueInfoProto& output : head_.graph().output()) {
      RANNC_ASSIGN(const ValueId value, nodes_.look_up(scope, output.name(), at(output.name())));
      RANNC_ASSIGN(const ValueId named, named_as(value, output.name()));
      graph_.add_output(named);
    }
    if (graph_.outputs().empty()) return error(Location{file_}, "the graph has no outputs");
    return {};
  }

  /// What passes a tensor on, as sequences, optionals and branches do, leaves it the name that it had before.
  Result<ValueId> named_as(ValueId value, const std::string& name) {
    if (graph_.value(value).name == name) return value;
    const TaskId task = graph_.add_task(ir::core("identity"), {&value, 1}, {}, {&name, 1}, at(name));
    RANNC_TRY(ir::infer_types(graph_, task));
    return graph_.outputs(task)[0];
  }

  const ModelFile& model_;
  const ModelProto& head_;
  const std::string& file_;
  const ImportOptions& options_;
  ExternalData external_;
  Growth growth_;
  Node::Source source_;
  Functions functions_;
  ir::Graph graph_;
  ImportNotes notes_;
  Region region_{graph_};
  Translation nodes_;
};

}  // namespace

Result<Imported> import_model(const ModelFile& model, uint64_t bytes, const std::string& file,
                              const ImportOptions& options) {
  ImportOptions tried = options;
  constexpr int kMostSymbols = 32;
  for (int i = 0;; ++i) {
    Importer importer(model, bytes, file, tried);
    auto imported = importer.run();
    const auto& unequal = importer.unequal_symbols();
    if (imported.ok() || !unequal || i == kMostSymbols) return imported;
    if (!tried.same_symbol.emplace(unequal->second, unequal->first).second) return imported;
  }
}

}  // namespace rannc::frontend
