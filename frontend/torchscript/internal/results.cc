#include "frontend/torchscript/internal/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/internal/rows/all_rows.h"
#include "frontend/torchscript/internal/call.h"
#include "frontend/torchscript/internal/calls.h"
#include "ir/graph/rewriter.h"

namespace rannc::frontend::torchscript {

namespace {

/// Returns the graph with some of its activations renamed.
ir::Graph renamed(const ir::Graph& graph, const std::map<ValueId, std::string>& names) {
  ir::Rewriter to(graph);
  for (const TaskId task : graph.tasks()) {
    const auto made = graph.outputs(task);
    const bool is_named = std::any_of(made.begin(), made.end(), [&](ValueId each) { return names.contains(each); });
    if (!is_named) {
      to.copy(task);
      continue;
    }
    std::vector<ValueId> operands;
    for (const ValueId operand : graph.inputs(task)) operands.push_back(to.map(operand));
    std::vector<std::string> wanted;
    for (const ValueId each : made)
      wanted.push_back(names.contains(each) ? names.at(each) : std::string(graph.value(each).name));
    const TaskId copy =
        to.graph().add_task(graph.op(task), operands, graph.attributes(task), wanted, graph.location(task));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId named = to.graph().outputs(copy)[i];
      to.graph().set_type(named, graph.type(made[i]));
      to.replace(made[i], named);
    }
  }
  return std::move(to).finish();
}

struct Output {
  std::string name;
  Item item;  ///< a tensor or an untranslated result
};

/// Collects the tensors of the program's result, in order.
Result<void> collect(const Item& item, const std::string& name, const std::string& file, std::vector<Output>& into) {
  if (item.get<TensorRef>() || item.get<Undecided>()) {
    into.push_back({name, item});
  } else if (const Sequence* const sequence = item.sequence()) {
    for (size_t i = 0; i < sequence->elements.size(); ++i)
      RANNC_TRY(collect(sequence->elements[i], fmt::format("{}_{}", name.empty() ? "output" : name, i), file, into));
  } else if (const Dictionary* const dictionary = item.dictionary()) {
    for (const auto& [key, value] : dictionary->entries) {
      const auto* const text = key.get<std::string>();
      RANNC_TRY(collect(value, text ? *text : fmt::format("output_{}", into.size()), file, into));
    }
  } else if (item.get<Complex>()) {
    return error(Location{file}, "forward gives a complex tensor; expected real ones: return torch.view_as_real(x)");
  } else if (!item.is_none()) {
    return error(Location{file}, fmt::format("forward gives {}; expected tensors", describe(item)));
  }
  return {};
}

/// Adds named outputs one by one.
class Results {
 public:
  Results(ir::Graph& graph, ImportNotes& notes, const Wanted& wanted, const std::string& file)
      : graph_(graph), notes_(notes), wanted_(wanted), file_(file) {}

  Result<void> add(std::vector<Output> outputs) {
    const auto is_named = [&](const Output& output) { return contains(wanted_.required, output.name); };
    all_ = std::none_of(outputs.begin(), outputs.end(), is_named);
    for (const Output& output : outputs) RANNC_TRY(add(output));
    RANNC_TRY(exclude_stale());
    if (values_.empty()) return error(Location{file_}, "forward gives no tensor");
    note_unread(graph_, wanted_.writes, notes_);
    graph_.set_outputs(values_);
    graph_ = renamed(graph_, named_);
    const auto found = compute_all_rows(graph_, notes_);
    return found.ok() || all_ ? found : without_rest(found.diagnostic());
  }

 private:
  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  /// Excludes outputs that depend on buffers that the program updates.
  Result<void> exclude_stale() {
    const StaleValues stale(graph_, wanted_.writes);
    std::vector<ValueId> values;
    std::vector<std::string> names;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (const auto fault = stale.fault(values_[i], names_[i])) {
        RANNC_TRY(exclude(names_[i], *fault));
      } else {
        values.push_back(values_[i]);
        names.push_back(names_[i]);
      }
    }
    values_ = std::move(values);
    names_ = std::move(names);
    return {};
  }

  /// Computes rows that masks pick where only the required outputs need it.
  Result<void> without_rest(const Diagnostic& why) {
    std::vector<ValueId> required;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (contains(wanted_.required, names_[i])) {
        required.push_back(graph_.outputs()[i]);
      } else {
        RANNC_TRY(exclude(names_[i], why));
      }
    }
    graph_.set_outputs(std::move(required));
    return compute_all_rows(graph_, notes_);
  }

  Result<void> add(const Output& output) {
    if (is_lost(output.item) && wanted_.fault) return exclude(output.name, *wanted_.fault);
    const auto* const tensor = output.item.get<TensorRef>();
    if (tensor == nullptr) {
      const std::string what = fmt::format("forward gives {}; expected tensors", describe(output.item));
      return exclude(output.name, error(Location{file_}, what));
    }
    Call call(graph_, {file_, 0, 0, output.name}, "output", output.name, {}, notes_);
    const ValueId last = (*tensor)->read(call);
    const bool is_free = call.good() && graph_.producer(last).valid() && named_.emplace(last, output.name).second;
    if (!is_free) call.result("identity", {last});
    if (call.failure()) return exclude(output.name, wanted_.fault ? *wanted_.fault : *call.failure());
    names_.push_back(output.name);
    values_.push_back(is_free ? last : (*call.results()[0].get<TensorRef>())->now());
    return {};
  }

  Result<void> exclude(const std::string& name, const Diagnostic& why) {
    if (all_ || contains(wanted_.required, name)) return why;
    notes_.open.push_back(
        {why.where, fmt::format("output {} is excluded, as the loss does not read it: {}", name, why.message)});
    return {};
  }

  ir::Graph& graph_;
  ImportNotes& notes_;
  const Wanted& wanted_;
  const std::string& file_;
  bool all_ = true;  ///< whether all outputs are required
  std::map<ValueId, std::string> named_;
  std::vector<ValueId> values_;
  std::vector<std::string> names_;
};

}  // namespace

Result<void> add_outputs(ir::Graph& graph, ImportNotes& notes, const Item& made, const Wanted& wanted,
                         const std::string& file) {
  std::vector<Output> outputs;
  if (is_lost(made) && made.sequence() == nullptr && wanted.fault) return *wanted.fault;
  RANNC_TRY(collect(made, {}, file, outputs));
  if (outputs.empty()) return error(Location{file}, "forward gives no tensor");
  const std::vector<std::string>& names = wanted.names;
  if (names.size() > outputs.size())
    return error(Location{file}, fmt::format("{} names are given for {} output{}", names.size(), outputs.size(),
                                             outputs.size() == 1 ? "" : "s"));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < names.size()) outputs[i].name = names[i];
    if (outputs[i].name.empty()) outputs[i].name = "output";
  }
  return Results(graph, notes, wanted, file).add(std::move(outputs));
}

}  // namespace rannc::frontend::torchscript
