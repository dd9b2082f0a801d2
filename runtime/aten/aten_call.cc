#include "runtime/aten/aten_call.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include "ir/op/foreign.h"
#include "runtime/aten/torch_types.h"
#include "runtime/aten/vector_math.h"
#include "runtime/internal/aten_schema.h"

namespace rannc::runtime {

namespace aten = ir::aten;

const c10::OperatorHandle* handle_of(const std::string& schema) {
  resolve_vector_math();
  static std::mutex mutex;
  static std::map<std::string, std::optional<c10::OperatorHandle>> found;
  const std::lock_guard lock(mutex);
  auto at = found.find(schema);
  if (at == found.end()) {
    const size_t dot = schema.find('.');
    const std::string overload = dot == std::string::npos ? "" : schema.substr(dot + 1);
    at = found.emplace(schema, c10::Dispatcher::singleton().findSchema({schema.substr(0, dot), overload})).first;
  }
  return at->second ? &*at->second : nullptr;
}

const aten::Argument* argument_for(const aten::Call& call, const c10::FunctionSchema& schema, size_t index) {
  const c10::Argument& parameter = schema.arguments()[index];
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const aten::Argument& given = call.arguments[i];
    if (given.name.empty() ? i == index : given.name == parameter.name()) return &given;
  }
  return nullptr;
}

namespace {

std::optional<c10::IValue> constant_size(const ir::Dim& dim) {
  return dim.is_constant() ? std::optional<c10::IValue>(dim.constant()) : std::nullopt;
}

}  // namespace

std::optional<c10::IValue> constant_of(const aten::Argument::Kind& kind) {
  if (std::holds_alternative<aten::None>(kind)) return c10::IValue();
  if (const auto* dim = std::get_if<ir::Dim>(&kind)) return constant_size(*dim);
  if (const auto* dims = std::get_if<ir::Shape>(&kind)) {
    c10::List<int64_t> numbers;
    for (const ir::Dim& dim : *dims) {
      if (!dim.is_constant()) return std::nullopt;
      numbers.push_back(dim.constant());
    }
    return c10::IValue(std::move(numbers));
  }
  if (const auto* scalar = std::get_if<aten::Scalar>(&kind)) {
    if (const auto* dim = std::get_if<ir::Dim>(&scalar->number)) return constant_size(*dim);
    if (const auto* number = std::get_if<double>(&scalar->number)) return c10::IValue(*number);
    return c10::IValue(std::get<bool>(scalar->number));
  }
  if (const auto* number = std::get_if<double>(&kind)) return c10::IValue(*number);
  if (const auto* numbers = std::get_if<std::vector<double>>(&kind)) return c10::IValue(*numbers);
  if (const auto* flag = std::get_if<bool>(&kind)) return c10::IValue(*flag);
  if (const auto* flags = std::get_if<std::vector<bool>>(&kind)) {
    c10::List<bool> list;
    for (const bool each : *flags) list.push_back(each);
    return c10::IValue(std::move(list));
  }
  if (const auto* dtype = std::get_if<ir::DType>(&kind)) return c10::IValue(static_cast<int64_t>(scalar_type(*dtype)));
  if (const auto* format = std::get_if<aten::MemoryFormat>(&kind)) return c10::IValue(static_cast<int64_t>(*format));
  if (const auto* text = std::get_if<aten::Text>(&kind)) return c10::IValue(text->text);
  return std::nullopt;
}

namespace {

class Runner {
 public:
  Runner(const aten::Lowering& lowering, const AtenRun& run) : lowering_(lowering), run_(run) {}

  Result<std::vector<at::Tensor>> results() {
    for (const aten::Call& call : lowering_.calls) RANNC_TRY(make(call));
    std::vector<at::Tensor> found;
    for (const aten::Value& value : lowering_.results) found.push_back(tensor(value).value());
    return found;
  }

 private:
  using Operands = std::vector<std::optional<at::Tensor>>;

  Operands tensors_of(const aten::Argument& list) const {
    Operands found;
    for (const aten::Value& value : std::get<std::vector<aten::Value>>(list.value)) found.push_back(tensor(value));
    return found;
  }

  Result<std::vector<at::Tensor>> run_block(const aten::Block& block, const Operands& operands) const {
    const AtenRun inside{operands, run_.sizes, run_.device, run_.training};
    return Runner(block.lowering(), inside).results();
  }

  Result<void> branch(const aten::Call& call) {
    const bool holds = tensor(std::get<aten::Value>(call.arguments[0].value))->item<bool>();
    RANNC_ASSIGN(std::vector<at::Tensor> made, run_block(call.blocks[holds ? 0 : 1], tensors_of(call.arguments[1])));
    made_.push_back(std::move(made));
    return {};
  }

  /// Returns a size or the number in a tensor; nullopt for none.
  Result<std::optional<int64_t>> number_in(const aten::Argument& argument) const {
    if (std::holds_alternative<aten::None>(argument.value)) return std::optional<int64_t>();
    if (const auto* value = std::get_if<aten::Value>(&argument.value))
      return std::optional(tensor(*value)->item<int64_t>());
    RANNC_ASSIGN(const int64_t number, integer(std::get<ir::Dim>(argument.value)));
    return std::optional(number);
  }

  Result<void> loop(const aten::Call& call) {
    RANNC_ASSIGN(const std::optional<int64_t> trips, number_in(call.arguments[0]));
    RANNC_ASSIGN(const std::optional<int64_t> most, number_in(call.arguments[5]));
    const auto* predicate = std::get_if<aten::Value>(&call.arguments[1].value);
    std::optional<at::Tensor> condition = predicate != nullptr ? tensor(*predicate) : std::nullopt;
    Operands states = tensors_of(call.arguments[2]);
    const Operands scanned = tensors_of(call.arguments[3]), captured = tensors_of(call.arguments[4]);
    std::vector<std::vector<at::Tensor>> rows(call.results - states.size());
    for (int64_t trip = 0; (!trips || trip < *trips) && (!condition || condition->item<bool>()); ++trip) {
      if (most && trip == *most) return error(fmt::format("a loop makes more than {} trips", *most));
      Operands operands = {at::full({}, trip, at::TensorOptions().dtype(at::kLong).device(run_.device)), condition};
      operands.insert(operands.end(), states.begin(), states.end());
      for (const auto& each : scanned) operands.emplace_back(each->select(0, trip));
      operands.insert(operands.end(), captured.begin(), captured.end());
      RANNC_ASSIGN(const std::vector<at::Tensor> made, run_block(call.blocks[0], operands));
      if (condition) condition = made[0];
      const auto next = made.end() - static_cast<std::ptrdiff_t>(call.results);
      for (size_t i = 0; i < states.size(); ++i) states[i] = next[i];
      for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(next[states.size() + i]);
    }
    std::vector<at::Tensor> results;
    for (const auto& state : states) results.push_back(*state);
    for (const auto& each : rows) results.push_back(at::stack(each));
    made_.push_back(std::move(results));
    return {};
  }

  /// Checks the size and type that a foreign operator's result was guessed to have.
  Result<void> assertion(const aten::Call& call) {
    const auto& value = std::get<aten::Value>(call.arguments[0].value);
    const at::Tensor found = *tensor(value);
    RANNC_ASSIGN(const c10::IValue sizes, value_of(call.arguments[1].value));
    const auto type = scalar_type(std::get<ir::DType>(call.arguments[2].value));
    made_.emplace_back();
    if (found.sizes() == at::IntArrayRef(sizes.toIntVector()) && found.scalar_type() == type) return {};
    return error(fmt::format("{} gives sizes [{}] of type {}, not [{}] of {}",
                             lowering_.calls[std::get<aten::Made>(value).call].schema, fmt::join(found.sizes(), ", "),
                             static_cast<int>(found.scalar_type()), fmt::join(sizes.toIntVector(), ", "),
                             static_cast<int>(type)));
  }

  /// Makes a stack of rows that one matrix multiplies contiguous, also in the strides of axes of one element. Else
  /// LibTorch would do so only if a gradient is required: evaluation and recompute would get other bits than the tape.
  static void join_rows(const aten::Call& call, torch::jit::Stack& stack) {
    if (call.schema != "aten::linear" && call.schema != "aten::matmul") return;
    const at::Tensor rows = stack[0].toTensor();
    if (rows.dim() > 2 && stack[1].toTensor().dim() <= 2) stack[0] = rows.contiguous().view(rows.sizes());
  }

  Result<void> make(const aten::Call& call) {
    if (!call.blocks.empty()) return call.schema == aten::kIf ? branch(call) : loop(call);
    if (call.schema == ir::kForeignAssert) return assertion(call);
    const c10::OperatorHandle* handle = handle_of(call.schema);
    RANNC_CHECK(handle != nullptr) << "no operator " << call.schema << " in LibTorch";
    torch::jit::Stack stack;
    const c10::FunctionSchema& schema = handle->schema();
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const aten::Argument* given = argument_for(call, schema, i);
      if (given == nullptr) {
        RANNC_CHECK(schema.arguments()[i].default_value().has_value())
            << call.schema << " lacks " << schema.arguments()[i].name();
        stack.push_back(*schema.arguments()[i].default_value());
        continue;
      }
      RANNC_ASSIGN(c10::IValue value, value_of(given->value));
      const bool tensor = schema.arguments()[i].type()->kind() == c10::TypeKind::TensorType;
      stack.push_back(tensor && value.isNone() ? c10::IValue(at::Tensor()) : std::move(value));
    }
    join_rows(call, stack);
    handle->callBoxed(stack);
    std::vector<at::Tensor> made;
    for (const c10::IValue& value : stack) {
      if (value.isTensorList()) {
        for (const at::Tensor& each : value.toTensorVector()) made.push_back(each);
      } else {
        made.push_back(value.isTensor() ? value.toTensor() : at::Tensor());  // no task reads integers
      }
    }
    made_.push_back(std::move(made));
    return {};
  }

  std::optional<at::Tensor> tensor(const aten::Value& value) const {
    if (const auto* operand = std::get_if<aten::Operand>(&value)) {
      return operand->index < run_.operands.size() ? run_.operands[operand->index] : std::nullopt;
    }
    const auto& made = std::get<aten::Made>(value);
    return made_.at(made.call).at(made.index);
  }

  Result<int64_t> integer(const ir::Dim& dim) const {
    const auto value = dim.evaluate(run_.sizes);
    if (!value) return error("`" + dim.str() + "` has no value here");
    return *value;
  }

  Result<c10::IValue> value_of(const aten::Argument::Kind& kind) const {
    if (auto constant = constant_of(kind)) return *std::move(constant);
    if (const auto* value = std::get_if<aten::Value>(&kind)) {
      const auto found = tensor(*value);
      return found ? c10::IValue(*found) : c10::IValue();
    }
    if (const auto* values = std::get_if<std::vector<aten::Value>>(&kind)) return tensors(*values);
    if (const auto* dims = std::get_if<ir::Shape>(&kind)) {
      c10::List<int64_t> numbers;
      for (const ir::Dim& dim : *dims) {
        RANNC_ASSIGN(const int64_t number, integer(dim));
        numbers.push_back(number);
      }
      return c10::IValue(std::move(numbers));
    }
    if (std::holds_alternative<aten::Device>(kind)) return c10::IValue(run_.device);
    if (std::holds_alternative<aten::Training>(kind)) return c10::IValue(run_.training);
    const auto* scalar = std::get_if<aten::Scalar>(&kind);
    const ir::Dim& size = scalar != nullptr ? std::get<ir::Dim>(scalar->number) : std::get<ir::Dim>(kind);
    RANNC_ASSIGN(const int64_t number, integer(size));
    return c10::IValue(number);
  }

  c10::IValue tensors(const std::vector<aten::Value>& values) const {
    c10::List<at::Tensor> present;
    c10::List<std::optional<at::Tensor>> all;
    for (const aten::Value& value : values) {
      const auto found = tensor(value);
      all.push_back(found);
      if (found) present.push_back(*found);
    }
    if (present.size() == all.size()) return c10::IValue(std::move(present));
    return c10::IValue(std::move(all));
  }

  const aten::Lowering& lowering_;
  const AtenRun& run_;
  std::vector<std::vector<at::Tensor>> made_;  // by call
};

}  // namespace

Result<std::vector<at::Tensor>> run_lowering(const ir::aten::Lowering& lowering, const AtenRun& run) {
  return Runner(lowering, run).results();
}

Result<void> check_call(const ir::aten::Call& call) {
  for (const aten::Block& block : call.blocks) {
    for (const aten::Call& inside : block.lowering().calls) RANNC_TRY(check_call(inside));
  }
  if (!call.blocks.empty()) return {};
  const c10::OperatorHandle* handle = handle_of(call.schema);
  if (handle == nullptr) return error("LibTorch has no operator `" + call.schema + "`");
  const c10::FunctionSchema& schema = handle->schema();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const aten::Argument& given = call.arguments[i];
    const bool there = given.name.empty() ? i < schema.arguments().size() && !schema.arguments()[i].kwarg_only()
                                          : schema.argumentIndexWithName(given.name).has_value();
    if (!there) return error(fmt::format("`{}` has no parameter for argument {} {}", call.schema, i, given.name));
  }
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (argument_for(call, schema, i) == nullptr && !schema.arguments()[i].default_value()) {
      return error(fmt::format("`{}` lacks argument {}", call.schema, schema.arguments()[i].name()));
    }
  }
  return {};
}

}  // namespace rannc::runtime
