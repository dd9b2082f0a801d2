#include "frontend/torchscript/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "frontend/internal/batch.h"
#include "frontend/torchscript/internal/archive.h"
#include "frontend/torchscript/internal/interpreter.h"
#include "frontend/torchscript/internal/signature.h"
#include "ir/rewriter.h"

namespace rannc::frontend {

namespace {

using namespace torchscript;

/// The graph with other names for some of its activations.
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

class Importer {
 public:
  Importer(const Archive& archive, uint64_t bytes, const ImportOptions& options)
      : archive_(archive),
        options_(options),
        state_(archive, graph_, notes_),
        growth_(bytes),
        interpreter_(archive.path(), state_, graph_, notes_, growth_, options.max_nodes) {}

  Result<Imported> run() {
    const auto* const forward = archive_.module().type()->findMethod("forward");
    if (forward == nullptr) return error(where(), "the module has no method forward");
    RANNC_ASSIGN(std::vector<Item> arguments, add_inputs(forward->getSchema()));
    auto made = interpreter_.call(state_.root(), "forward", std::move(arguments));
    if (!interpreter_.unknown().empty()) return unknown_operators();
    if (!made.ok()) return made.diagnostic();
    RANNC_TRY(add_outputs(*made));
    if (state_.parameters() == 0)
      notes_.counted_remarks
          ["module without parameters, as frozen ones are: what is trained follows from where tensors are used"] = 1;
    return Imported{std::move(graph_), std::move(notes_)};
  }

 private:
  Location where(std::string node = {}) const { return {archive_.path(), 0, 0, std::move(node)}; }

  // Arguments that are tensors are inputs, as long as types are given; the rest has to have a value of its own.
  Result<std::vector<Item>> add_inputs(const c10::FunctionSchema& schema) {
    std::vector<const c10::Argument*> tensors;
    std::vector<std::string> names;
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.name() == "self") continue;
      const bool is_tensor = argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
      if (is_tensor) tensors.push_back(&argument), names.push_back(argument.name());
      if (!is_tensor && !argument.default_value())
        return error(
            where(argument.name()),
            fmt::format("argument '{}' of forward is of type {}; only tensors can be fed: trace or script a module "
                        "whose forward takes each tensor by itself",
                        argument.name(), argument.type()->str()));
    }
    std::vector<InputSpec> given;
    for (const std::string& text : options_.inputs) {
      RANNC_ASSIGN(InputSpec spec, parse_input(text));
      given.push_back(std::move(spec));
    }
    const auto needed = static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(), [](const auto* argument) {
      return argument->type()->kind() == c10::TypeKind::TensorType && !argument->default_value();
    }));
    if (given.size() < needed || given.size() > tensors.size()) {
      return error(where(), fmt::format("forward takes {}, whose types the file does not say: give --input "
                                        "{}=TYPE[batch,...] for each, as in x=f32[batch,3,64,64]",
                                        fmt::join(names, ", "), names.empty() ? "name" : names[0]));
    }
    RANNC_ASSIGN(given, in_order(std::move(given), names));
    return bind(schema, tensors, given);
  }

  Result<std::vector<Item>> bind(const c10::FunctionSchema& schema, const std::vector<const c10::Argument*>& tensors,
                                 std::vector<InputSpec>& given) {
    std::vector<ir::ValueType> types;
    for (const InputSpec& spec : given) types.push_back(spec.type);
    RANNC_ASSIGN(const std::string batch, settle_batch(types, options_, archive_.path()));
    graph_.set_batch_symbol(batch);
    std::vector<Item> arguments;
    // Types given by the arguments' own names may leave out optional ones between.
    size_t next = 0;
    const bool named = std::all_of(given.begin(), given.end(), [&](const InputSpec& spec) {
      return std::any_of(tensors.begin(), tensors.end(),
                         [&](const auto* argument) { return argument->name() == spec.name; });
    });
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.name() == "self") continue;
      const bool is_tensor = std::find(tensors.begin(), tensors.end(), &argument) != tensors.end();
      const bool fed = is_tensor && next < given.size() && (!named || given[next].name == argument.name());
      if (!fed) {
        RANNC_ASSIGN(Item item, state_.literal(argument.default_value().value_or(c10::IValue()), argument.name(),
                                               where(argument.name())));
        arguments.push_back(std::move(item));
        continue;
      }
      const ValueId value = graph_.add_value(ir::ValueKind::kInput, given[next].name, types[next]);
      graph_.add_input(value);
      arguments.push_back(std::make_shared<Tensor>(value));
      ++next;
    }
    return arguments;
  }

  struct Output {
    std::string name;
    TensorRef tensor;
  };

  // Tensors of what forward gives, in order.
  Result<void> collect(const Item& item, const std::string& name, std::vector<Output>& into) const {
    if (const auto* tensor = item.get<TensorRef>()) {
      into.push_back({name, *tensor});
    } else if (const Sequence* const sequence = item.sequence()) {
      for (size_t i = 0; i < sequence->elements.size(); ++i)
        RANNC_TRY(collect(sequence->elements[i], fmt::format("{}_{}", name.empty() ? "output" : name, i), into));
    } else if (const Dictionary* const dictionary = item.dictionary()) {
      for (const auto& [key, value] : dictionary->entries) {
        const auto* const text = key.get<std::string>();
        RANNC_TRY(collect(value, text ? *text : fmt::format("output_{}", into.size()), into));
      }
    } else if (!item.is_none()) {
      return error(where(), fmt::format("forward gives {}; expected tensors", describe(item)));
    }
    return {};
  }

  Result<void> add_outputs(const Item& made) {
    std::vector<Output> outputs;
    RANNC_TRY(collect(made, {}, outputs));
    if (outputs.empty()) return error(where(), "forward gives no tensor");
    if (options_.outputs.size() > outputs.size())
      return error(where(), fmt::format("{} names are given for {} output{}", options_.outputs.size(), outputs.size(),
                                        outputs.size() == 1 ? "" : "s"));
    std::map<ValueId, std::string> names;
    std::vector<ValueId> values;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = i < options_.outputs.size() ? options_.outputs[i]
                               : outputs[i].name.empty()   ? "output"
                                                           : outputs[i].name;
      Call call(graph_, where(name), "output", name, {}, notes_);
      const ValueId last = outputs[i].tensor->read(call);
      const bool is_free = call.good() && graph_.producer(last).valid() && names.emplace(last, name).second;
      if (!is_free) call.result("identity", {last});
      if (call.failure()) return *call.failure();
      values.push_back(is_free ? last : (*call.results()[0].get<TensorRef>())->now());
    }
    graph_.set_outputs(std::move(values));
    graph_ = renamed(graph_, names);
    return {};
  }

  Diagnostic unknown_operators() const {
    std::vector<std::string> names;
    Diagnostic found = error(where(), "");
    for (const auto& [schema, met] : interpreter_.unknown()) {
      names.push_back(fmt::format("{} ({})", schema, met.calls));
      found.notes.push_back({met.where, met.why});
    }
    found.message = fmt::format("operators without a translation: {}", fmt::join(names, ", "));
    return found;
  }

  const Archive& archive_;
  const ImportOptions& options_;
  ir::Graph graph_;
  ImportNotes notes_;
  State state_;
  Growth growth_;
  Interpreter interpreter_;
};

}  // namespace

Result<Imported> read_torchscript(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const Archive archive, Archive::open(path, options.max_file_bytes));
  std::error_code status;
  const auto bytes = std::filesystem::file_size(path, status);
  try {
    return Importer(archive, status ? 0 : bytes, options).run();
  } catch (const c10::Error& failure) {
    return error(Location{archive.path()},
                 fmt::format("cannot be read as TorchScript: {}", failure.what_without_backtrace()));
  }
}

}  // namespace rannc::frontend
