#include "frontend/torchscript/internal/foreign/foreign_run.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "frontend/torchscript/internal/foreign/symbolic_size.h"

namespace rannc::frontend::torchscript {

namespace {

Result<int64_t> number(const ir::Dim& dim, const ir::Bindings& sizes) {
  if (const auto value = dim.evaluate(sizes)) return *value;
  return error("size `" + dim.str() + "` has no value");
}

Result<std::vector<int64_t>> numbers_of(const ir::Shape& shape, const ir::Bindings& sizes) {
  std::vector<int64_t> found;
  for (const ir::Dim& dim : shape) {
    RANNC_ASSIGN(const int64_t each, number(dim, sizes));
    found.push_back(each);
  }
  return found;
}

at::Tensor floats(const std::vector<int64_t>& extents, Numbers numbers, at::Generator& generator) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  if (numbers == Numbers::kOnes) return at::ones(extents, options);
  if (numbers == Numbers::kUniform) return at::rand(extents, generator, options) * 0.8 + 0.1;
  const at::Tensor normal = at::randn(extents, generator, options);
  const bool square = extents.size() > 1 && extents.back() == extents[extents.size() - 2];
  if (numbers == Numbers::kNormal || !square) return normal;
  return normal.matmul(normal.transpose(-1, -2)) + at::eye(extents.back(), options);
}

/// Symbolic if there are no sizes.
Result<c10::SymInt> size_of(const ir::Dim& dim, const ir::Bindings* sizes) {
  if (sizes == nullptr) return symbolic_size(dim);
  RANNC_ASSIGN(const int64_t size, number(dim, *sizes));
  return c10::SymInt(size);
}

Result<c10::IValue> list_of(const ir::Shape& shape, const ir::Bindings* sizes) {
  std::vector<int64_t> numbers;
  c10::impl::GenericList expressions(c10::SymIntType::get());
  for (const ir::Dim& dim : shape) {
    RANNC_ASSIGN(const c10::SymInt size, size_of(dim, sizes));
    if (const auto plain = size.maybe_as_int()) numbers.push_back(*plain);
    expressions.push_back(size);
  }
  if (numbers.size() == shape.size()) return c10::IValue(numbers);
  return c10::IValue(std::move(expressions));
}

Result<c10::IValue> value_of(const ir::Attribute& attribute, const ir::Bindings* sizes) {
  if (const auto* flag = std::get_if<bool>(&attribute)) return c10::IValue(*flag);
  if (const auto* real = std::get_if<double>(&attribute)) return c10::IValue(*real);
  if (const auto* numbers = std::get_if<std::vector<double>>(&attribute)) return c10::IValue(*numbers);
  if (const auto* text = std::get_if<std::string>(&attribute)) return c10::IValue(*text);
  if (const auto* dtype = std::get_if<ir::DType>(&attribute))
    return c10::IValue(static_cast<int64_t>(ir::torch_number(*dtype)));
  if (const auto* list = std::get_if<ir::Shape>(&attribute)) return list_of(*list, sizes);
  RANNC_ASSIGN(const c10::SymInt size, size_of(std::get<ir::Dim>(attribute), sizes));
  return c10::IValue(size);
}

}  // namespace

Result<Operands> ForeignRun::operands(const ir::Bindings& sizes, at::Device device, Numbers numbers,
                                      uint64_t seed) const {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Operands found;
  for (const auto& type : call_.types.operands) {
    found.emplace_back();
    if (!type) continue;
    RANNC_ASSIGN(const std::vector<int64_t> extents, numbers_of(*type->shape, sizes));
    const auto dtype = static_cast<c10::ScalarType>(ir::torch_number(type->dtype));
    if (device.is_meta()) {
      found.back() = at::empty(extents, at::TensorOptions().dtype(dtype).device(device));
    } else if (type->contents) {
      RANNC_ASSIGN(const std::vector<int64_t> contents, numbers_of(*type->contents, sizes));
      found.back() = at::tensor(contents, at::kLong).reshape(extents).to(dtype);
    } else if (ir::is_float(type->dtype)) {
      found.back() = floats(extents, numbers, generator).to(dtype);
    } else {
      found.back() = at::randint(0, 2, extents, generator, at::TensorOptions().dtype(at::kLong)).to(dtype);
    }
  }
  return found;
}

Result<c10::IValue> ForeignRun::argument(const c10::Argument& parameter, const Operands& operands,
                                         const ir::Bindings* sizes, at::Device device) const {
  size_t first = 0;
  for (const ir::ForeignOperand& each : call_.operands) {
    if (each.parameter != parameter.name()) {
      first += each.count.value_or(1);
      continue;
    }
    if (!each.count) return operands[first] ? c10::IValue(*operands[first]) : c10::IValue();
    c10::List<at::Tensor> all;
    c10::List<std::optional<at::Tensor>> some;
    for (size_t i = first; i < first + *each.count; ++i) {
      some.push_back(operands[i]);
      if (operands[i]) all.push_back(*operands[i]);
    }
    return all.size() == some.size() ? c10::IValue(all) : c10::IValue(some);
  }
  if (parameter.name() == call_.device) return c10::IValue(device);
  if (std::find(call_.none.begin(), call_.none.end(), parameter.name()) != call_.none.end()) return c10::IValue();
  if (const ir::Attribute* given = call_.arguments.find(parameter.name())) return value_of(*given, sizes);
  RANNC_CHECK(parameter.default_value().has_value()) << call_.schema << " lacks " << parameter.name();
  return *parameter.default_value();
}

Result<std::vector<at::Tensor>> ForeignRun::operator()(const Operands& operands, const ir::Bindings& sizes,
                                                       at::Device device) const {
  return run(operands, &sizes, device);
}

Result<std::vector<at::Tensor>> ForeignRun::symbolic() const {
  Operands operands;
  for (const auto& type : call_.types.operands) {
    operands.emplace_back();
    if (!type) continue;
    std::vector<c10::SymInt> extents;
    for (const ir::Dim& dim : *type->shape) extents.push_back(symbolic_size(dim));
    const auto dtype = static_cast<c10::ScalarType>(ir::torch_number(type->dtype));
    operands.back() = at::empty_symint(extents, at::TensorOptions().dtype(dtype).device(at::kMeta));
  }
  return run(operands, nullptr, at::kMeta);
}

Result<std::vector<at::Tensor>> ForeignRun::run(const Operands& operands, const ir::Bindings* sizes,
                                                at::Device device) const {
  torch::jit::Stack stack;
  for (const c10::Argument& parameter : handle_.schema().arguments()) {
    RANNC_ASSIGN(c10::IValue value, argument(parameter, operands, sizes, device));
    stack.push_back(std::move(value));
  }
  handle_.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) {
    if (value.isTensorList()) {
      for (const at::Tensor& each : value.toTensorVector()) results.push_back(each);
    } else if (value.isTensor() && value.toTensor().defined()) {
      results.push_back(value.toTensor());
    } else {
      return error("one of its results is no tensor for these arguments");
    }
  }
  return results;
}

std::string first_line(const std::exception& failure) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&failure);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : failure.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace rannc::frontend::torchscript
