// Compiles a function of one statement and interprets it.
#include "codegen/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstring>

#include "codegen/torch_types.h"

namespace rannc::codegen {
namespace {

Result<at::Tensor> to_tensor(const StoredTensor& stored) {
  std::vector<int64_t> sizes;
  if (!stored.type.shape) return error("an operand has no known shape");
  for (const ir::Dim& dim : *stored.type.shape) {
    if (!dim.is_constant()) return error("an operand's shape depends on `" + dim.str() + "`");
    sizes.push_back(dim.constant());
  }
  RANNC_ASSIGN(const std::vector<std::byte> bytes, stored.data.read());
  at::Tensor tensor = at::empty(sizes, scalar_type(stored.type.dtype));
  if (tensor.nbytes() != bytes.size()) {
    return error(fmt::format("an operand has {} bytes; its type asks for {}", bytes.size(), tensor.nbytes()));
  }
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Result<StoredTensor> to_stored(const at::Tensor& tensor, ir::ValueType type) {
  const at::Tensor dense = tensor.contiguous();
  ir::Shape shape;
  for (int64_t extent : dense.sizes()) shape.emplace_back(extent);
  if (dense.scalar_type() != scalar_type(type.dtype)) {
    return error(
        fmt::format("computed {}, but the type rule says {}", at::toString(dense.scalar_type()), ir::str(type.dtype)));
  }
  type.shape = std::move(shape);
  std::vector<std::byte> bytes(dense.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.data_ptr(), bytes.size());
  return StoredTensor{std::move(type), ir::TensorData::in_memory(std::move(bytes))};
}

/// One operator with its operands under names.
class Evaluation {
 public:
  Evaluation(const ir::OpInfo& op, std::span<const StoredTensor* const> operands, const ir::Attributes& attributes)
      : op_(op), operands_(operands), attributes_(attributes) {
    for (size_t i = 0; i < operands.size(); ++i) {
      inputs_.push_back(operands[i] != nullptr ? fmt::format("i{}", i) : "");
      input_types_.push_back(operands[i] != nullptr ? &operands[i]->type : nullptr);
    }
  }

  Result<std::vector<StoredTensor>> run() {
    RANNC_ASSIGN(std::vector<ir::ValueType> types, op_.infer({op_, input_types_, attributes_, {}, op_.outputs}));
    RANNC_ASSIGN(const std::string source, write_source(types));
    torch::jit::Module module("evaluated");
    module.define(source);
    const auto graph = module.get_method("forward").graph()->copy();
    torch::jit::Inline(*graph);
    torch::jit::Stack stack = {module._ivalue()};
    for (const StoredTensor* operand : operands_) {
      if (operand == nullptr) continue;
      RANNC_ASSIGN(at::Tensor tensor, to_tensor(*operand));
      stack.emplace_back(std::move(tensor));
    }
    torch::jit::InterpreterState(torch::jit::Code(graph, "forward")).run(stack);
    const auto& outputs = stack.back().toTupleRef().elements();
    std::vector<StoredTensor> results;
    for (size_t i = 0; i < types.size(); ++i) {
      RANNC_ASSIGN(StoredTensor result, to_stored(outputs[i].toTensor(), std::move(types[i])));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  Result<std::string> write_source(const std::vector<ir::ValueType>& types) const {
    std::vector<std::string> outputs;
    std::vector<const ir::ValueType*> output_types;
    std::string arguments, annotation, returned;
    for (size_t i = 0; i < types.size(); ++i) {
      outputs.push_back(fmt::format("o{}", i));
      output_types.push_back(&types[i]);
      annotation += i == 0 ? "Tensor" : ", Tensor";
      returned += outputs.back() + ", ";
    }
    for (const std::string& input : inputs_) {
      if (!input.empty()) arguments += ", " + input + ": Tensor";
    }
    RANNC_ASSIGN(std::string statements, op_.lower({op_, inputs_, outputs, input_types_, output_types, attributes_}));
    if (!statements.empty() && statements.back() == '\n') statements.pop_back();
    for (size_t at = 0; (at = statements.find('\n', at)) != std::string::npos; at += 5)
      statements.replace(at, 1, "\n    ");
    return fmt::format("def forward(self{}) -> Tuple[{}]:\n    {}\n    return ({})\n", arguments, annotation,
                       statements, returned);
  }

  const ir::OpInfo& op_;
  std::span<const StoredTensor* const> operands_;
  const ir::Attributes& attributes_;
  std::vector<std::string> inputs_;
  std::vector<const ir::ValueType*> input_types_;
};

}  // namespace

Result<std::vector<StoredTensor>> evaluate(const ir::OpInfo& op, std::span<const StoredTensor* const> operands,
                                           const ir::Attributes& attributes) {
  if (op.infer == nullptr || op.lower == nullptr || op.outputs == 0 || op.effect != ir::Effect::kPure) {
    return error("operator `" + op.name + "` cannot be computed ahead of a run");
  }
  try {
    return Evaluation(op, operands, attributes).run();
  } catch (const c10::Error& failure) {
    return error("operator `" + op.name + "`: " + failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return error("operator `" + op.name + "`: " + failure.what());
  }
}

}  // namespace rannc::codegen
