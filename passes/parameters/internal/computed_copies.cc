#include "passes/parameters/internal/computed_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/copy_forms.h"

namespace rannc::passes {

namespace {

using ir::Graph;

constexpr int64_t kMostElements = 1 << 24;

struct Copy {
  ValueId source;
  CopyForm form;
};

std::optional<Numbers> numbers_of(const Graph& graph, ValueId value) {
  const Graph::Value& found = graph.value(value);
  if (!found.data.present() || !ir::static_count(found.type)) return std::nullopt;
  auto elements = ir::decode_numbers(found.type, found.data, kMostElements);
  if (!elements.ok()) return std::nullopt;
  Numbers numbers{found.type.dtype, {}, *std::move(elements)};
  for (const ir::Dim& dim : *found.type.shape) numbers.shape.push_back(dim.constant());
  return numbers;
}

/// One number in many places says nothing.
bool is_repeated(const Numbers& numbers) {
  const auto& all = numbers.elements;
  return all.size() > 1 && std::all_of(all.begin(), all.end(), [&](double x) { return x == all[0]; });
}

class Finder {
 public:
  Finder(const Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept)
      : graph_(graph), file_(file), kept_(kept) {
    for (const ValueId value : graph.values()) {
      if (!is_stored(value)) continue;
      for (const std::string& module : modules_of(value)) readers_[module].push_back(value);
    }
  }

  std::map<ValueId, Copy> find(ComputedCopies& report) {
    std::map<ValueId, Copy> copies;
    for (const ValueId value : graph_.values()) {
      const std::string name(graph_.value(value).name);
      if (!is_stored(value) || !ir::is_folded(name) || kept_.contains(name)) continue;
      const std::vector<Copy> ways = ways_to(value, copies);
      if (ways.size() != 1) continue;
      copies.emplace(value, ways[0]);
      report.gone.insert(name);
      report.found.push_back(
          fmt::format("'{}' is '{}': {}", name, graph_.value(ways[0].source).name, ways[0].form.str()));
      if (ir::static_count(graph_.type(ways[0].source)) == 1) report.by_a_number.push_back(report.found.back());
    }
    return copies;
  }

 private:
  bool is_stored(ValueId value) const {
    const Graph::Value& found = graph_.value(value);
    return found.kind == ir::ValueKind::kConstant && !found.producer.valid() && ir::is_float(found.type.dtype) &&
           !file_.literals.contains(std::string(found.name));
  }

  /// Whether the file says which tensor of the program's state is read under a made-up name.
  bool is_of_state(const std::string& name) const {
    const auto found = file_.readings.find(name);
    return found != file_.readings.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [](const ir::Reading& reading) { return !reading.state.empty(); });
  }

  std::set<std::string> modules_of(ValueId value) const { return modules_reading(file_, graph_.value(value).name); }

  const std::optional<Numbers>& numbers(ValueId value) {
    const auto [known, fresh] = numbers_.try_emplace(value);
    if (fresh) known->second = numbers_of(graph_, value);
    return known->second;
  }

  /// From tensors of the program, else from an earlier one of a made-up name. What has a name by its place in a module
  /// is a view of another tensor of that module, or that tensor of state.
  std::vector<Copy> ways_to(ValueId value, const std::map<ValueId, Copy>& copies) {
    const auto wanted = ir::static_count(graph_.type(value));
    const bool placed = is_of_state(std::string(graph_.value(value).name));
    if (!wanted || *wanted > kMostElements || (placed && *wanted == 1)) return {};
    std::vector<Copy> of_program, of_exporter;
    std::set<ValueId> sources;
    for (const std::string& module : modules_of(value))
      sources.insert(readers_[module].begin(), readers_[module].end());
    for (const ValueId source : sources) {
      const auto held = ir::static_count(graph_.type(source));
      const bool own = ir::is_folded(graph_.value(source).name);
      const bool later = own && (placed || source >= value || copies.contains(source) || *wanted == 1);
      if (later || source == value || !held || *held < *wanted || *held > kMostElements) continue;
      if (!numbers(source) || !numbers(value) || is_repeated(*numbers(value))) continue;
      for (CopyForm& form : forms_of_copy(*numbers(source), *numbers(value))) {
        if (form.is_view() || (!own && !placed)) (own ? of_exporter : of_program).push_back({source, std::move(form)});
      }
    }
    return of_program.empty() ? of_exporter : of_program;
  }

  const Graph& graph_;
  const ir::StoredNotes& file_;
  const std::set<std::string>& kept_;
  std::map<std::string, std::vector<ValueId>> readers_;  ///< stored tensors by the modules that read them
  std::map<ValueId, std::optional<Numbers>> numbers_;
};

/// Adds the tasks of one copy.
class Writer {
 public:
  Writer(Graph& to, std::string name, const ir::ValueType& type) : to_(to), name_(std::move(name)), type_(type) {}

  Result<ValueId> write(ValueId source, const CopyForm& form) {
    at_ = source;
    add_reduction(form);
    if (form.sliced >= 0) {
      add("slice",
          {{"starts", ir::Shape{form.start}}, {"ends", ir::Shape{form.end}}, {"axes", ir::Shape{form.sliced}}});
    }
    if (!form.order.empty()) add("permute", {{"dims", ir::Shape(form.order.begin(), form.order.end())}});
    if (!failure_ && to_.type(at_).shape != type_.shape) add("reshape", {{"shape", *type_.shape}});
    if (form.squared) add("mul", {}, at_);
    if (form.factor == -1) {
      add("neg", {});
    } else if (form.factor != 1) {
      add("mul", {}, number(form.factor));
    }
    if (form.shift != 0) add("add", {}, number(form.shift));
    if (failure_) return *failure_;
    return at_;
  }

 private:
  void add_reduction(const CopyForm& form) {
    using enum CopyForm::Reduction;
    if (form.reduction == kNone) return;
    if (form.reduction == kL2) add("mul", {}, at_);
    if (form.reduction == kL1) add("abs", {});
    add("sum", {{"axes", ir::Shape(form.axes.begin(), form.axes.end())}, {"keepdim", true}});
    if (form.reduction == kL2) add("sqrt", {});
  }

  void add(std::string_view op, ir::Attributes attributes, ValueId other = {}) {
    if (failure_) return;
    const std::string name = fmt::format("{}.{}", name_, op);
    at_ = other.valid() ? to_.add(ir::core(op), {at_, other}, std::move(attributes), name)
                        : to_.add(ir::core(op), {at_}, std::move(attributes), name);
    if (auto typed = ir::infer_types(to_, to_.producer(at_)); !typed.ok()) failure_ = typed.diagnostic();
  }

  ValueId number(double value) {
    ir::ValueType type;
    type.dtype = type_.dtype;
    type.shape.emplace();
    return to_.add_value(ir::ValueKind::kConstant, name_ + ".number", std::move(type),
                         ir::encode_numbers(type_.dtype, {&value, 1}));
  }

  Graph& to_;
  std::string name_;
  ir::ValueType type_;
  ValueId at_;
  std::optional<Diagnostic> failure_;
};

/// What is computed again is no tensor of state, whatever its place in a module says.
void forget_places(Graph& graph, const std::map<ValueId, Copy>& copies) {
  std::vector<ir::StateTensor> state = graph.state();
  std::erase_if(state, [&](const ir::StateTensor& tensor) {
    return std::any_of(tensor.parts.begin(), tensor.parts.end(),
                       [&](const ir::StatePart& part) { return copies.contains(part.value); });
  });
  graph.set_state(std::move(state));
}

}  // namespace

std::set<std::string> copies_in(const Graph& graph, const ir::StoredNotes& file) {
  std::set<std::string> names;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    if (!graph.producer(value).valid() || !ir::is_folded(name)) continue;
    const std::string stored = name.substr(0, name.rfind('.'));  // `onnx::Sigmoid_60.neg`
    if (stored.size() < name.size() && file.readings.contains(stored) && !graph.find(stored).valid())
      names.insert(stored);
  }
  return names;
}

ComputedCopies put_back_copies(Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept) {
  ComputedCopies report;
  if (!file.listed.empty()) return report;
  const std::map<ValueId, Copy> copies = Finder(graph, file, kept).find(report);
  if (copies.empty()) return report;
  forget_places(graph, copies);
  std::vector<bool> keep(graph.value_count(), true);
  for (const auto& [value, copy] : copies) keep[value.index()] = false;
  ir::Rewriter rewriter(graph, keep);
  for (const auto& [value, copy] : copies) {
    Writer writer(rewriter.graph(), std::string(graph.value(value).name), graph.type(value));
    const auto made = writer.write(rewriter.map(copy.source), copy.form);
    RANNC_CHECK(made.ok()) << made.diagnostic().str();
    rewriter.replace(value, *made);
  }
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  graph = std::move(rewriter).finish();
  report.changed = true;
  return report;
}

}  // namespace rannc::passes
