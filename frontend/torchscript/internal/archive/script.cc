#include "frontend/torchscript/internal/archive/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "frontend/internal/batch.h"
#include "frontend/torchscript/internal/archive/archive.h"
#include "frontend/torchscript/internal/archive/check_archive.h"
#include "frontend/torchscript/internal/exported/signature.h"
#include "frontend/torchscript/internal/interpreter.h"
#include "frontend/torchscript/internal/results.h"
#include "ir/text/text.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr double kMostExact = 9007199254740992;  // 2^53: integers up to here are exact

class Importer {
 public:
  Importer(const Archive& archive, const ImportOptions& options, const CallBefore& before)
      : archive_(archive),
        options_(options),
        state_(archive, graph_, notes_, before),
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
    constants_again(graph_);
    const Wanted wanted{options_.outputs, options_.required, fault, interpreter_.buffer_writes()};
    RANNC_TRY(add_outputs(graph_, notes_, *made, wanted, archive_.path()));
    if (state_.has_no_parameters())
      notes_.counted_remarks
          ["module without parameters, as frozen ones are: the names of state_dict are lost, and what is trained "
           "follows from where tensors are used"] = 1;
    return Imported{std::move(graph_), std::move(notes_)};
  }
  CallBefore found() const { return {written_constants(interpreter_.buffer_writes()), state_.left()}; }

 private:
  Location where(std::string node = {}) const { return {archive_.path(), 0, 0, std::move(node)}; }

  // The value of a number or boolean: that of the options, else the default.
  Result<std::optional<Item>> given_value(const c10::Argument& argument) const {
    const auto given = options_.input_values.find(argument.name());
    const c10::TypePtr type = given_type(argument);
    if (given == options_.input_values.end()) return std::optional<Item>();
    const double number = given->second;
    const bool whole = std::floor(number) == number && std::abs(number) <= kMostExact;
    if (type->kind() == c10::TypeKind::FloatType) return std::optional<Item>(number);
    if (type->kind() == c10::TypeKind::IntType && whole)
      return std::optional<Item>(ir::Dim(static_cast<int64_t>(number)));
    if (type->kind() == c10::TypeKind::BoolType && (number == 0 || number == 1))
      return std::optional<Item>(number == 1);
    return error(where(argument.name()), fmt::format("--input-value {}={}: argument '{}' of forward is of type {}",
                                                     argument.name(), number, argument.name(), argument.type()->str()));
  }

  /// The type of an argument, of an optional one that of its value.
  static c10::TypePtr given_type(const c10::Argument& argument) {
    const auto optional = argument.type()->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : argument.type();
  }

  static bool takes_value(const c10::Argument& argument) {
    const c10::TypeKind kind = given_type(argument)->kind();
    return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType;
  }

  Result<void> check_input_values(const c10::FunctionSchema& schema) const {
    std::vector<std::string> numbers;
    for (const c10::Argument& argument : schema.arguments()) {
      if (takes_value(argument)) numbers.push_back(fmt::format("{}: {}", argument.name(), argument.type()->str()));
    }
    for (const auto& [name, number] : options_.input_values) {
      const auto is_it = [&](const c10::Argument& argument) {
        return argument.name() == name && takes_value(argument);
      };
      if (std::any_of(schema.arguments().begin(), schema.arguments().end(), is_it)) continue;
      return error(where(name),
                   fmt::format("--input-value {}={}: forward has no argument '{}' of type int, float or "
                               "bool; {}",
                               name, number, name,
                               numbers.empty() ? "it has none" : fmt::format("it has {}", fmt::join(numbers, ", "))));
    }
    return {};
  }

  // Tensor arguments are inputs while there are types for them. The rest must have values.
  Result<std::vector<Item>> add_inputs(const c10::FunctionSchema& schema) {
    RANNC_TRY(check_input_values(schema));
    std::vector<const c10::Argument*> tensors;
    std::vector<std::string> names;
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.name() == "self") continue;
      const bool is_tensor = argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
      if (is_tensor) tensors.push_back(&argument), names.push_back(argument.name());
      if (is_tensor || argument.default_value() || options_.input_values.contains(argument.name())) continue;
      if (takes_value(argument)) {
        return error(
            where(argument.name()),
            fmt::format("argument '{}' of forward is of type {}: specify its value with --input-value {}=VALUE",
                        argument.name(), argument.type()->str(), argument.name()));
      }
      return error(where(argument.name()),
                   fmt::format("argument '{}' of forward is of type {}; only tensors, numbers and booleans are "
                               "supported: trace or script a module whose forward takes each tensor separately",
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
      RANNC_ASSIGN(const std::optional<Item> number, given_value(argument));
      if (number) {
        arguments.push_back(*number);
        continue;
      }
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

/// Imports the program. Error: the next call, with the attributes that this one leaves, would be another program.
Result<Imported> import_call(const Archive& archive, const ImportOptions& options) {
  const CallBefore none;
  Importer first(archive, options, none);
  auto made = first.run();
  CallBefore found = first.found(), known{std::move(found.written), {}};
  if (!known.written.empty()) made = Importer(archive, options, known).run();
  if (!made.ok() || found.left.empty()) return made;
  known.left = std::move(found.left);
  const auto next = Importer(archive, options, known).run();
  if (next.ok() && ir::print(next->graph) == ir::print(made->graph)) return made;
  std::vector<std::string> names;
  for (const auto& [attribute, item] : known.left) names.push_back("'" + attribute.second + "'");
  return error({archive.path()},
               fmt::format("the program sets {} while it runs, and its next call computes something else: training "
                           "repeats the first call",
                           fmt::join(names, ", ")))
      .note(kAdvice);
}

Result<Imported> import_module(const Archive& archive, const ImportOptions& options) {
  try {
    return import_call(archive, options);
  } catch (const c10::Error& failure) {
    return error(Location{archive.path()},
                 fmt::format("cannot be read as TorchScript: {}", failure.what_without_backtrace()));
  } catch (const std::exception& failure) {
    return error(Location{archive.path()}, fmt::format("cannot be read as TorchScript: {}", failure.what()));
  }
}

/// A module, whose code may be nested so deep that it is loaded, imported and freed on a stack of this size.
struct LoadedScript {
  Location where;
  uint64_t stack_bytes = 0;
  std::optional<Archive> archive = {};

  ~LoadedScript() {
    if (archive && !run_on_stack(stack_bytes, [&] { archive.reset(); }).ok()) archive.reset();
  }
  Result<void> load(ArchiveFile file) {
    return on_stack<void>([&]() -> Result<void> {
      RANNC_ASSIGN(archive, Archive::load(std::move(file)));
      return {};
    });
  }
  template <class T>
  Result<T> on_stack(const std::function<Result<T>()>& run) const {
    std::optional<Result<T>> result;
    const auto ran = run_on_stack(stack_bytes, [&] { result = run(); });
    if (!ran.ok()) return error(where, ran.diagnostic().message);
    return *std::move(result);
  }
};

}  // namespace

Result<ImportParsed> parse_script(ArchiveFile file) {
  const auto script = std::make_shared<LoadedScript>();
  script->where = {file.path()};
  RANNC_ASSIGN(script->stack_bytes, check_archive(file));
  RANNC_TRY(script->load(std::move(file)));
  return ImportParsed([script](const ImportOptions& options) {
    return script->on_stack<Imported>([&] { return import_module(*script->archive, options); });
  });
}

}  // namespace rannc::frontend::torchscript
