#include "passes/parameters/internal/exporter_made.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/joined_copies.h"
#include "passes/parameters/internal/padding_rows.h"
#include "passes/parameters/internal/tied_values.h"
#include "passes/parameters/internal/untrained_factors.h"

namespace rannc::passes {

namespace {

using ir::Graph;

bool is_state(const Graph& graph, ValueId value, const ir::StoredNotes& file) {
  const Graph::Value& found = graph.value(value);
  return !found.producer.valid() && found.kind != ir::ValueKind::kInput && found.kind != ir::ValueKind::kRandomInput &&
         ir::is_float(found.type.dtype) && !file.literals.contains(std::string(found.name));
}

bool is_row_of_zeros(const Graph& graph, ValueId value) {
  const Graph::Value& found = graph.value(value);
  const auto& shape = found.type.shape;
  if (!shape || shape->size() != 2 || !((*shape)[0] == ir::Dim(1)) || (*shape)[1] == ir::Dim(1)) return false;
  if (!found.data.present() || !is_uniform(graph, value)) return false;
  const auto bytes = found.data.read();
  return bytes.ok() && std::all_of(bytes->begin(), bytes->end(), [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether modules lie within the one that the name is of.
bool is_of_container(const Graph& graph, const std::string& name) {
  const std::string module = ir::module_of(name), prefix = module.empty() ? "" : module + ".";
  for (const ValueId value : graph.values()) {
    const std::string_view other = graph.value(value).name;
    if (graph.producer(value).valid() || ir::is_synthetic(other) || !other.starts_with(prefix)) continue;
    if (other.find('.', prefix.size()) != std::string_view::npos) return true;
  }
  return false;
}

/// Whether nothing that follows reads a stored tensor of the program's state.
bool is_last(const Graph& graph, TaskId task, const ir::StoredNotes& file) {
  std::vector<TaskId> left{task};
  std::set<TaskId> seen{task};
  while (!left.empty()) {
    const TaskId at = left.back();
    left.pop_back();
    for (const ValueId output : graph.outputs(at)) {
      graph.for_each_use(output, [&](Graph::Use use) {
        if (seen.insert(use.task).second) left.push_back(use.task);
      });
    }
  }
  seen.erase(task);
  return std::none_of(seen.begin(), seen.end(), [&](TaskId later) {
    const auto operands = graph.inputs(later);
    return std::any_of(operands.begin(), operands.end(),
                       [&](ValueId operand) { return operand.valid() && is_state(graph, operand, file); });
  });
}

/// Extents other than 1.
size_t extents(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  const auto wide = [](const ir::Dim& dim) { return !(dim == ir::Dim(1)); };
  return shape ? static_cast<size_t>(std::count_if(shape->begin(), shape->end(), wide)) : 0;
}

/// What exporters store of plain layers under names of their own: transposed factors of products, convolutions with the
/// normalisation behind them, gates of recurrent layers in ONNX's order.
class Layers {
 public:
  Layers(const Graph& graph, const ir::StoredNotes& file) : graph_(graph), file_(file) {
    for (const ValueId value : graph.values()) {
      const std::string_view name = graph.value(value).name;
      if (!is_state(graph, value, file) || ir::is_folded(name) || extents(graph, value) < 2) continue;
      for (const std::string& module : modules_reading(file, name)) with_weights_.insert(module);
    }
  }

  bool are_of(ValueId value) const {
    const std::string_view name = graph_.value(value).name, reader = ir::reader_of_folded(name);
    if (reader == "LSTM" || reader == "GRU" || reader == "RNN") return true;
    if (reader == "Conv" || reader == "ConvTranspose") return beside_made_up(value);
    const auto modules = modules_reading(file_, name);
    // A layer that has a weight under its own name, too, computes on it, unless the file says which this one is.
    const bool is_alone = std::none_of(modules.begin(), modules.end(),
                                       [&](const std::string& module) { return with_weights_.contains(module); });
    return reader == "MatMul" && (is_alone || is_known(name));
  }

 private:
  bool is_known(std::string_view name) const {
    const auto found = file_.readings.find(std::string(name));
    return found != file_.readings.end() &&
           std::none_of(found->second.begin(), found->second.end(),
                        [](const ir::Reading& reading) { return reading.state.empty(); });
  }

  /// Normalisations are folded into weight and bias.
  bool beside_made_up(ValueId value) const {
    bool all = true;
    graph_.for_each_use(value, [&](Graph::Use use) {
      const auto operands = graph_.inputs(use.task);
      all = all && std::count_if(operands.begin(), operands.end(), [&](ValueId operand) {
                     return operand.valid() && ir::is_folded(graph_.value(operand).name);
                   }) > 1;
    });
    return all;
  }

  const Graph& graph_;
  const ir::StoredNotes& file_;
  std::set<std::string> with_weights_;  ///< modules that read tensors of several axes under the program's names
};

std::string listed(const std::set<std::string>& names) {
  constexpr size_t kMost = 8;
  return first_names({names.begin(), names.end()}, kMost);
}

/// Rows of zeros that are added to a model's last result and lie in no leaf module, as `final_logits_bias` of BART
/// does: PyTorch's layers have biases of one axis. Nothing in the file tells whether such a row is a parameter.
std::vector<ValueId> unowned_biases(const Graph& graph, const ir::StoredNotes& file) {
  static const ir::Pattern kShift = ir::op("add");
  std::vector<ValueId> found;
  for (const ValueId value : graph.values()) {
    if (!is_state(graph, value, file) || ir::is_synthetic(graph.value(value).name)) continue;
    std::vector<TaskId> readers;
    graph.for_each_use(value, [&](Graph::Use use) { readers.push_back(use.task); });
    if (readers.size() != 1 || !ir::match(graph, readers[0], kShift)) continue;
    const std::string name(graph.value(value).name);
    if (is_row_of_zeros(graph, value) && is_of_container(graph, name) && is_last(graph, readers[0], file))
      found.push_back(value);
  }
  return found;
}

/// Sizes other than 1, in order: those of a matrix and of its transpose are alike.
std::vector<std::string> sizes_of(const Graph& graph, ValueId value) {
  std::vector<std::string> sizes;
  for (const ir::Dim& dim : *graph.type(value).shape) {
    if (!(dim == ir::Dim(1))) sizes.push_back(dim.str());
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// Trained factors of made-up names and like sizes that one module reads: weights of its own, or one parameter as it is
/// and computed on. Nothing in the file tells which.
std::vector<std::set<std::string>> doubtful_factors(const Graph& graph, const ir::StoredNotes& file) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::set<std::string>> groups;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    const bool factor = graph.kind(value) == ir::ValueKind::kParameter && ir::is_folded(name) &&
                        is_state(graph, value, file) && ir::reader_of_folded(name) == "MatMul" &&
                        graph.type(value).shape;
    if (!factor || extents(graph, value) < 2) continue;
    for (const std::string& module : modules_reading(file, name)) {
      groups[{module, sizes_of(graph, value)}].insert(name);
    }
  }
  std::vector<std::set<std::string>> found;
  for (auto& [key, names] : groups) {
    if (names.size() > 1) found.push_back(std::move(names));
  }
  return found;
}

constexpr std::string_view kHow = "torch.onnx.export(do_constant_folding=False) keeps what it was computed from";

}  // namespace

std::set<ValueId> untrained_state(const Graph& graph, const ir::StoredNotes& file,
                                  const std::map<ValueId, ir::ValueKind>& asked, PassContext& context) {
  std::set<ValueId> found;
  if (!file.listed.empty()) return found;
  const auto is_open = [&](ValueId value) {
    return !asked.contains(value) && graph.kind(value) == ir::ValueKind::kConstant && is_state(graph, value, file);
  };
  const std::vector<bool> factors = untrained_factors(graph);
  std::set<std::string> names;
  for (const ValueId value : graph.values()) {
    if (!factors[value.index()] || !is_open(value)) continue;
    found.insert(value);
    names.emplace(graph.value(value).name);
  }
  if (!names.empty()) {
    context.remarks.push_back(
        {{}, fmt::format("{} tensors that only scale or mask weights are buffers ({})", names.size(), listed(names))});
  }
  for (const ValueId value : unowned_biases(graph, file)) {
    if (!is_open(value)) continue;
    found.insert(value);
    context.warnings.push_back(
        {{},
         fmt::format("'{0}' is a row of zeros that no layer of the model owns, added to its last result: treated as a "
                     "buffer; if it is a parameter, --train {0} trains it",
                     graph.value(value).name)});
  }
  return found;
}

std::set<std::string> stand_ins(const Graph& graph, const ir::StoredNotes& file) {
  std::set<std::string> trained;
  if (!file.listed.empty()) return trained;
  const Layers layers(graph, file);
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    const bool made =
        graph.kind(value) == ir::ValueKind::kParameter && ir::is_folded(name) && is_state(graph, value, file);
    if (made && !layers.are_of(value)) trained.insert(name);
  }
  return trained;
}

void report_made(const Graph& graph, const ir::StoredNotes& file, const std::vector<ComputedCopy>& copies,
                 PassContext& context) {
  if (!file.listed.empty()) return;
  for (const ComputedCopy& copy : copies) {
    auto& notes = copy.by_a_number ? context.warnings : context.remarks;
    notes.push_back({{},
                     fmt::format("the exporter computed '{}' is '{}': {}{}", copy.name, copy.source, copy.form,
                                 copy.by_a_number ? ", judging by a single number" : "")});
  }
  const std::set<std::string> trained = stand_ins(graph, file);
  std::set<std::string> left;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    const bool made =
        graph.kind(value) != ir::ValueKind::kParameter && ir::is_folded(name) && is_state(graph, value, file);
    if (made) left.insert(name);
  }
  if (!trained.empty()) {
    context.warnings.push_back(
        {{},
         fmt::format("{} tensors that the exporter computed are trained in place of what they were computed from, "
                     "which the file does not have ({}): {}",
                     trained.size(), listed(trained), kHow)});
  }
  for (const std::set<std::string>& names : doubtful_factors(graph, file)) {
    context.warnings.push_back(
        {{},
         fmt::format(
             "weights of one module ({}) have names that the exporter generated and are trained separately: this is "
             "wrong if they were computed from one parameter; {}",
             listed(names), kHow)});
  }
  for (const PaddingRow& padding : padding_rows(graph)) {
    context.warnings.push_back(
        {{},
         fmt::format(
             "only row {1} of '{0}' is all zeros, and it is trained: if it is the embedding's padding_idx, which "
             "this exporter does not record, --padding-index {0}={1} keeps it as it is",
             padding.table, padding.row)});
  }
  for (const JoinedCopy& copy : joined_copies(graph)) {
    context.warnings.push_back(
        {{},
         fmt::format("'{}' contains the numbers of '{}'{}, as if the exporter had concatenated parameters: both are "
                     "trained separately; {}",
                     copy.whole, copy.part, copy.transposed ? ", transposed" : "", kHow)});
  }
  if (!left.empty()) {
    context.warnings.push_back({{},
                                fmt::format("{} tensors that the exporter computed are not trained ({}): {}",
                                            left.size(), listed(left), kHow)});
  }
}

}  // namespace rannc::passes
