#include "tests/frontend/support/onnx_run.h"

#include <algorithm>

#include "ir/verify.h"

namespace rannc::test {

namespace {

constexpr int64_t kMost = 1 << 20;

constexpr int64_t kSequence = 5;

/// The elements as a tensor of a declared type, in which sizes called `seq` are 5 and one other may be a symbol.
Result<ir::StoredTensor> tensor_of(const std::string& name, ir::ValueType type, const std::vector<double>& numbers) {
  int64_t known = 1;
  for (ir::Dim& dim : *type.shape) {
    if (dim.str() == "seq") dim = kSequence;
  }
  for (const ir::Dim& dim : *type.shape) known *= dim.is_constant() ? dim.constant() : 1;
  for (ir::Dim& dim : *type.shape) {
    if (!dim.is_constant()) dim = static_cast<int64_t>(numbers.size()) / std::max<int64_t>(known, 1);
  }
  if (ir::static_count(type) != static_cast<int64_t>(numbers.size())) {
    return error(name + " of " + ir::str(*type.shape) + " got " + std::to_string(numbers.size()) + " numbers");
  }
  type.contents.reset();
  if (ir::is_float(type.dtype)) return ir::StoredTensor{type, ir::encode_numbers(type.dtype, numbers)};
  const std::vector<int64_t> integers(numbers.begin(), numbers.end());
  return ir::StoredTensor{type, ir::encode_integers(type.dtype, integers)};
}

}  // namespace

Result<OnnxRun> run_onnx(std::string_view graph, int opset, const Numbers& inputs) {
  OnnxRun run;
  const std::string text = graph.starts_with("<") ? std::string(graph) : onnx_model(graph, opset);
  RANNC_ASSIGN(ir::Graph imported, import_text(text));
  const auto wrong = ir::verify(imported);
  if (!wrong.empty()) return Diagnostic(wrong[0]);
  RANNC_ASSIGN(run.graph, planned(std::move(imported)));
  for (const auto& [name, numbers] : inputs) {
    const ValueId value = run.graph.find(name);
    if (!value.valid()) return error("no input is called " + name);
    RANNC_ASSIGN(run.inputs[name], tensor_of(name, run.graph.type(value), numbers));
  }
  RANNC_ASSIGN(run.outputs, run_stored(run.graph, run.inputs));
  for (const ir::StoredTensor& output : run.outputs) {
    RANNC_ASSIGN(std::vector<double> numbers, ir::decode_numbers(output.type, output.data, kMost));
    run.numbers.push_back(std::move(numbers));
  }
  return run;
}

}  // namespace rannc::test
