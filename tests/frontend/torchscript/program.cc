#include "tests/frontend/torchscript/program.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "frontend/torchscript/import.h"
#include "ir/verify.h"
#include "tests/codegen/stored_run.h"

namespace rannc::test {

namespace {

constexpr double kTolerance = 1e-12;

ir::DType dtype_of(const at::Tensor& tensor) { return *ir::dtype_of_torch(static_cast<int>(tensor.scalar_type())); }

ir::StoredTensor stored(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  std::vector<std::byte> bytes(whole.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), whole.const_data_ptr(), bytes.size());
  ir::ValueType type;
  type.dtype = dtype_of(tensor);
  type.shape.emplace(whole.sizes().begin(), whole.sizes().end());
  return {std::move(type), ir::TensorData::in_memory(std::move(bytes))};
}

std::string name_of(size_t input) { return std::string(1, static_cast<char>('x' + input)); }

void flatten(const at::IValue& value, std::vector<at::Tensor>& into) {
  if (value.isTensor()) return into.push_back(value.toTensor());
  if (value.isTuple()) {
    for (const at::IValue& each : value.toTupleRef().elements()) flatten(each, into);
  } else if (value.isList()) {
    for (const at::IValue& each : value.toListRef()) flatten(each, into);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), into);
  }
}

std::string difference(const at::Tensor& expected, const ir::StoredTensor& made) {
  if (made.type.dtype != dtype_of(expected))
    return fmt::format("is {}, expected {}", ir::str(made.type.dtype), ir::str(dtype_of(expected)));
  const ir::Shape shape(expected.sizes().begin(), expected.sizes().end());
  if (made.type.shape != shape) return fmt::format("is {}, expected {}", ir::str(*made.type.shape), ir::str(shape));
  const auto numbers = ir::decode_numbers(made.type, made.data, 1 << 20);
  if (!numbers.ok()) return numbers.diagnostic().str();
  const at::Tensor wide = expected.detach().to(at::kDouble).contiguous();
  for (size_t i = 0; i < numbers->size(); ++i) {
    const double a = (*numbers)[i], b = wide.const_data_ptr<double>()[i];
    const bool near = std::isfinite(b) && std::abs(a - b) <= kTolerance * std::max(1.0, std::abs(b));
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || near;
    if (!same) return fmt::format("element {} is {}, expected {}", i, a, b);
  }
  return {};
}

}  // namespace

SavedModule::SavedModule(const std::string& source, const std::function<void(torch::jit::Module&)>& prepare)
    : module_("program") {
  static std::atomic<int> next = 0;
  if (prepare) prepare(module_);
  module_.define(source);
  path_ = (std::filesystem::temp_directory_path() / fmt::format("rannc-program-{}-{}.pt", getpid(), next++)).string();
  module_.save(path_);
}

SavedModule::~SavedModule() { std::filesystem::remove(path_); }

std::vector<std::string> input_flags(const std::vector<at::Tensor>& inputs, bool samples) {
  std::vector<std::string> flags;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string sizes;
    for (int64_t axis = 0; axis < inputs[i].dim(); ++axis) {
      sizes +=
          (axis > 0 ? "," : "") + (samples && axis == 0 ? std::string("batch") : std::to_string(inputs[i].size(axis)));
    }
    flags.push_back(fmt::format("{}={}[{}]", name_of(i), ir::str(dtype_of(inputs[i])), sizes));
  }
  return flags;
}

namespace {

Result<ir::Graph> imported(const SavedModule& module, const std::vector<std::string>& flags,
                           std::optional<int64_t> max_trips = {}) {
  auto made = frontend::read_torch(module.path(), {.inputs = flags, .max_trips = max_trips});
  if (!made.ok()) return made.diagnostic();
  if (const auto wrong = ir::verify(made->graph); !wrong.empty()) return wrong[0];
  return planned(std::move(made->graph));
}

StoredInputs all_stored(const std::vector<at::Tensor>& inputs) {
  StoredInputs given;
  for (size_t i = 0; i < inputs.size(); ++i) given[name_of(i)] = stored(inputs[i]);
  return given;
}

}  // namespace

std::string difference(SavedModule& module, const std::vector<at::Tensor>& inputs, bool samples,
                       std::optional<int64_t> max_trips) {
  const auto graph = imported(module, input_flags(inputs, samples), max_trips);
  if (!graph.ok()) return graph.diagnostic().str();
  const auto made = run_stored(*graph, all_stored(inputs));
  if (!made.ok()) return made.diagnostic().str();
  std::vector<at::IValue> arguments;
  for (const at::Tensor& input : inputs) arguments.emplace_back(input.clone());
  std::vector<at::Tensor> expected;
  flatten(module.module().forward(arguments), expected);
  if (made->size() != expected.size()) return fmt::format("{} outputs, expected {}", made->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (const std::string apart = difference(expected[i], (*made)[i]); !apart.empty())
      return fmt::format("output {}: {}", i, apart);
  }
  return {};
}

std::string gradient_difference(SavedModule& module, const std::vector<at::Tensor>& inputs) {
  const auto graph = imported(module, input_flags(inputs, false));
  if (!graph.ok()) return graph.diagnostic().str();
  const auto made = gradients_of(*graph, all_stored(inputs));
  if (!made.ok()) return made.diagnostic().str();
  std::vector<at::IValue> arguments;
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(true));
    arguments.emplace_back(leaves.back());
  }
  std::vector<at::Tensor> outputs;
  flatten(module.module().forward(arguments), outputs);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& output : outputs) {
    if (output.is_floating_point()) sum = sum + output.sum();
  }
  sum.backward();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor expected = leaves[i].grad().defined() ? leaves[i].grad() : at::zeros_like(leaves[i]);
    const auto found = made->find(name_of(i));
    const std::string apart =
        difference(expected, found != made->end() ? found->second : stored(at::zeros_like(expected)));
    if (!apart.empty()) return fmt::format("the gradient of {}: {}", name_of(i), apart);
  }
  return {};
}

}  // namespace rannc::test
