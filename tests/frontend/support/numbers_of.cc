#include "tests/frontend/support/evaluate_graph.h"

#include <gtest/gtest.h>

#include "codegen/evaluate.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::test {

Result<Values> evaluate(const ir::Graph& graph, const std::vector<NamedTensor>& inputs) {
  Values values;
  for (const NamedTensor& input : inputs) {
    const ValueId value = graph.find(input.name);
    if (value.valid()) values[value.index()] = {input.type, input.data};
  }
  for (const ValueId value : graph.values()) {
    if (graph.value(value).data.present()) values[value.index()] = {graph.type(value), graph.value(value).data};
  }
  for (const TaskId task : graph.tasks()) {
    std::vector<const ir::StoredTensor*> operands;
    for (const ValueId operand : graph.inputs(task)) {
      if (operand.valid() && !values.contains(operand.index())) return error("an operand has no value");
      operands.push_back(operand.valid() ? &values.at(operand.index()) : nullptr);
    }
    auto made = codegen::evaluate(graph.op(task), operands, graph.attributes(task));
    if (!made.ok()) return error(graph.op(task).name + ": " + made.diagnostic().message);
    for (size_t i = 0; i < made->size(); ++i) values[graph.outputs(task)[i].index()] = std::move((*made)[i]);
  }
  return values;
}

std::vector<double> numbers_of(std::string_view graph, int opset, size_t output) {
  const auto imported = import_graph(graph, opset);
  EXPECT_TRUE(imported.ok()) << imported.diagnostic().str();
  if (!imported.ok()) return {};
  const auto values = evaluate(*imported, {});
  EXPECT_TRUE(values.ok()) << values.diagnostic().str();
  if (!values.ok()) return {};
  const ir::StoredTensor& found = values->at(imported->outputs()[output].index());
  return ir::decode_numbers(found.type, found.data, 1000).value();
}

}  // namespace rannc::test
