#include "frontend/onnx/internal/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "frontend/onnx/internal/input_types.h"
#include "frontend/onnx/internal/needed.h"
#include "frontend/onnx/internal/translation.h"
#include "frontend/onnx/internal/written_out.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// Whether torch.onnx.export wrote the file with dynamo=False: the other exporter of PyTorch leaves metadata in the
/// graph, or imports domains of its own.
bool is_traced(const ModelProto& head) {
  const auto own = [](const auto& entry) { return entry.key().starts_with("pkg.torch"); };
  const auto foreign = [](const auto& opset) { return opset.domain().starts_with("pkg."); };
  return head.producer_name() == "pytorch" &&
         std::none_of(head.graph().metadata_props().begin(), head.graph().metadata_props().end(), own) &&
         std::none_of(head.opset_import().begin(), head.opset_import().end(), foreign);
}

/// Whether an initializer of such a file is a single number of the program's state: the exporter writes numbers of the
/// code as nodes, and calls what it computed `onnx::Mul_12` or, in old versions, `12`.
bool is_number_of_state(const TensorProto& tensor) {
  const std::string_view name = tensor.name();
  const bool single = std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t size) { return size == 1; });
  return single && !name.starts_with("onnx::") && name.find('/') == std::string_view::npos &&
         name.find_first_not_of("0123456789") != std::string_view::npos;
}

class Importer {
 public:
  /// `needed` is null where all is.
  Importer(const ModelFile& model, uint64_t bytes, const std::string& file, const ImportOptions& options,
           const Needed* needed)
      : model_(model),
        needed_(needed),
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
        RANNC_TRY(check_operators(model_, functions_, opsets, {options_.max_nodes, needed_}, file_));
        return translated.diagnostic();
      }
      return {};
    }
    RANNC_TRY(check_operators(model_, functions_, opsets, {options_.max_nodes, needed_}, file_));
    return translate(opsets);
  }

  Result<void> translate(const Opsets& opsets) {
    Scope scope(opsets, region_, "", "", 0);
    scope.values.reserve(model_.node_count() + model_.initializer_count());
    graph_.set_name(head_.graph().name());
    nodes_.begin(head_.graph());
    RANNC_TRY(add_inputs(scope));
    const bool traced = is_traced(head_);
    RANNC_TRY(model_.each_initializer([&](const TensorProto& proto) {
      if (traced && is_number_of_state(proto)) notes_.stored.weights.insert(proto.name());
      return nodes_.add_initializer(scope, proto);
    }));
    size_t next = 0;
    RANNC_TRY(model_.each_node([&](const NodeProto& node) -> Result<void> {
      const bool is_needed = needed_ == nullptr || needed_->nodes[next];
      ++next;
      return is_needed ? nodes_.add_node(scope, node) : Result<void>();
    }));
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
    const auto& outputs = head_.graph().output();
    for (int i = 0; i < outputs.size(); ++i) {
      const ValueInfoProto& output = outputs[i];
      if (needed_ != nullptr && !needed_->outputs[static_cast<size_t>(i)]) continue;
      RANNC_ASSIGN(const ValueId value, nodes_.look_up(scope, output.name(), at(output.name())));
      graph_.add_output(value);
    }
    if (graph_.outputs().empty()) return error(Location{file_}, "the graph has no outputs");
    return {};
  }

  const ModelFile& model_;
  const Needed* const needed_;
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

namespace {

Result<Imported> import_needed(const ModelFile& model, uint64_t bytes, const std::string& file,
                               const ImportOptions& options, const Needed* needed) {
  ImportOptions tried = options;
  constexpr int kMostSymbols = 32;
  for (int i = 0;; ++i) {
    Importer importer(model, bytes, file, tried, needed);
    auto imported = importer.run();
    const auto& unequal = importer.unequal_symbols();
    if (imported.ok() || !unequal || i == kMostSymbols) return imported;
    if (!tried.same_symbol.emplace(unequal->second, unequal->first).second) return imported;
  }
}

/// What was left out, since the whole model failed so.
void note_left_out(const ModelFile& model, const Needed& needed, const Diagnostic& why, ImportNotes& notes) {
  const auto& outputs = model.head().graph().output();
  for (int i = 0; i < outputs.size(); ++i) {
    if (needed.outputs[static_cast<size_t>(i)]) continue;
    notes.open.push_back({why.where, fmt::format("output {} is left out, as the loss does not read it: {}",
                                                 outputs[i].name(), why.message)});
  }
  if (std::find(needed.outputs.begin(), needed.outputs.end(), false) != needed.outputs.end()) return;
  notes.remarks.push_back(
      {why.where, fmt::format("{} nodes are left out, as no output needs them: {}",
                              std::count(needed.nodes.begin(), needed.nodes.end(), false), why.message)});
}

}  // namespace

Result<Imported> import_model(const ModelFile& model, uint64_t bytes, const std::string& file,
                              const ImportOptions& options) {
  auto imported = import_needed(model, bytes, file, options, nullptr);
  if (imported.ok()) return imported;
  const auto needed = needed_for(model, options.asked);
  if (!needed.ok() || !needed->leaves_out()) return imported;
  auto without = import_needed(model, bytes, file, options, &*needed);
  if (without.ok()) note_left_out(model, *needed, imported.diagnostic(), without->notes);
  return without;
}

}  // namespace rannc::frontend
