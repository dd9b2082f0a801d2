#include "frontend/torchscript/internal/archive/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/internal/batch.h"
#include "frontend/torchscript/internal/archive/archive.h"
#include "frontend/torchscript/internal/exported/signature.h"
#include "frontend/torchscript/internal/interpreter.h"
#include "frontend/torchscript/internal/results.h"

namespace rannc::frontend::torchscript {

namespace {

class Importer {
 public:
  Importer(const Archive& archive, const ImportOptions& options)
      : archive_(archive),
        options_(options),
        state_(archive, graph_, notes_),
        growth_(archive.file().bytes()),
        interpreter_(archive.path(), state_, graph_, notes_, growth_, options) {}

  Result<Imported> run() {
    const auto* const forward = archive_.module().type()->findMethod("forward");
    if (forward == nullptr) return error(where(), "the module has no method forward");
    RANNC_TRY(state_.check_memory());
    RANNC_ASSIGN(std::vector<Item> arguments, add_inputs(forward->getSchema()));
    auto made = interpreter_.call(state_.root(), "forward", std::move(arguments));
    const auto fault = interpreter_.fault();
    if (fault && (!made.ok() || interpreter_.lost_state())) return *fault;
    if (!made.ok()) return made.diagnostic();
    RANNC_TRY(add_outputs(graph_, notes_, *made, {options_.outputs, options_.required, fault}, archive_.path()));
    if (state_.has_no_parameters())
      notes_.counted_remarks
          ["module without parameters, as frozen ones are: the names of state_dict are lost, and what is trained "
           "follows from where tensors are used"] = 1;
    return Imported{std::move(graph_), std::move(notes_)};
  }

 private:
  Location where(std::string node = {}) const { return {archive_.path(), 0, 0, std::move(node)}; }

  // Tensor arguments are inputs while there are types for them. The rest must have defaults.
  Result<std::vector<Item>> add_inputs(const c10::FunctionSchema& schema) {
    std::vector<const c10::Argument*> tensors;
    std::vector<std::string> names;
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.name() == "self") continue;
      const bool is_tensor = argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
      if (is_tensor) tensors.push_back(&argument), names.push_back(argument.name());
      if (!is_tensor && !argument.default_value())
        return error(where(argument.name()),
                     fmt::format("argument '{}' of forward is of type {}; only tensors are supported: trace or script "
                                 "a module whose forward takes each tensor separately",
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
      return error(where(), fmt::format("forward takes {}, whose types are not in the file: specify --input "
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
    // Types with argument names may skip optional arguments in between.
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

  const Archive& archive_;
  const ImportOptions& options_;
  ir::Graph graph_;
  ImportNotes notes_;
  State state_;
  Growth growth_;
  Interpreter interpreter_;
};

}  // namespace

Result<Imported> read_script(ArchiveFile file, const ImportOptions& options) {
  RANNC_ASSIGN(const Archive archive, Archive::load(std::move(file)));
  try {
    return Importer(archive, options).run();
  } catch (const c10::Error& failure) {
    return error(Location{archive.path()},
                 fmt::format("cannot be read as TorchScript: {}", failure.what_without_backtrace()));
  }
}

}  // namespace rannc::frontend::torchscript
