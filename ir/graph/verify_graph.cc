// Verifier of graphs. Rules:
//   G1   value names are unique and not empty: `Graph` guarantees it, and the parser reports violations in a text
//   G2   every operand exists and is defined before the task that reads it
//   G3   the numbers of operands and results are those of the operator
//   G4   attributes are declared by the operator and have the declared types
//   G5   a value is an activation if and only if a task produces it; only parameters, buffers and constants hold data
//   G6   a parameter has a float type
//   G7   the signature lists each input once; inputs, outputs and losses are values of the graph
//   G8   types agree with the operator's type rule, normalised by the assumptions, if both are known
//   G9   data has the size that the type requires, and a static shape
//   G10  the batch axis lies in the shape and has the extent outer * batch * inner
//   G11  symbols are names that text can spell
//   G12  the numerator of a loss is a float scalar; its factor and divisor are coefficients
//   G13  contents occur on integers and booleans of rank 0 or 1, one entry per element
//   G14  an assumption is listed once, is neither certain nor impossible, and relates sizes of values other than the
//        batch, or replaces a symbol
//   G15  a type rule relies only on equalities that are certain or follow from the graph's assumptions
//   G16  a graph with losses has no value that mixes the samples of a micro-batch
//   G17  a random input is float, has a distribution and a drop probability in [0, 1), and is not an output
//   G18  running statistics are buffers, updated by two otherwise unread results of one task; every task that trains
//        with buffers has a `statistics` statement
//   G19  the body of a task satisfies these rules and has the same batch symbol; it reads only its inputs and has no
//        losses, running statistics or state
//   G20  a state tensor has a unique name; its parts are boxes of stored values of one type and fill its shape row by
//        row
//   G21  totals: counts read inputs of the graph and give numbers per sample; coefficients read the counts, metrics the
//        counts and sums that are outputs; an input that a coefficient is given to has its type
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

#include "ir/graph/assumptions.h"
#include "ir/internal/attribute_kinds.h"
#include "ir/op/op.h"
#include "ir/state/state.h"
#include "ir/state/statistics.h"
#include "ir/verify.h"

namespace rannc::ir {

namespace {

bool is_symbol_name(std::string_view name) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.'; };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), inner);
}

class GraphVerifier {
 public:
  /// `around`: the graph that contains `graph` as a body and receives its assumptions; null if `graph` is not a body.
  explicit GraphVerifier(const Graph& graph, const Graph* around = nullptr)
      : graph_(graph), assuming_(around != nullptr ? *around : graph), type_holds_(graph.type_count()) {
    if (!graph.batch_symbol().empty()) batch_ = Dim::symbol(graph.batch_symbol());
  }

  std::vector<Diagnostic> verify() {
    if (!graph_.batch_symbol().empty() && !is_symbol_name(graph_.batch_symbol())) {
      add({}, fmt::format("batch symbol \"{}\" is not a name", graph_.batch_symbol()), "G11");
    }
    for (Diagnostic& fault : faults_of_assumptions(graph_)) found_.push_back(std::move(fault));
    for (const ValueId id : graph_.values()) value(id);
    for (const TaskId id : graph_.tasks()) task(id);
    signature();
    for (const LossTerm& term : graph_.losses()) loss(term);
    totals();
    for (Diagnostic& fault : faults_of_statistics(graph_, buffers_)) found_.push_back(std::move(fault));
    for (Diagnostic& fault : faults_of_state(graph_)) found_.push_back(std::move(fault));
    symbols();
    if (!graph_.losses().empty()) mixes();
    return std::move(found_);
  }

 private:
  void add(Location where, std::string message, const char* rule) {
    found_.push_back(error(std::move(where), std::move(message), rule));
  }
  Location where(ValueId id) const {
    const TaskId producer = graph_.value(id).producer;
    return producer.valid() && producer.index() < graph_.task_count() ? graph_.location(producer) : Location{};
  }
  bool exists(ValueId id) const { return id.valid() && id.index() < graph_.value_count(); }
  std::string_view name(ValueId id) const { return graph_.value(id).name; }

  // --- values

  void value(ValueId id) {
    kind(id);
    if (graph_.value(id).data.present()) data(id);
    if (graph_.kind(id) == ValueKind::kRandomInput) random_input(id);
    if (graph_.kind(id) == ValueKind::kBuffer) buffers_.push_back(id);
    facts_of_type(id);
  }

  // Rules that depend only on the type; checked once per type.
  void facts_of_type(ValueId id) {
    uint8_t& holds = type_holds_[graph_.type_number(id)];
    if (holds != 0) return;
    const size_t before = found_.size();
    layout(id);
    if (graph_.type(id).contents) contents(id);
    collect_symbols(id);
    holds = found_.size() == before ? 1 : 0;
  }

  void kind(ValueId id) {
    const Graph::Value& value = graph_.value(id);
    const bool made = value.producer.valid();
    if (made != (value.kind == ValueKind::kActivation)) {
      add(where(id),
          made ? fmt::format("%{} is produced by task #{}, but has kind {}", name(id), value.producer.index(),
                             str(value.kind))
               : fmt::format("activation %{} is not produced by any task", name(id)),
          "G5");
    }
    const bool holds =
        value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer || value.kind == ValueKind::kConstant;
    if (value.data.present() && !holds) {
      add(where(id),
          fmt::format("%{} has data, but kind {}; only parameters, buffers and constants have data", name(id),
                      str(value.kind)),
          "G5");
    }
    if (value.kind == ValueKind::kParameter && !is_float(value.type.dtype)) {
      add(where(id), fmt::format("parameter %{} is {}; parameters are floats", name(id), str(value.type.dtype)), "G6");
    }
  }

  void random_input(ValueId id) {
    const auto fault = [&](std::string what) { add({}, fmt::format("random input %{} {}", name(id), what), "G17"); };
    const RandomInput* random_input = graph_.random_input(id);
    if (random_input == nullptr) return fault("has no distribution");
    if (!is_float(graph_.type(id).dtype))
      fault(fmt::format("is {}; random inputs must be floats", str(graph_.type(id).dtype)));
    if (!(random_input->drop >= 0 && random_input->drop < 1))
      fault(fmt::format("has drop probability {}, which is not in [0, 1)", random_input->drop));
  }

  void data(ValueId id) {
    const Graph::Value& value = graph_.value(id);
    const Dim count = value.type.shape ? element_count(*value.type.shape) : Dim(-1);
    if (!count.is_constant() || count.constant() < 0) {
      const std::string shape = value.type.shape ? str(*value.type.shape) : "[*]";
      return add(where(id), fmt::format("%{} holds data, but its shape {} is not made of sizes", name(id), shape),
                 "G9");
    }
    const auto elements = static_cast<uint64_t>(count.constant());
    const uint32_t size = byte_size(value.type.dtype);
    if (value.data.size() % size != 0 || value.data.size() / size != elements) {
      add(where(id),
          fmt::format("%{} holds {} bytes; {}{} has {} elements of {} bytes", name(id), value.data.size(),
                      str(value.type.dtype), str(*value.type.shape), elements, size),
          "G9");
    }
  }

  void layout(ValueId id) {
    const ValueType& type = graph_.type(id);
    const BatchLayout& batch = type.batch;
    if (batch == BatchLayout{}) return;
    const auto fault = [&](std::string what) {
      add(where(id), fmt::format("samples of %{}: {}", name(id), what), "G10");
    };
    if (!batch.has_batch() && batch == BatchLayout{.mix = batch.mix}) return;
    if (!batch.has_batch()) return fault("a layout without an axis");
    if (batch.mix != Mix::kNone) return fault("samples on an axis, and " + std::string(str(batch.mix)));
    if (!batch_) return fault("the graph has no batch symbol");
    if (!type.shape) return fault("the shape is not known");
    if (batch.axis >= static_cast<int32_t>(type.shape->size())) {
      return fault(fmt::format("axis {} of a shape of rank {}", batch.axis, type.shape->size()));
    }
    const Dim& extent = (*type.shape)[static_cast<size_t>(batch.axis)];
    if (batch.outer == Dim(1) && batch.inner == Dim(1) && extent == *batch_) return;
    const Dim expected = batch.outer * *batch_ * batch.inner;
    if (!(extent == expected)) fault(fmt::format("axis {} is {}, not {}", batch.axis, extent.str(), expected.str()));
  }

  void contents(ValueId id) {
    const ValueType& type = graph_.type(id);
    const bool fits = !is_float(type.dtype) && type.shape && type.shape->size() <= 1 &&
                      element_count(*type.shape) == Dim(static_cast<int64_t>(type.contents->size()));
    if (fits) return;
    add(where(id),
        fmt::format("%{}: {} entries of contents on {}{}", name(id), type.contents->size(), str(type.dtype),
                    type.shape ? str(*type.shape) : "[*]"),
        "G13");
  }

  void collect_symbols(ValueId id) {
    const auto collect = [&](const Dim& dim) {
      if (dim.is_constant() || (batch_ && dim == *batch_)) return;
      std::set<std::string> names;
      dim.collect_symbols(names);
      for (const std::string& symbol : names) symbols_.emplace(symbol, id);
    };
    const ValueType& type = graph_.type(id);
    if (type.shape) std::for_each(type.shape->begin(), type.shape->end(), collect);
    if (type.contents) std::for_each(type.contents->begin(), type.contents->end(), collect);
    collect(type.batch.outer);
    collect(type.batch.inner);
  }

  void symbols() {
    for (const auto& [symbol, id] : symbols_) {
      if (!is_symbol_name(symbol)) {
        add(where(id), fmt::format("symbol \"{}\" in the type of %{} is not a name", symbol, name(id)), "G11");
      }
    }
  }

  // --- tasks

  void task(TaskId id) {
    if (!operands(id)) return;
    check_rule(id);
    if (tasks_that_hold_.contains(question_)) return;
    const size_t before = found_.size();
    bodies(id);
    const bool fits = arity(id) && attributes(id);
    if (fits && graph_.op(id).known()) types(id);
    if (found_.size() == before) tasks_that_hold_.insert(question_);
  }

  // Builds the key of all inputs to a task's rules once its operands exist. Tasks with equal keys are checked once.
  void check_rule(TaskId id) {
    const auto op = uint64_t{reinterpret_cast<uintptr_t>(&graph_.op(id))};
    const auto outputs = graph_.outputs(id);
    question_.assign({static_cast<uint32_t>(op), static_cast<uint32_t>(op >> 32), graph_.attributes_number(id),
                      static_cast<uint32_t>(outputs.size())});
    for (const ValueId output : outputs) question_.push_back(graph_.type_number(output));
    for (const ValueId input : graph_.inputs(id)) {
      question_.push_back(input.valid() ? graph_.type_number(input) : UINT32_MAX);
    }
  }

  bool operands(TaskId id) {
    bool holds = true;
    for (const ValueId input : graph_.inputs(id)) {
      if (!input.valid()) continue;
      const bool before = exists(input) && (!graph_.value(input).producer.valid() || graph_.value(input).producer < id);
      if (before) continue;
      holds = false;
      add(graph_.location(id),
          fmt::format("task #{} reads value {}, which is not defined before it", id.index(),
                      exists(input) ? std::string(name(input)) : std::to_string(input.index())),
          "G2");
    }
    return holds;
  }

  bool arity(TaskId id) {
    operand_types_ = type_list(graph_, graph_.inputs(id));
    const std::string fault = arity_fault(graph_.op(id), operand_types_, graph_.outputs(id).size());
    if (!fault.empty()) add(graph_.location(id), fmt::format("task #{}: {}", id.index(), fault), "G3");
    return fault.empty();
  }

  bool attributes(TaskId id) {
    if (!graph_.op(id).known()) return true;
    bool holds = true;
    if (const AttributeInfo* missing = graph_.op(id).missing(graph_.attributes(id))) {
      holds = false;
      add(graph_.location(id),
          fmt::format("task #{}: {} needs attribute {}", id.index(), graph_.op(id).name, missing->name), "G4");
    }
    for (const auto& [name, value] : graph_.attributes(id)) {
      const std::string fault = attribute_fault(graph_.op(id), name, value);
      if (fault.empty()) continue;
      holds = false;
      add(graph_.location(id), fmt::format("task #{}: {}", id.index(), fault), "G4");
    }
    return holds;
  }

  void bodies(TaskId id) {
    for (const auto& [name, value] : graph_.attributes(id)) {
      const auto* body = std::get_if<Body>(&value);
      if (body == nullptr) continue;
      const Graph& inside = body->graph();
      const std::string what = fmt::format("task #{}: body `{}`", id.index(), name);
      const auto fault = [&](const std::string& found) { add(graph_.location(id), what + found, "G19"); };
      if (inside.batch_symbol() != graph_.batch_symbol())
        fault(fmt::format(" has the batch symbol \"{}\", not \"{}\"", inside.batch_symbol(), graph_.batch_symbol()));
      if (!inside.losses().empty() || !inside.statistics().empty() || !inside.state().empty())
        fault(" has losses, running statistics or state");
      for (const ValueId leaf : inside.values()) {
        const auto& inputs = inside.inputs();
        const bool handed = std::find(inputs.begin(), inputs.end(), leaf) != inputs.end();
        if (inside.producer(leaf).valid() || handed) continue;
        fault(fmt::format(" reads %{}, which is not among its inputs", inside.value(leaf).name));
      }
      for (Diagnostic& found : GraphVerifier(inside, &assuming_).verify()) {
        found.message = what + ": " + found.message;
        if (found.where == Location{}) found.where = graph_.location(id);
        found_.push_back(std::move(found));
      }
    }
  }

  // Applies the type rule if all operands and at least one output have a shape.
  void types(TaskId id) {
    const auto outputs = graph_.outputs(id);
    const auto known = [&](ValueId value) { return graph_.type(value).shape.has_value(); };
    if (std::none_of(outputs.begin(), outputs.end(), known)) return;
    const auto unknown = [](const ValueType* type) { return type != nullptr && !type->shape; };
    if (std::any_of(operand_types_.begin(), operand_types_.end(), unknown)) return;
    const OpInfo& op = graph_.op(id);
    const OpCall call{
        op,       operand_types_, graph_.attributes(id), graph_.batch_symbol(), static_cast<uint32_t>(outputs.size()),
        &assumed_};
    assumed_.clear();
    for (const Assumption& each : assuming_.assumptions()) assumed_.emplace_back(each.left, each.right);
    auto inferred = types_of(call);
    if (!inferred.ok()) {
      add(graph_.location(id), fmt::format("task #{} {}: {}", id.index(), op.name, inferred.diagnostic().message),
          "G8");
      return;
    }
    RANNC_CHECK(inferred->size() == outputs.size()) << op.name << " gave " << inferred->size() << " types";
    for (size_t i = 0; i < outputs.size(); ++i) compare(id, outputs[i], std::move((*inferred)[i]));
    for (const Equality& needed : assumed_) {
      if (is_assumed(assuming_, needed)) continue;
      add(graph_.location(id),
          fmt::format("task #{} {} needs {} to equal {}, which the graph does not assume", id.index(), op.name,
                      needed.first.str(), needed.second.str()),
          "G15");
    }
  }

  void compare(TaskId id, ValueId output, ValueType inferred) {
    const ValueType& stored = graph_.type(output);
    if (!assuming_.assumptions().empty()) inferred = normalised(std::move(inferred), assuming_.assumptions());
    if (!stored.shape || !inferred.shape) return;
    const bool contents = !stored.contents || !inferred.contents || stored.contents == inferred.contents;
    if (stored.dtype == inferred.dtype && stored.shape == inferred.shape && stored.batch == inferred.batch && contents)
      return;
    add(graph_.location(id),
        fmt::format("task #{}: %{} is {}, but {} gives {}", id.index(), name(output), describe(stored),
                    graph_.op(id).name, describe(inferred)),
        "G8");
  }

  static std::string describe(const ValueType& type) {
    std::string text = fmt::format("{}{}", str(type.dtype), str(*type.shape));
    if (type.batch.has_batch()) {
      text += fmt::format(" with samples on axis {} ({}*batch*{})", type.batch.axis, type.batch.outer.str(),
                          type.batch.inner.str());
    }
    if (type.batch.mix != Mix::kNone) text += fmt::format(" {}", str(type.batch.mix));
    if (type.contents) text += " contents " + str(*type.contents);
    return text;
  }

  void mixes() {
    for (const ValueId id : graph_.values()) {
      if (graph_.type(id).batch.mix != Mix::kMixed) continue;
      const TaskId maker = graph_.producer(id);
      const std::string by =
          maker.valid() ? fmt::format("task #{} {} makes", maker.index(), graph_.op(maker).name) : "there is";
      add(where(id), fmt::format("{} %{}, which mixes the samples of a micro-batch", by, name(id)), "G16");
    }
  }

  // --- signature and losses

  void signature() {
    std::vector<uint32_t> listed(graph_.value_count());
    for (const ValueId id : graph_.inputs()) {
      if (!exists(id)) {
        add({}, "an input is not a value of the graph", "G7");
      } else if (graph_.value(id).kind != ValueKind::kInput) {
        add({}, fmt::format("input %{} is of kind {}", name(id), str(graph_.value(id).kind)), "G7");
      } else if (listed[id.index()]++ == 1) {
        add({}, fmt::format("input %{} is listed twice", name(id)), "G7");
      }
    }
    for (const ValueId id : graph_.values()) {
      const bool counted = std::any_of(graph_.totals().given.begin(), graph_.totals().given.end(),
                                       [&](const Totals::Given& given) { return given.input == id; });
      if (counted && listed[id.index()] != 0) {
        add({}, fmt::format("input %{} holds a coefficient, but is among the inputs", name(id)), "G7");
      } else if (!counted && graph_.value(id).kind == ValueKind::kInput && listed[id.index()] == 0) {
        add({}, fmt::format("%{} is of kind input, but not among the inputs", name(id)), "G7");
      }
    }
    for (const ValueId id : graph_.outputs()) {
      if (!exists(id)) {
        add({}, "an output is not a value of the graph", "G7");
      } else if (graph_.kind(id) == ValueKind::kRandomInput) {
        add({}, fmt::format("random input %{} is an output; only tasks may read random inputs", name(id)), "G17");
      }
    }
  }

  void loss(const LossTerm& term) {
    if (!exists(term.numerator)) return add({}, "a loss names a value that is not of the graph", "G7");
    const ValueType& type = graph_.type(term.numerator);
    const Location at = where(term.numerator);
    const bool scalar = !type.shape || (type.shape->empty() && is_float(type.dtype));
    if (!graph_.value(term.numerator).producer.valid() || !scalar) {
      add(at,
          fmt::format("loss %{} is {} {}; it must be a float scalar that a task produces", name(term.numerator),
                      str(type.dtype), type.shape ? str(*type.shape) : "[*]"),
          "G12");
    }
    if (!std::isfinite(term.weight)) {
      add(at, fmt::format("the weight of loss %{} is {}", name(term.numerator), term.weight), "G12");
    }
    for (const auto& coefficient : {term.factor, term.divisor}) {
      if (!coefficient) continue;
      const std::string of = fmt::format("loss %{}", name(term.numerator));
      if (const ValueType* made = coefficient_type(*coefficient, of); made && !is_scalar(*made, DType::kF64)) {
        add(at,
            fmt::format("{} is multiplied or divided by a coefficient of type {}; it must be an f64 scalar", of,
                        words(*made)),
            "G12");
      }
    }
  }

  // --- totals

  static std::string words(const ValueType& type) {
    return fmt::format("{}{}", str(type.dtype), type.shape ? str(*type.shape) : "[*]");
  }
  static bool is_scalar(const ValueType& type, DType dtype) {
    return type.dtype == dtype && type.shape && type.shape->empty();
  }

  /// Null, with a diagnostic, if there is no such coefficient.
  const ValueType* coefficient_type(uint32_t number, const std::string& reader) {
    const auto& body = graph_.totals().coefficients;
    if (body && number < body->graph().outputs().size()) return &body->graph().type(body->graph().outputs()[number]);
    add({}, fmt::format("{} reads coefficient {}, which does not exist", reader, number), "G12");
    return nullptr;
  }

  void totals() {
    const Totals& totals = graph_.totals();
    std::vector<ValueType> counts;
    for (size_t i = 0; i < totals.counts.size(); ++i) {
      if (const auto made = count(totals.counts[i].graph(), fmt::format("count {}", i))) counts.push_back(*made);
    }
    if (totals.coefficients) after_counts(totals.coefficients->graph(), "coefficients", counts, {});
    for (const Totals::Given& given : totals.given) {
      if (!exists(given.input) || graph_.kind(given.input) != ValueKind::kInput) {
        add({}, "a coefficient is given to what is no input", "G21");
        continue;
      }
      const std::string reader = fmt::format("input %{}", name(given.input));
      const ValueType *made = coefficient_type(given.coefficient, reader), &type = graph_.type(given.input);
      if (made &&
          (type.shape != made->shape || type.batch.has_batch() || is_float(type.dtype) != is_float(made->dtype)))
        add({}, fmt::format("{} of type {} holds a coefficient of type {}", reader, words(type), words(*made)), "G21");
    }
    for (const ValueId sum : totals.sums) {
      const auto& outputs = graph_.outputs();
      if (!exists(sum) || std::find(outputs.begin(), outputs.end(), sum) == outputs.end())
        add({}, "metrics read a sum that is no output", "G21");
    }
    if (totals.metrics) after_counts(totals.metrics->graph(), "metrics", counts, totals.sums);
  }

  void nested(const Graph& inside, const std::string& what, const Graph* around) {
    if (!inside.losses().empty() || !inside.statistics().empty() || !inside.state().empty() ||
        inside.totals() != Totals{}) {
      add({}, what + " have losses, totals, running statistics or state", "G21");
    }
    for (Diagnostic& found : GraphVerifier(inside, around).verify()) {
      found.message = what + ": " + found.message;
      found_.push_back(std::move(found));
    }
  }

  /// Returns the type of a count over all samples.
  std::optional<ValueType> count(const Graph& body, const std::string& what) {
    nested(body, what, &assuming_);
    const auto fault = [&](const std::string& found) { add({}, what + found, "G21"); };
    if (body.batch_symbol() != graph_.batch_symbol()) fault(" has another batch symbol than the graph");
    for (const ValueId input : body.inputs()) {
      const ValueId outside = graph_.find(body.value(input).name);
      const bool listed = std::find(graph_.inputs().begin(), graph_.inputs().end(), outside) != graph_.inputs().end();
      if (!listed) fault(fmt::format(" reads %{}, which is no input of the graph", body.value(input).name));
    }
    if (body.outputs().size() != 1) {
      fault(fmt::format(" has {} results; expected one", body.outputs().size()));
      return std::nullopt;
    }
    ValueType made = body.type(body.outputs()[0]);
    if (made.dtype != DType::kI64 && made.dtype != DType::kF64) fault(" is " + words(made) + "; expected i64 or f64");
    if (batch_ && (made.batch.axis != 0 || !made.shape || made.shape->front() != *batch_)) {
      fault(" has no samples on axis 0");
      return std::nullopt;
    }
    if (batch_) made.shape->erase(made.shape->begin());
    return made;
  }

  void after_counts(const Graph& body, const std::string& what, const std::vector<ValueType>& counts,
                    const std::vector<ValueId>& sums) {
    nested(body, what, nullptr);
    const auto& inputs = body.inputs();
    if (inputs.size() != counts.size() + sums.size()) {
      return add({},
                 fmt::format("{} read {} numbers; there are {} counts and {} sums", what, inputs.size(), counts.size(),
                             sums.size()),
                 "G21");
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const ValueType& read = body.type(inputs[sums.size() + i]);
      if (read.dtype == counts[i].dtype && read.shape == counts[i].shape) continue;
      add({}, fmt::format("{} read count {} as {}", what, i, words(read)), "G21");
    }
  }

  const Graph& graph_;
  const Graph& assuming_;
  std::optional<Dim> batch_;
  std::map<std::string, ValueId> symbols_;       // each with the first value that uses it
  std::vector<const ValueType*> operand_types_;  // of the current task
  std::vector<Equality> assumed_;
  std::vector<ValueId> buffers_;
  std::vector<uint8_t> type_holds_;  // per type, whether it has been checked
  std::vector<uint32_t> question_;
  std::unordered_set<std::vector<uint32_t>, HashOfNumbers> tasks_that_hold_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph) { return GraphVerifier(graph).verify(); }

}  // namespace rannc::ir
