#include "passes/loss/join_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::ValueKind;
using ir::ValueType;

std::string describe(const ValueType& type) {
  return fmt::format("{}{}", str(type.dtype), type.shape ? ir::str(*type.shape) : "[*]");
}

constexpr uint64_t kFirstKey = uint64_t{1} << 40;  // of draws of a loss: those of a model have lower ones

class Joiner {
 public:
  Joiner(Graph& model, const Graph& loss, const LossGraph& how)
      : model_(model), loss_(loss), how_(how), map_(loss.value_count()) {}

  Result<std::vector<LossSpec>> run() {
    RANNC_TRY(check_names());
    for (const ValueId input : loss_.inputs()) RANNC_TRY(connect(input));
    if (!reads_model_) {
      return error({how_.file, 0, 0, {}},
                   fmt::format("no input of the loss is an output of the model; its inputs are{}, "
                               "the model's outputs{}",
                               names(loss_, loss_.inputs()), names(model_, model_.outputs())))
          .note("--loss-input INPUT=OUTPUT maps an input of the loss to an output");
    }
    RANNC_TRY(check_batch());
    add_leaves();
    for (const TaskId task : loss_.tasks()) RANNC_TRY(copy(task));
    return terms();
  }

 private:
  static std::string names(const Graph& graph, const std::vector<ValueId>& values) {
    std::string text;
    for (const ValueId value : values) text += " " + std::string(graph.value(value).name);
    return text;
  }

  static ValueId find(const Graph& graph, const std::vector<ValueId>& among, std::string_view name) {
    const auto found =
        std::find_if(among.begin(), among.end(), [&](ValueId id) { return graph.value(id).name == name; });
    return found == among.end() ? ValueId() : *found;
  }

  // Flags speak of what is there.
  Result<void> check_names() const {
    for (const auto& [input, output] : how_.inputs) {
      if (!find(loss_, loss_.inputs(), input).valid()) {
        return error({how_.file, 0, 0, {}},
                     fmt::format("the loss has no input {}; its inputs are{}", input, names(loss_, loss_.inputs())));
      }
      if (find(model_, model_.outputs(), output).valid() || find(model_, model_.inputs(), output).valid()) continue;
      return error({how_.file, 0, 0, {}},
                   fmt::format("input {} of the loss is mapped to {}, which the model does not have; "
                               "its outputs are{}",
                               input, output, names(model_, model_.outputs())));
    }
    for (const auto& entry : how_.weights) {
      if (find(loss_, loss_.outputs(), entry.first).valid()) continue;
      return error({how_.file, 0, 0, {}}, fmt::format("the loss has no output {} to be weighted; its outputs are{}",
                                                      entry.first, names(loss_, loss_.outputs())));
    }
    return {};
  }

  // What of the model an input of the loss is, if any: with types that agree, which says what its symbols are.
  Result<void> connect(ValueId input) {
    const std::string name(loss_.value(input).name);
    const auto said = how_.inputs.find(name);
    const std::string& wanted = said == how_.inputs.end() ? name : said->second;
    ValueId found = find(model_, model_.outputs(), wanted);
    reads_model_ = reads_model_ || found.valid();
    if (!found.valid()) found = find(model_, model_.inputs(), wanted);
    if (!found.valid()) return {};
    if (!unify(loss_.type(input), model_.type(found))) {
      return error({how_.file, 0, 0, name},
                   fmt::format("input %{} of the loss is {}, but %{} of the model is {}", name,
                               describe(loss_.type(input)), wanted, describe(model_.type(found))))
          .note(fmt::format("%{} is made here", wanted), where(found));
    }
    map_[input.index()] = found;
    return {};
  }

  Location where(ValueId value) const {
    const TaskId maker = model_.producer(value);
    return maker.valid() ? model_.location(maker) : Location{};
  }

  bool unify(const ValueType& loss, const ValueType& model) {
    if (loss.dtype != model.dtype) return false;
    if (!loss.shape || !model.shape) return true;
    if (loss.shape->size() != model.shape->size()) return false;
    for (size_t i = 0; i < loss.shape->size(); ++i) {
      const Dim& mine = (*loss.shape)[i];
      const Dim& there = (*model.shape)[i];
      if (!mine.is_symbol()) {
        if (mine.is_constant() && !(mine == there)) return false;
        continue;
      }
      const auto known = symbols_.emplace(mine.symbol_name(), there);
      if (!(known.first->second == there)) return false;
    }
    return true;
  }

  // The samples of the loss are those of the model.
  Result<void> check_batch() {
    const std::string &mine = loss_.batch_symbol(), &there = model_.batch_symbol();
    if (mine.empty() || there.empty()) return {};
    const auto known = symbols_.emplace(mine, Dim::symbol(there)).first;
    if (known->second == Dim::symbol(there)) return {};
    return error({how_.file, 0, 0, {}},
                 fmt::format("`{}` counts the samples of the loss, but is {} in the model, where "
                             "`{}` does",
                             mine, known->second.str(), there));
  }

  // All at once: a symbol of the loss may have the name of another one of the model.
  Dim renamed(Dim dim) const {
    std::set<std::string> used;
    dim.collect_symbols(used);
    for (const std::string& symbol : used) {
      if (symbols_.contains(symbol)) dim = dim.substitute(symbol, Dim::symbol("rannc.loss." + symbol));
    }
    for (const std::string& symbol : used) {
      const auto by = symbols_.find(symbol);
      if (by != symbols_.end()) dim = dim.substitute("rannc.loss." + symbol, by->second);
    }
    return dim;
  }
  Shape renamed(Shape shape) const {
    for (Dim& dim : shape) dim = renamed(std::move(dim));
    return shape;
  }
  ValueType renamed(ValueType type) const {
    if (type.shape) type.shape = renamed(*std::move(type.shape));
    if (type.contents) type.contents = renamed(*std::move(type.contents));
    type.batch.outer = renamed(type.batch.outer);
    type.batch.inner = renamed(type.batch.inner);
    return type;
  }
  ir::Attributes renamed(const ir::Attributes& given) const {
    ir::Attributes attributes = given;
    for (const auto& [name, value] : given) {
      if (const auto* dim = std::get_if<Dim>(&value)) attributes.set(name, renamed(*dim));
      if (const auto* list = std::get_if<Shape>(&value)) attributes.set(name, renamed(*list));
    }
    return attributes;
  }

  void add_leaves() {
    for (const ValueId id : loss_.values()) {
      const Graph::Value value = loss_.value(id);
      if (value.producer.valid() || map_[id.index()].valid()) continue;
      const bool labels = value.kind == ValueKind::kInput;
      const std::string name = (labels ? "labels/" : "") + std::string(value.name);
      if (const ir::RandomInput* const random_input = loss_.random_input(id)) {
        ir::RandomInput own = *random_input;
        own.key += kFirstKey;
        map_[id.index()] = model_.add_random_input(name, renamed(value.type), own);
        continue;
      }
      map_[id.index()] = model_.add_value(value.kind, name, renamed(value.type), value.data);
      if (labels) model_.add_input(map_[id.index()]);
    }
  }

  Result<void> copy(TaskId task) {
    std::vector<ValueId> operands;
    for (const ValueId operand : loss_.inputs(task)) {
      operands.push_back(operand.valid() ? map_[operand.index()] : ValueId());
    }
    std::vector<std::string> names;
    for (const ValueId output : loss_.outputs(task)) names.emplace_back(loss_.value(output).name);
    const TaskId made =
        model_.add_task(loss_.op(task), operands, renamed(loss_.attributes(task)), names, loss_.location(task));
    for (size_t i = 0; i < names.size(); ++i) map_[loss_.outputs(task)[i].index()] = model_.outputs(made)[i];
    if (auto typed = ir::infer_types(model_, made); !typed.ok()) {
      return Diagnostic(typed.diagnostic()).note(fmt::format("the loss of {} reads outputs of the model", how_.file));
    }
    return {};
  }

  Result<std::vector<LossSpec>> terms() {
    std::vector<LossSpec> terms;
    for (const ValueId output : loss_.outputs()) {
      const std::string wanted(loss_.value(output).name);
      const ValueId made = map_[output.index()];
      const ValueType& type = model_.type(made);
      if (!ir::is_float(type.dtype) || (type.shape && !(ir::element_count(*type.shape) == Dim(1)))) {
        return error({how_.file, 0, 0, wanted},
                     fmt::format("output %{} of the loss is {}; it must be a float scalar", wanted, describe(type)));
      }
      if (!find(model_, model_.outputs(), model_.value(made).name).valid()) model_.add_output(made);
      const auto weight = how_.weights.find(wanted);
      LossSpec& term = terms.emplace_back();
      term.kind = LossSpec::Kind::kInGraph;
      term.output = model_.value(made).name;
      if (weight != how_.weights.end()) term.weight = weight->second;
    }
    return terms;
  }

  Graph& model_;
  const Graph& loss_;
  const LossGraph& how_;
  std::vector<ValueId> map_;            // of the loss, by values of the model
  std::map<std::string, Dim> symbols_;  // of the loss, in the model
  bool reads_model_ = false;
};

}  // namespace

Result<std::vector<LossSpec>> join_loss(Graph& model, const Graph& loss, const LossGraph& how) {
  return Joiner(model, loss, how).run();
}

}  // namespace rannc::passes
