#include "tests/passes/torch/fused_case.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "ir/verify.h"
#include "passes/evaluator.h"
#include "passes/fusions/fuse.h"
#include "passes/pipeline.h"
#include "runtime/aten/evaluate.h"
#include "runtime/aten/graph_run.h"
#include "runtime/aten/stored_tensor.h"
#include "runtime/aten/torch_types.h"

namespace rannc::test {

using ir::Graph;
using ir::ValueKind;
using runtime::GraphValues;

namespace {

at::Tensor drawn(const ir::ValueType& type, std::string_view name, int64_t samples) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) sizes.push_back(*dim.evaluate({{"batch", samples}}));
  uint64_t seed = 7;
  for (const char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  if (ir::is_float(type.dtype)) return at::randn(sizes, generator, at::kDouble) * 0.8;
  return at::randint(0, 2, sizes, generator, at::kLong);
}

Result<at::Tensor> leaf(const Graph& graph, ValueId value, int64_t samples) {
  const Graph::Value& found = graph.value(value);
  const bool is_number = ir::is_float(found.type.dtype);
  if (found.data.present()) return runtime::to_tensor({found.type, found.data});
  const at::Tensor tensor = drawn(found.type, found.name, samples).to(runtime::scalar_type(found.type.dtype));
  return is_number ? tensor.set_requires_grad(true) : tensor;
}

std::vector<double> elements(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace

Result<Numbers> numbers_of(const Graph& graph, int64_t samples) {
  at::set_num_threads(1);  // of so few numbers more cost more
  GraphValues values(graph.value_count());
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid()) continue;
    RANNC_ASSIGN(at::Tensor tensor, leaf(graph, value, samples));
    values[value.index()] = tensor;
    if (tensor.requires_grad()) leaves.emplace_back(graph.value(value).name, tensor);
  }
  RANNC_TRY(runtime::run_graph(graph, {.sizes = {{"batch", samples}}}, values));
  Numbers numbers;
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const ValueId output : graph.outputs()) {
    const at::Tensor& made = *values[output.index()];
    numbers[std::string(graph.value(output).name)] = elements(made);
    if (made.requires_grad()) sum = sum + (made * drawn(graph.type(output), "factors", samples)).sum();
  }
  if (!sum.requires_grad()) return numbers;
  std::vector<at::Tensor> by;
  for (const auto& [name, tensor] : leaves) by.push_back(tensor);
  const auto gradients = torch::autograd::grad({sum}, by, {}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < by.size(); ++i)
    numbers["d " + leaves[i].first] = elements(gradients[i].defined() ? gradients[i] : at::zeros_like(by[i]));
  return numbers;
}

double difference(const Numbers& a, const Numbers& b, std::string_view only) {
  constexpr double kOther = std::numeric_limits<double>::infinity();
  double largest = 0;
  if (a.size() != b.size()) return kOther;
  for (const auto& [name, numbers] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != numbers.size()) return kOther;
    if (!name.starts_with(only)) continue;
    double scale = 1;
    for (const double number : numbers) scale = std::isfinite(number) ? std::max(scale, std::abs(number)) : scale;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double x = numbers[i], y = other->second[i];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!std::isfinite(x) || !std::isfinite(y)) return kOther;
      largest = std::max(largest, std::abs(x - y) / scale);
    }
  }
  return largest;
}

/// Constants by LibTorch's dispatcher.
struct Dispatcher final : passes::Evaluator {
  Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                 std::span<const ir::StoredTensor* const> operands,
                                                 const ir::Attributes& attributes) const override {
    return runtime::evaluate(op, operands, attributes);
  }
};

std::string run_passes(Graph& graph, const std::vector<std::string>& passes) {
  const Dispatcher evaluator;
  passes::PassContext context;
  context.evaluator = &evaluator;
  for (const std::string& name : passes) {
    try {
      const auto done = passes::make_pass(name).value()->run(graph, context);
      if (!done.ok()) return name + ": " + done.diagnostic().str();
    } catch (const InternalError& defect) {
      return name + " crashed: " + defect.what();
    }
    const auto wrong = ir::verify(graph);
    if (!wrong.empty()) return name + " left " + wrong.front().str();
  }
  return "";
}

std::vector<std::string> standard_order() {
  std::vector<std::string> names = {"cse", "hoist-uniform", "join-pieces", "snap-constants"};
  for (const passes::Fusion& fusion : passes::fusions()) names.push_back("fuse-" + std::string(fusion.name));
  names.insert(names.end(), {"cse", "merge-slices", "remove-dead"});
  return names;
}

}  // namespace rannc::test
