#include "tests/codegen/fused_case.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "codegen/graph_run.h"
#include "codegen/stored_tensor.h"
#include "codegen/torch_types.h"
#include "ir/constant.h"
#include "ir/op.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/fuse.h"
#include "passes/pipeline.h"

namespace rannc::test {

using codegen::GraphValues;
using ir::Graph;
using ir::ValueKind;

namespace {

// Turns lines in short into lines of text IR.
class Shorthand {
 public:
  explicit Shorthand(std::string_view dtype) : dtype_(dtype) {}

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string first, name;
    if (!(words >> first)) return;
    words >> name;
    if (first == "outputs") return read_outputs(line.substr(line.find(first) + first.size()));
    if (name == "=") return read_task(first, line.substr(line.find('=') + 1));
    std::string type;
    words >> type;
    const bool typed = ir::parse_dtype(type).has_value();
    std::string shape = type;
    if (typed) words >> shape;
    if (!typed) type = dtype_;
    if (first == "constant") return add_constant(name, type, shape, words);
    std::string rest;
    std::getline(words, rest);
    text_ += fmt::format("{} %{}: {}{}{}\n", first, name, type, shape, rest);
    if (first == "input") inputs_ += (inputs_.empty() ? "%" : ", %") + name;
  }

  std::string text() const {
    return fmt::format("rannc.graph 1\nbatch batch\n{}inputs [{}]\noutputs [{}]\n", text_, inputs_, outputs_);
  }

 private:
  void read_outputs(const std::string& names) {
    std::istringstream words(names);
    for (std::string name; words >> name;) outputs_ += (outputs_.empty() ? "%" : ", %") + name;
  }

  // `mul(x, half) {…}`; several results stand before the equals sign, `a,b`.
  void read_task(const std::string& results, const std::string& call) {
    const size_t open = call.find('('), close = call.find(')');
    RANNC_CHECK(open != std::string::npos && close != std::string::npos) << call;
    std::istringstream op(call.substr(0, open));
    std::string operator_name, operands, made, name;
    op >> operator_name;
    for (const char c : call.substr(open + 1, close - open - 1)) {
      const bool begins = operands.empty() || operands.back() == ' ';
      if (begins && c != ' ' && c != '_') operands += '%';
      operands += c;
    }
    std::istringstream names(results);
    while (std::getline(names, name, ',')) made += fmt::format("{}%{}: f32[*]", made.empty() ? "" : ", ", name);
    text_ += fmt::format("#{} {} = core.{}({}){}\n", tasks_++, made, operator_name, operands, call.substr(close + 1));
  }

  void add_constant(const std::string& name, const std::string& type, const std::string& shape,
                    std::istringstream& words) {
    std::vector<double> numbers;
    for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
    const ir::DType dtype = *ir::parse_dtype(type);
    const std::vector<int64_t> integers(numbers.begin(), numbers.end());
    const ir::TensorData data =
        ir::is_float(dtype) ? ir::encode_numbers(dtype, numbers) : ir::encode_integers(dtype, integers);
    const auto bytes = data.read().value();
    std::string digits;
    for (const std::byte byte : bytes) digits += fmt::format("{:02x}", static_cast<int>(byte));
    text_ += fmt::format("constant %{}: {}{} = hex \"{}\"\n", name, type, shape, digits);
  }

  std::string_view dtype_;
  std::string text_, inputs_, outputs_;
  int tasks_ = 0;
};

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
  if (found.data.present()) return codegen::to_tensor({found.type, found.data});
  const at::Tensor tensor = drawn(found.type, found.name, samples).to(codegen::scalar_type(found.type.dtype));
  return is_number ? tensor.set_requires_grad(true) : tensor;
}

std::vector<double> elements(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace

Graph short_graph(const std::string& text, std::string_view dtype) {
  Shorthand shorthand(dtype);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) shorthand.read(line);
  auto graph = ir::parse_graph(shorthand.text(), "short.rir");
  RANNC_CHECK(graph.ok()) << graph.diagnostic().str() << "\n" << shorthand.text();
  for (const TaskId task : graph->tasks()) {
    const auto typed = ir::infer_types(*graph, task);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str() << "\n" << shorthand.text();
  }
  return *std::move(graph);
}

Result<Numbers> numbers_of(const Graph& graph, int64_t samples) {
  GraphValues values(graph.value_count());
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const ValueId value : graph.values()) {
    if (graph.producer(value).valid()) continue;
    RANNC_ASSIGN(at::Tensor tensor, leaf(graph, value, samples));
    values[value.index()] = tensor;
    if (tensor.requires_grad()) leaves.emplace_back(graph.value(value).name, tensor);
  }
  RANNC_TRY(codegen::run_graph(graph, {.sizes = {{"batch", samples}}}, values));
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

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

std::string run_passes(Graph& graph, const std::vector<std::string>& passes) {
  passes::PassContext context;
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
  std::vector<std::string> names = {"cse", "snap-constants"};
  for (const passes::Fusion& fusion : passes::fusions()) names.push_back("fuse-" + std::string(fusion.name));
  names.insert(names.end(), {"cse", "remove-dead"});
  return names;
}

}  // namespace rannc::test
