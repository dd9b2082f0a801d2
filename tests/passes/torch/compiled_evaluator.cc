#include "tests/passes/torch/compiled_evaluator.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/jit.h>

#include "codegen/aten_source.h"
#include "ir/op/op.h"
#include "runtime/aten/stored_tensor.h"

namespace rannc::test {

Result<std::vector<ir::StoredTensor>> CompiledEvaluator::evaluate(const ir::OpInfo& op,
                                                                  std::span<const ir::StoredTensor* const> operands,
                                                                  const ir::Attributes& attributes) const {
  if (!op.known() || !op.can_be_lowered()) return error("cannot be computed");
  const c10::NoGradGuard no_grad;
  std::vector<const ir::ValueType*> inputs, outputs;
  std::vector<std::string> names, results;
  std::string arguments;
  torch::jit::Stack stack;
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(operands[i] ? &operands[i]->type : nullptr);
    names.push_back(operands[i] ? fmt::format("i{}", i) : "");
    if (!operands[i]) continue;
    arguments += ", " + names.back() + ": Tensor";
    RANNC_ASSIGN(at::Tensor tensor, runtime::to_tensor(*operands[i]));
    stack.emplace_back(std::move(tensor));
  }
  RANNC_ASSIGN(std::vector<ir::ValueType> types, ir::types_of({op, inputs, attributes, {}}));
  std::string returned, annotation;
  for (const ir::ValueType& type : types) {
    outputs.push_back(&type);
    results.push_back(fmt::format("o{}", results.size()));
    returned += results.back() + ", ";
    annotation += annotation.empty() ? "Tensor" : ", Tensor";
  }
  RANNC_ASSIGN(const ir::aten::Lowering lowering, ir::lowering({op, inputs, outputs, attributes}));
  std::string lines = codegen::torchscript_statements(lowering, {names, results, "torch.device(\"cpu\")", "True"});
  if (!lines.empty() && lines.back() == '\n') lines.pop_back();
  for (size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 5) lines.replace(at, 1, "\n    ");
  torch::jit::Module module("evaluated");
  module.define(fmt::format("def forward(self{}) -> Tuple[{}]:\n    {}\n    return ({})\n", arguments, annotation,
                            lines, returned));
  const auto made = module.get_method("forward")(std::move(stack)).toTupleRef().elements();
  std::vector<ir::StoredTensor> stored;
  for (size_t i = 0; i < types.size(); ++i) {
    RANNC_ASSIGN(ir::StoredTensor each, runtime::to_stored(made[i].toTensor(), std::move(types[i])));
    stored.push_back(std::move(each));
  }
  return stored;
}

}  // namespace rannc::test
