#include "frontend/onnx/internal/translate/importer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <vector>

#include "frontend/internal/rows/all_rows.h"
#include "frontend/onnx/internal/control/written_out.h"
#include "frontend/onnx/internal/model/input_types.h"
#include "frontend/onnx/internal/model/live_inputs.h"
#include "frontend/onnx/internal/model/needed.h"
#include "frontend/onnx/internal/state/folded_values.h"
#include "frontend/onnx/internal/translate/translation.h"
#include "frontend/symbols.h"
#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// Whether torch.onnx.export wrote the file with dynamo=False. PyTorch's other exporter writes metadata into the graph
/// or imports its own domains.
bool is_traced(const ModelProto& head) {
  const auto own = [](const auto& entry) { return entry.key().starts_with("pkg.torch"); };
  const auto foreign = [](const auto& opset) { return opset.domain().starts_with("pkg."); };
  return head.producer_name() == "pytorch" &&
         std::none_of(head.graph().metadata_props().begin(), head.graph().metadata_props().end(), own) &&
         std::none_of(head.opset_import().begin(), head.opset_import().end(), foreign);
}

/// Whether a one-element initializer of such a file is state of the program. The exporter writes numbers in the code as
/// nodes, and names computed tensors `onnx::Mul_12` or, in old versions, `12`.
bool is_number_of_state(const TensorProto& tensor) {
  const ir::NameSource source = ir::source_of_name(tensor.name());
  const bool single = std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t size) { return size == 1; });
  return single && (source == ir::NameSource::kProgram || source == ir::NameSource::kTraced);
}

class Importer {
 public:
  /// `needed` is null if everything is needed. `choices` lists branches.
  Importer(const ModelFile& model, const FileOnDisk& file, const ImportOptions& options, const Needed* needed,
           BranchChoices choices)
      : model_(model),
        needed_(needed),
        head_(model.head()),
        file_(file.path),
        options_(options),
        external_(file.path, options.missing_weights),
        growth_(file.bytes),
        source_{file.path, &external_, &growth_},
        nodes_(file.path, options, functions_, source_, external_, notes_, growth_, std::move(choices)) {}

  Result<Imported> run() {
    RANNC_TRY(import());
    nodes_.finish(graph_, head_.graph());
    RANNC_TRY(compute_all_rows(graph_, notes_));
    recognise_written_out(graph_);
    notes_.nodes = model_.node_count();
    return Imported{std::move(graph_), std::move(notes_)};
  }

  /// Symbols that would have to be equal, if `run` failed for that reason.
  const UnequalSymbols& unequal_symbols() const { return nodes_.unequal_symbols(); }
  const BranchChoices& branch_choices() const { return nodes_.branch_choices(); }

 private:
  Result<void> import() {
    if (!head_.has_graph()) return error(Location{file_}, "not an ONNX model: it has no graph");
    if (head_.graph().sparse_initializer_size() > 0) {
      return error(Location{file_, 0, 0, head_.graph().sparse_initializer(0).values().name()},
                   "sparse initializers are not supported");
    }
    RANNC_ASSIGN(const Opsets opsets, read_opsets(head_, Location{file_}));
    RANNC_ASSIGN(functions_, Functions::read(head_, file_));
    // Without functions, all operators need to be checked only if one of them has no translation.
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
    if (!notes_.stored.listed.empty()) notes_.stored.folded = folded_values(model_);
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
      const bool live = std::any_of(node.output().begin(), node.output().end(),
                                    [&](const std::string& output) { return is_live(output); });
      return is_needed && live ? nodes_.add_node(scope, node) : Result<void>();
    }));
    return add_outputs(scope);
  }

  /// With fixed input values, nodes that no output depends on may read removed inputs.
  bool is_live(const std::string& name) const { return options_.input_values.empty() || live_.contains(name); }

  Place at(std::string_view name) const { return {file_, {}, nullptr, name}; }

  /// Up to format version 3, initializers are inputs too, whose defaults nobody overrides.
  Result<void> add_inputs(Scope& scope) {
    std::unordered_set<std::string_view> listed, initialized;
    for (const ValueInfoProto& input : head_.graph().input()) listed.insert(input.name());
    if (!listed.empty()) {
      RANNC_TRY(model_.each_initializer([&](const TensorProto& tensor) -> Result<void> {
        if (const auto name = listed.find(tensor.name()); name != listed.end()) initialized.insert(*name);
        return {};
      }));
    }
    RANNC_TRY(check_given(listed, initialized));
    if (!options_.input_values.empty()) {
      RANNC_ASSIGN(live_, live_names(model_, options_.input_values));
    }
    std::vector<const ValueInfoProto*> inputs;
    for (const ValueInfoProto& input : head_.graph().input()) {
      if (initialized.contains(input.name())) continue;
      if (options_.input_values.contains(input.name())) {
        RANNC_TRY(add_given(scope, input));
      } else if (is_live(input.name())) {
        inputs.push_back(&input);
      }
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

  /// An input with a fixed value becomes a literal of the program's code.
  Result<void> add_given(Scope& scope, const ValueInfoProto& input) {
    const std::string& name = input.name();
    RANNC_ASSIGN(InputTypes types, read_input_types({&input}, ImportOptions{}, file_));
    ir::ValueType& type = types.types[0];
    const double number = options_.input_values.at(name);
    const bool one = ir::static_count(type) == 1;
    const bool whole = ir::is_float(type.dtype) || std::floor(number) == number;
    const bool fits = type.dtype != ir::DType::kBool || number == 0 || number == 1;
    if (!one || !whole || !fits) {
      return error(at(name),
                   fmt::format("input '{}' is {} {}; the value {} needs one element of a type that can represent it",
                               name, ir::str(type.dtype), ir::str(*type.shape), number));
    }
    const auto integer = static_cast<int64_t>(number);
    ir::TensorData data = ir::is_float(type.dtype) ? ir::encode_numbers(type.dtype, {&number, 1})
                                                   : ir::encode_integers(type.dtype, {&integer, 1});
    type.contents = ir::constant_contents(type, data);
    notes_.stored.literals.insert(name);
    return nodes_.define(scope, name,
                         graph_.add_value(ir::ValueKind::kConstant, name, std::move(type), std::move(data)), at(name));
  }

  Result<void> check_given(const std::unordered_set<std::string_view>& listed,
                           const std::unordered_set<std::string_view>& initialized) const {
    for (const auto& [name, number] : options_.input_values) {
      if (listed.contains(name) && !initialized.contains(name)) continue;
      std::vector<std::string> names;
      for (const ValueInfoProto& input : head_.graph().input()) names.push_back(fmt::format("'{}'", input.name()));
      return error(Location{file_}, fmt::format("a value is given for '{}', which is no input; inputs are {}", name,
                                                fmt::join(names, ", ")));
    }
    return {};
  }

  Result<void> add_outputs(Scope& scope) {
    const auto& outputs = head_.graph().output();
    std::set<std::string> seen;
    for (int i = 0; i < outputs.size(); ++i) {
      const ValueInfoProto& output = outputs[i];
      if (!seen.insert(output.name()).second) continue;
      if (needed_ != nullptr && !needed_->outputs[static_cast<size_t>(i)]) continue;
      RANNC_ASSIGN(const ValueId value, nodes_.look_up(scope, output.name(), at(output.name())));
      RANNC_ASSIGN(const ValueId named, named_as(value, output.name()));
      RANNC_ASSIGN(std::optional<Note> doubt, check_output_type(output, graph_.type(named), file_));
      if (doubt) notes_.warnings.push_back(*std::move(doubt));
      graph_.add_output(named);
    }
    if (graph_.outputs().empty()) return error(Location{file_}, "the graph has no outputs");
    return {};
  }

  /// Sequences, optionals and branches forward a tensor under its earlier name. An output is made by a task.
  Result<ValueId> named_as(ValueId value, std::string name) {
    if (graph_.value(value).name == name) {
      if (graph_.producer(value).valid()) return value;
      name += ".output";
      notes_.open.push_back(
          {at(name), fmt::format("output '{}' is an input, a weight or a constant of the model: its name is '{}'",
                                 graph_.value(value).name, name)});
    }
    const TaskId task = graph_.add_task(ir::core("identity"), {&value, 1}, {}, {&name, 1}, at(name));
    RANNC_TRY(ir::infer_types(graph_, task));
    return graph_.outputs(task)[0];
  }

  const ModelFile& model_;
  const Needed* const needed_;
  const ModelProto& head_;
  const std::string& file_;
  const ImportOptions& options_;
  std::set<std::string> live_;  ///< names that outputs depend on, if there are fixed input values
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

/// Unites symbols that are certainly equal. For others, returns the error with all that need the user's word, found as
/// if it were given. `choices` receives the branches that the import chose.
Result<Imported> import_chosen(const ModelFile& model, const FileOnDisk& file, const ImportOptions& options,
                               const Needed* needed, BranchChoices& choices) {
  ImportOptions tried = options;
  std::optional<Diagnostic> refused;
  std::vector<SymbolPair> open;
  constexpr int kMostSymbols = 32;
  for (int i = 0;; ++i) {
    Importer importer(model, file, tried, needed, {choices.other, {}});
    auto imported = importer.run();
    choices = importer.branch_choices();
    const UnequalSymbols& unequal = importer.unequal_symbols();
    const auto before = tried.same_symbol;
    if (!imported.ok()) {
      for (const auto& [kept, other] : unequal.pairs) unite_symbols(tried.same_symbol, other, kept);
      if (!unequal.pairs.empty() && !unequal.certain) {
        if (!refused) refused = imported.diagnostic();
        open.insert(open.end(), unequal.pairs.begin(), unequal.pairs.end());
      }
    }
    if (tried.same_symbol != before && i < kMostSymbols) continue;
    if (!refused) return imported;
    for (Note& note : refused->notes) {
      if (note.message.starts_with(advice_on_equal({}))) note.message = advice_on_equal(open);
    }
    return *std::move(refused);
  }
}

/// If the import fails after it chose branches, tries the other branch of each, the last first.
Result<Imported> import_needed(const ModelFile& model, const FileOnDisk& file, const ImportOptions& options,
                               const Needed* needed) {
  constexpr size_t kMostTries = 8;
  BranchChoices choices;
  auto imported = import_chosen(model, file, options, needed, choices);
  for (size_t i = 0; i < std::min(choices.taken.size(), kMostTries) && !imported.ok(); ++i) {
    BranchChoices others{{choices.taken[choices.taken.size() - 1 - i]}, {}};
    auto other = import_chosen(model, file, options, needed, others);
    if (other.ok()) return other;
  }
  return imported;
}

/// Notes the omitted outputs, with the error of the whole model as reason.
void note_excluded(const ModelFile& model, const Needed& needed, const Diagnostic& why, ImportNotes& notes) {
  const auto& outputs = model.head().graph().output();
  for (int i = 0; i < outputs.size(); ++i) {
    if (needed.outputs[static_cast<size_t>(i)]) continue;
    notes.open.push_back({why.where, fmt::format("output {} is excluded, as the loss does not read it: {}",
                                                 outputs[i].name(), why.message)});
  }
  if (std::find(needed.outputs.begin(), needed.outputs.end(), false) != needed.outputs.end()) return;
  notes.remarks.push_back(
      {why.where, fmt::format("{} nodes are excluded, as no output needs them: {}",
                              std::count(needed.nodes.begin(), needed.nodes.end(), false), why.message)});
}

}  // namespace

Result<Imported> import_model(const ModelFile& model, const FileOnDisk& file, const ImportOptions& options) {
  auto imported = import_needed(model, file, options, nullptr);
  if (imported.ok()) return imported;
  const auto needed = needed_for(model, options.required);
  if (!needed.ok() || !needed->leaves_out()) return imported;
  auto without = import_needed(model, file, options, &*needed);
  if (without.ok()) note_excluded(model, *needed, imported.diagnostic(), without->notes);
  return without;
}

}  // namespace rannc::frontend
