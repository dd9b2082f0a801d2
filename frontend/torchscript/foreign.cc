#include "frontend/torchscript/foreign.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "frontend/torchscript/internal/foreign/foreign_run.h"
#include "frontend/torchscript/internal/foreign/sample_split.h"
#include "frontend/torchscript/internal/foreign/size_fit.h"
#include "frontend/torchscript/internal/foreign/symbolic_size.h"

namespace rannc::frontend::torchscript {

namespace {

// --- which operators may be called

/// Operators with side effects that their schemas do not show: they access files, print or communicate.
constexpr std::array<std::string_view, 10> kWithEffects = {
    "from_file", "save", "load", "print", "_print", "warn", "_save", "_from_file", "to_file", "record_stream"};
constexpr std::array<std::string_view, 7> kSpacesWithEffects = {
    "c10d", "_c10d_functional", "c10d_functional", "symm_mem", "profiler", "prim", "streams"};

bool is_tensor(const c10::Type& type) { return type.kind() == c10::TypeKind::TensorType; }
bool is_tensor_list(const c10::Type& type) { return type.isSubtypeOf(*c10::ListType::ofTensors()); }

Result<void> check_effects(const c10::OperatorHandle& handle, std::string_view space, std::string_view name) {
  const c10::FunctionSchema& schema = handle.schema();
  for (const c10::Argument& argument : schema.arguments()) {
    const bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (writes) return error(fmt::format("it writes into `{}`", argument.name()));
  }
  const bool effects =
      std::find(kWithEffects.begin(), kWithEffects.end(), name) != kWithEffects.end() ||
      std::find(kSpacesWithEffects.begin(), kSpacesWithEffects.end(), space) != kSpacesWithEffects.end();
  if (effects) return error("it has side effects");
  if (handle.hasTag(at::Tag::nondeterministic_seeded))
    return error("it draws random numbers that would differ between cuts of the model");
  const bool by_data = handle.hasTag(at::Tag::data_dependent_output) || handle.hasTag(at::Tag::dynamic_output_shape);
  if (by_data) return error("the sizes of its results depend on data");
  return {};
}

Result<void> check_results(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  const bool list = returns.size() == 1 && is_tensor_list(*returns[0].type());
  if (list) return {};
  if (returns.empty()) return error("it returns no tensors");
  for (const c10::Argument& each : returns) {
    if (!is_tensor(*each.type())) return error(fmt::format("it returns {}, which is no tensor", each.type()->str()));
  }
  return {};
}

// --- arguments

/// The type inside an optional type.
c10::TypePtr bare(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

/// Returns the argument in the form that the dispatcher accepts, or an error.
Result<ir::Attribute> as_taken(const c10::Argument& parameter, const ir::Attribute& given) {
  const c10::TypePtr type = bare(parameter.type());
  const auto refused = [&] {
    return error(fmt::format("argument `{}` of type {} cannot be an attribute of a task", parameter.name(),
                             parameter.type()->str()));
  };
  const auto* dim = std::get_if<ir::Dim>(&given);
  const bool list = type->kind() == c10::TypeKind::ListType;
  const c10::TypeKind element = list ? type->expectRef<c10::ListType>().getElementType()->kind() : type->kind();
  const bool integers = element == c10::TypeKind::IntType || element == c10::TypeKind::SymIntType;
  if (list && integers && dim != nullptr)
    return ir::Attribute(ir::Shape(parameter.N() ? static_cast<size_t>(*parameter.N()) : 1, *dim));
  if (list && element == c10::TypeKind::FloatType) {
    if (std::holds_alternative<std::vector<double>>(given)) return given;
    const auto* const plain = std::get_if<ir::Shape>(&given);
    std::vector<double> numbers;
    for (const ir::Dim& each : plain ? *plain : ir::Shape{}) {
      if (!each.is_constant()) return refused();
      numbers.push_back(static_cast<double>(each.constant()));
    }
    return plain ? Result<ir::Attribute>(std::move(numbers)) : refused();
  }
  if (list) return integers && std::holds_alternative<ir::Shape>(given) ? Result<ir::Attribute>(given) : refused();
  bool fits = false;
  switch (element) {
    case c10::TypeKind::FloatType:
      if (dim != nullptr && dim->is_constant()) return ir::Attribute(static_cast<double>(dim->constant()));
      fits = std::holds_alternative<double>(given);
      break;
    case c10::TypeKind::BoolType:
      fits = std::holds_alternative<bool>(given);
      break;
    case c10::TypeKind::StringType:
      fits = std::holds_alternative<std::string>(given);
      break;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:  // all are integers to the dispatcher
      fits = dim != nullptr || std::holds_alternative<ir::DType>(given);
      break;
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::ClassType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TensorType:
    case c10::TypeKind::DeviceObjType:
      break;
    default:  // any number
      fits = dim != nullptr || std::holds_alternative<double>(given) || std::holds_alternative<bool>(given);
  }
  return fits ? Result<ir::Attribute>(given) : refused();
}

ir::ValueType as_declared(ir::ValueType type) {
  type.batch.mix = ir::Mix::kNone;
  return type;
}

Result<ir::ForeignCall> call_of(const c10::FunctionSchema& schema, const std::string& name,
                                const std::vector<ForeignArgument>& arguments) {
  ir::ForeignCall call;
  call.schema = name;
  std::set<std::string> given;
  for (const ForeignArgument& argument : arguments) {
    const auto index = schema.argumentIndexWithName(argument.parameter);
    if (!index) return error(fmt::format("it has no parameter `{}`", argument.parameter));
    const c10::Argument& parameter = schema.arguments()[static_cast<size_t>(*index)];
    if (!given.insert(argument.parameter).second)
      return error(fmt::format("parameter `{}` is given twice", argument.parameter));
    if (const auto* tensor = std::get_if<ir::ValueType>(&argument.value)) {
      if (!is_tensor(*bare(parameter.type())))
        return error(fmt::format("parameter `{}` is {}, no tensor", parameter.name(), parameter.type()->str()));
      call.operands.push_back({argument.parameter, {}});
      call.types.operands.emplace_back(as_declared(*tensor));
    } else if (const auto* tensors = std::get_if<ForeignArgument::Tensors>(&argument.value)) {
      call.operands.push_back({argument.parameter, static_cast<uint32_t>(tensors->size())});
      for (const auto& each : *tensors) {
        call.types.operands.emplace_back();
        if (each) call.types.operands.back() = as_declared(*each);
      }
    } else if (const auto* attribute = std::get_if<ir::Attribute>(&argument.value)) {
      RANNC_ASSIGN(ir::Attribute taken, as_taken(parameter, *attribute));
      call.arguments.set(argument.parameter, std::move(taken));
    } else if (std::holds_alternative<ForeignArgument::Device>(argument.value)) {
      call.device = argument.parameter;
    } else if (is_tensor(*bare(parameter.type()))) {
      call.operands.push_back({argument.parameter, {}});
      call.types.operands.emplace_back();
    } else if (!parameter.default_value() || !parameter.default_value()->isNone()) {
      call.none.push_back(argument.parameter);
    }
  }
  for (const c10::Argument& parameter : schema.arguments()) {
    const bool device = bare(parameter.type())->kind() == c10::TypeKind::DeviceObjType;
    if (device && call.types.operands.empty()) call.device = parameter.name();
    if (!given.contains(parameter.name()) && !parameter.default_value() && parameter.name() != call.device)
      return error(fmt::format("parameter `{}` is missing", parameter.name()));
  }
  for (const auto& type : call.types.operands) {
    if (type && !type->shape) return error("the rank of an operand is not known");
  }
  return call;
}

// --- types

/// Sizes and element types of the results at one point.
struct Seen {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<c10::ScalarType> dtypes;
};

Seen seen(const std::vector<at::Tensor>& results) {
  Seen found;
  for (const at::Tensor& each : results) {
    found.sizes.push_back(each.sizes().vec());
    found.dtypes.push_back(each.scalar_type());
  }
  return found;
}

std::vector<std::string> symbols_of(const ir::ForeignCall& call) {
  std::set<std::string> found;
  const auto collect = [&](const ir::Shape& shape) {
    for (const ir::Dim& dim : shape) dim.collect_symbols(found);
  };
  for (const auto& type : call.types.operands) {
    if (!type) continue;
    collect(*type->shape);
    if (type->contents) collect(*type->contents);
  }
  for (const auto& [name, value] : call.arguments) {
    if (const auto* dim = std::get_if<ir::Dim>(&value)) dim->collect_symbols(found);
    if (const auto* list = std::get_if<ir::Shape>(&value)) collect(*list);
  }
  return {found.begin(), found.end()};
}

constexpr int64_t kFarOnProcessor = 33;  // smaller, because results need memory

/// Determines the types of results by runs at several sizes.
class TypeFinder {
 public:
  TypeFinder(const ForeignRun& run, ir::ForeignCall& call) : run_(run), call_(call) {
    grid_.symbols = symbols_of(call);
  }

  Result<void> find() {
    if (grid_.symbols.size() > SizeGrid::kMostSymbols)
      return error(
          fmt::format("its sizes are made of {} symbols, more than {}", grid_.symbols.size(), SizeGrid::kMostSymbols));
    RANNC_ASSIGN(const bool on_meta, look_on_meta());
    if (!on_meta) RANNC_TRY(look_on_processor());
    call_.guessed = !on_meta || !grid_.symbols.empty();
    if (on_meta && !grid_.symbols.empty() && derive()) {
      call_.guessed = false;
      return {};
    }
    return fit();
  }

  const SizeGrid& grid() const { return grid_; }

 private:
  /// Returns false if there is no meta kernel.
  Result<bool> look_on_meta() {
    return at_some_step([&](const ir::Bindings& sizes) -> Result<Seen> {
      RANNC_ASSIGN(const Operands operands, run_.operands(sizes, at::kMeta, Numbers::kNormal, 0));
      RANNC_ASSIGN(const auto results, run_(operands, sizes, at::kMeta));
      return seen(results);
    });
  }

  /// Derives the types with a meta kernel on symbolic sizes. Returns false if that fails or the observed sizes differ.
  bool derive() {
    std::vector<ir::ValueType> types;
    try {
      const auto results = run_.symbolic();
      if (!results.ok() || results->size() != seen_[0].sizes.size()) return false;
      for (size_t i = 0; i < results->size(); ++i) {
        const auto dtype = ir::dtype_of_torch(static_cast<int>((*results)[i].scalar_type()));
        if (!dtype) return false;
        types.push_back({.dtype = *dtype, .shape = ir::Shape{}});
        for (const c10::SymInt& size : (*results)[i].sym_sizes()) {
          const auto dim = as_dim(size);
          if (!dim) return false;
          types.back().shape->push_back(*dim);
        }
        if (!has_sizes_seen(i, *types.back().shape)) return false;
      }
      if (!hold_at_one(types)) return false;
    } catch (const std::exception&) {
      return false;
    }
    call_.types.results = std::move(types);
    return true;
  }

  /// Whether the expressions, which are derived for symbols of at least 2, also hold if one symbol is 1.
  bool hold_at_one(const std::vector<ir::ValueType>& types) const {
    for (const std::string& symbol : grid_.symbols) {
      ir::Bindings sizes = grid_.points().front();
      sizes[symbol] = 1;
      try {
        const auto operands = run_.operands(sizes, at::kMeta, Numbers::kNormal, 0);
        if (!operands.ok()) return false;
        const auto results = run_(*operands, sizes, at::kMeta);
        if (!results.ok()) return false;
        for (size_t i = 0; i < types.size(); ++i) {
          std::vector<int64_t> expected;
          for (const ir::Dim& dim : *types[i].shape) expected.push_back(dim.evaluate(sizes).value_or(-1));
          if ((*results)[i].sizes() != at::IntArrayRef(expected)) return false;
        }
      } catch (const std::exception&) {
        continue;  // a run of the model fails too
      }
    }
    return true;
  }

  bool has_sizes_seen(size_t result, const ir::Shape& shape) const {
    const std::vector<ir::Bindings> points = grid_.points();
    for (size_t i = 0; i < points.size(); ++i) {
      std::vector<int64_t> sizes;
      for (const ir::Dim& dim : shape) sizes.push_back(dim.evaluate(points[i]).value_or(-1));
      if (seen_[i].sizes.size() <= result || seen_[i].sizes[result] != sizes) return false;
    }
    return true;
  }

  Result<void> look_on_processor() {
    grid_.far = kFarOnProcessor;
    for (const Numbers numbers : kAllNumbers) {
      const auto look = [&](const ir::Bindings& sizes) -> Result<Seen> {
        std::array<Seen, 2> found;
        for (size_t i = 0; i < found.size(); ++i) {
          RANNC_ASSIGN(const Operands operands, run_.operands(sizes, at::kCPU, numbers, i));
          RANNC_ASSIGN(const auto results, run_(operands, sizes, at::kCPU));
          found[i] = seen(results);
        }
        if (found[0].sizes != found[1].sizes) return error("the sizes of its results depend on data");
        return found[0];
      };
      RANNC_ASSIGN(const bool done, at_some_step(look));
      if (done) return {};
    }
    return error("LibTorch: " + why_);
  }

  /// Tries larger sizes, and then multiples of a step, because some operators accept no others.
  template <class Look>
  Result<bool> at_some_step(Look&& look) {
    for (const auto& [step, first] : {std::pair(1, 3), {1, 16}, {1, 64}, {2, 3}, {2, 16}, {4, 3}, {8, 3}, {16, 3}}) {
      grid_.step = step;
      grid_.first = first;
      seen_.clear();
      try {
        for (const ir::Bindings& point : grid_.points()) {
          RANNC_ASSIGN(Seen found, look(point));
          seen_.push_back(std::move(found));
        }
        return true;
      } catch (const c10::NotImplementedError&) {
        return false;
      } catch (const std::exception& failure) {
        if (why_.empty()) why_ = first_line(failure);
      }
    }
    return false;
  }

  Result<void> fit() {
    const std::vector<ir::Dim> likely = operand_sizes();
    for (size_t i = 0; i < seen_[0].sizes.size(); ++i) {
      const auto dtype = ir::dtype_of_torch(static_cast<int>(seen_[0].dtypes[i]));
      if (!dtype) return error(fmt::format("its result {} is of type {}", i, c10::toString(seen_[0].dtypes[i])));
      ir::ValueType type{.dtype = *dtype, .shape = ir::Shape{}};
      for (size_t axis = 0; axis < seen_[0].sizes[i].size(); ++axis) {
        RANNC_ASSIGN(ir::Dim dim, fit(i, axis, likely));
        type.shape->push_back(std::move(dim));
      }
      call_.types.results.push_back(std::move(type));
    }
    return {};
  }

  Result<ir::Dim> fit(size_t result, size_t axis, const std::vector<ir::Dim>& likely) const {
    std::vector<int64_t> values;
    for (const Seen& each : seen_) {
      const bool alike = each.sizes.size() == seen_[0].sizes.size() && each.dtypes == seen_[0].dtypes &&
                         each.sizes[result].size() == seen_[0].sizes[result].size();
      if (!alike) return error("the number, rank or type of its results depends on sizes");
      values.push_back(each.sizes[result][axis]);
    }
    if (const auto found = fitted(grid_, values, likely)) return *found;
    return error(fmt::format("size {} of result {} is no supported expression of the operands' sizes", axis, result));
  }

  std::vector<ir::Dim> operand_sizes() const {
    std::vector<ir::Dim> found;
    for (const auto& type : call_.types.operands) {
      if (type) found.insert(found.end(), type->shape->begin(), type->shape->end());
    }
    return found;
  }

  const ForeignRun& run_;
  ir::ForeignCall& call_;
  SizeGrid grid_;
  std::vector<Seen> seen_;
  std::string why_;
};

Result<ForeignTask> described(const std::string& schema, const std::vector<ForeignArgument>& arguments,
                              std::string_view batch) {
  const size_t colons = schema.find("::"), dot = schema.find('.', colons == std::string::npos ? 0 : colons);
  if (colons == std::string::npos) return error("the operator name has no namespace");
  const std::string overload = dot == std::string::npos ? "" : schema.substr(dot + 1);
  const auto handle = c10::Dispatcher::singleton().findSchema({schema.substr(0, dot), overload});
  if (!handle)
    return error("LibTorch has no such operator")
        .note("--load-library FILE loads a library that brings its own operators");
  RANNC_TRY(check_effects(*handle, std::string_view(schema).substr(0, colons),
                          std::string_view(schema).substr(0, dot).substr(colons + 2)));
  RANNC_TRY(check_results(handle->schema()));
  RANNC_ASSIGN(ir::ForeignCall call, call_of(handle->schema(), schema, arguments));
  const auto& returns = handle->schema().returns();
  call.list = is_tensor_list(*returns[0].type());
  call.view = std::any_of(returns.begin(), returns.end(),
                          [](const c10::Argument& each) { return each.alias_info() != nullptr; }) ||
              handle->hasTag(at::Tag::maybe_aliasing_or_mutating);
  const ForeignRun run(*handle, call);
  const c10::NoGradGuard no_tape;
  TypeFinder types(run, call);
  RANNC_TRY(types.find());
  const SizeGrid& grid = types.grid();
  RANNC_ASSIGN(const auto layouts, sample_layouts(run, call, grid.points().front(), batch, grid.step));
  for (size_t i = 0; i < layouts.size(); ++i) call.types.results[i].batch = layouts[i];
  for (auto& operand : call.types.operands) {
    if (operand) operand->contents.reset();
  }
  return ForeignTask{ir::foreign_name(schema), ir::foreign_attributes(call), call.types.results};
}

}  // namespace

Result<ForeignTask> foreign_task(const std::string& schema, const std::vector<ForeignArgument>& arguments,
                                 std::string_view batch_symbol) {
  try {
    auto made = described(schema, arguments, batch_symbol);
    if (made.ok()) return made;
    Diagnostic why = made.diagnostic();
    why.message = fmt::format("{} cannot be called: {}", schema, why.message);
    return why;
  } catch (const std::exception& failure) {
    return error(fmt::format("{} cannot be called: {}", schema, first_line(failure)));
  }
}

}  // namespace rannc::frontend::torchscript
