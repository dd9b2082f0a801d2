#include "tests/frontend/support/samples_apart.h"

#include "ir/base/split_mix.h"
#include "tests/frontend/support/compare.h"

namespace rannc::test {

namespace {

std::string with_three(std::string graph) {
  const std::string symbol = "batch";
  for (size_t at = graph.find(symbol); at != std::string::npos; at = graph.find(symbol)) {
    graph.replace(at, symbol.size(), "3");
  }
  return graph;
}

}  // namespace

std::string fault_of_samples(const std::string& graph, int opset, const Numbers& inputs, size_t gradients) {
  const auto sampled = run_onnx(graph, opset, inputs);
  if (!sampled.ok()) return "with samples: " + sampled.diagnostic().str();
  const auto whole = run_onnx(with_three(graph), opset, inputs);
  if (!whole.ok()) return "as a whole: " + whole.diagnostic().str();
  for (size_t i = 0; i < sampled->outputs.size(); ++i) {
    const std::string name(sampled->graph.value(sampled->graph.outputs()[i]).name);
    const ir::BatchLayout& place = sampled->graph.type(sampled->graph.outputs()[i]).batch;
    if (place.axis != 0 || place.outer != ir::Dim(1) || place.inner != ir::Dim(1)) {
      return name + " has its samples on axis " + std::to_string(place.axis);
    }
    const std::string wrong = difference(sampled->outputs[i], whole->outputs[i]);
    if (!wrong.empty()) return name + ": " + wrong;
  }
  const auto check = check_gradients(sampled->graph, sampled->inputs);
  if (!check.ok()) return "differentiated: " + check.diagnostic().str();
  if (!check->fault.empty()) return check->fault;
  if (check->differentiable == gradients) return "";
  return std::to_string(check->differentiable) + " inputs have a gradient";
}

std::vector<double> spread(size_t count, uint64_t seed) {
  std::vector<double> numbers(count);
  uint64_t state = seed << 32;
  for (double& number : numbers) number = static_cast<double>(ir::split_mix(++state) >> 11) * 0x1p-52 - 1;
  return numbers;
}

}  // namespace rannc::test
