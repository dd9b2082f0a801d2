#include "runtime/engine/internal/stage_code.h"

#include <fmt/format.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include "ir/gradient/row_gradients.h"
#include "runtime/engine/internal/stage_calls.h"
#include "runtime/engine/internal/torch_draws.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Tensors = std::vector<at::Tensor>;

}  // namespace

Result<void> StageCode::check() const {
  const auto wrong = [&](std::string message) { return error({.file = path_}, std::move(message), "B8"); };
  const auto method = module_.find_method("forward");
  if (!method) return wrong("the program has no function `forward`");
  std::vector<std::string> expected = {"self"};
  for (const Port& port : signature_.inputs) expected.push_back(port.argument);
  for (const Leaf& leaf : signature_.leaves) expected.push_back(leaf.argument);
  for (const Weight& buffer : signature_.buffers) expected.push_back(buffer.argument);
  for (const Weight& constant : signature_.constants) expected.push_back(constant.argument);
  for (const DrawnValue& draw : signature_.draws) expected.push_back(draw.argument);
  for (const std::string& symbol : signature_.symbols) expected.push_back(symbol_variable(symbol));
  if (signature_.asks_training) expected.push_back("training");
  const auto& schema = method->function().getSchema();
  if (schema.arguments().size() != expected.size()) {
    return wrong(fmt::format("the program has {} arguments, but the plan expects {}", schema.arguments().size(),
                             expected.size()));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (schema.arguments()[i].name() == expected[i]) continue;
    return wrong(fmt::format("argument {} of the program is `{}`, but the plan expects `{}`", i,
                             schema.arguments()[i].name(), expected[i]));
  }
  const auto tuple = schema.returns().size() == 1 ? schema.returns()[0].type()->cast<c10::TupleType>() : nullptr;
  const size_t results = signature_.outputs.size() + 2 * signature_.statistics.size();
  if (tuple == nullptr || tuple->elements().size() != results) {
    return wrong(fmt::format("the program does not return the {} values that the plan expects", results));
  }
  return {};
}

Result<std::vector<size_t>> StageCode::prepare() {
  const auto graph = module_.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  std::vector<size_t> tables = use_row_gradients(*graph);
  if (signature_.sums_within_passes()) {
    const Result<void> taken = norms_.take_over(*graph, signature_.synchronised);
    if (!taken.ok()) return error({.file = path_}, taken.diagnostic().message, "B8");
  }
  code_ = torch::jit::Code(graph, "forward");
  return tables;
}

std::vector<size_t> StageCode::use_row_gradients(torch::jit::Graph& graph) const {
  std::vector<size_t> tables;
  const auto look_up = c10::Symbol::fromQualString("aten::embedding");
  const size_t first = 1 + signature_.inputs.size();  // index of the first leaf among the arguments, after `self`
  for (torch::jit::Node* node : graph.nodes()) {
    if (node->kind() != look_up || node->input(0)->node() != graph.param_node()) continue;
    const size_t leaf = node->input(0)->offset() - first;
    if (node->input(0)->offset() < first || leaf >= signature_.leaves.size()) continue;
    const auto bytes = static_cast<int64_t>(to_tensor(tensors_.parameters[signature_.leaves[leaf].parameter]).nbytes());
    if (bytes < ir::kRowGradientTableBytes) continue;
    const torch::jit::WithInsertPoint here(node);
    node->replaceInput(4, graph.insertConstant(true));
    tables.push_back(leaf);
  }
  return tables;
}

Result<torch::jit::Stack> StageCode::arguments(const At& at, const Tensors& inputs, const Tensors& leaves) const {
  RANNC_ASSIGN(const ir::Bindings bound, bindings_of(signature_, at));
  torch::jit::Stack stack = {module_._ivalue()};
  stack.insert(stack.end(), inputs.begin(), inputs.end());
  stack.insert(stack.end(), leaves.begin(), leaves.end());
  for (const Value& buffer : tensors_.buffers) stack.emplace_back(to_tensor(buffer));
  stack.insert(stack.end(), tensors_.constants.begin(), tensors_.constants.end());
  for (const DrawnValue& draw : signature_.draws) {
    RANNC_ASSIGN(at::Tensor numbers, drawn(draw, at, bound, device_));
    stack.emplace_back(std::move(numbers));
  }
  for (const std::string& symbol : signature_.symbols) stack.emplace_back(bound.at(symbol));
  if (signature_.asks_training) stack.emplace_back(at.training);
  return stack;
}

Result<Tensors> StageCode::call(const At& at, const Tensors& inputs, const Tensors& leaves) {
  RANNC_ASSIGN(torch::jit::Stack stack, arguments(at, inputs, leaves));
  try {
    torch::jit::InterpreterState(code_).run(stack);
  } catch (const std::exception&) {
    if (!norms_.failure()) RANNC_TRY(fail_again(at, inputs, leaves));
    throw;
  }
  Tensors outputs;
  for (const c10::IValue& output : stack.back().toTupleRef().elements())
    outputs.push_back(without_buffer(output.toTensor()));
  return outputs;
}

Result<void> StageCode::fail_again(const At& at, const Tensors& inputs, const Tensors& leaves) {
  std::optional<torch::jit::Module> recorded;
  try {
    recorded = torch::jit::load(path_);
  } catch (const std::exception&) {
    return {};  // the bundle was removed in the meantime
  }
  RANNC_ASSIGN(torch::jit::Stack stack, arguments(at, inputs, leaves));
  stack.front() = recorded->_ivalue();
  recorded->get_method("forward").function().run(stack);
  return {};
}

}  // namespace rannc::runtime
