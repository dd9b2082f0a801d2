// Writes the weights and the C++ source of a stage.
#include "codegen/stage_writer.h"

#include "codegen/native_source.h"
#include "ir/base/replacement.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {
namespace {

Result<runtime::SafetensorsTensor> weight_to_write(const ir::Graph& graph, const runtime::Weight& weight,
                                                   std::vector<std::byte>& buffer) {
  const ir::TensorData& data = graph.value(weight.value).data;
  if (!data.present())
    return error({.node = weight.name},
                 "has no data: a model without weights can be planned (--emit=plan) but not compiled");
  runtime::SafetensorsTensor tensor{.name = weight.name, .spec = {.dtype = weight.type.dtype}};
  if (!weight.type.shape) return error({.node = weight.name}, "has no known shape");
  for (const ir::Dim& dim : *weight.type.shape) {
    if (!dim.is_constant()) return error({.node = weight.name}, "has a shape that depends on `" + dim.str() + "`");
    tensor.spec.shape.push_back(dim.constant());
  }
  tensor.bytes = [data, &buffer]() -> Result<std::span<const std::byte>> {
    RANNC_ASSIGN(buffer, data.read());
    return std::span<const std::byte>(buffer);
  };
  return tensor;
}

}  // namespace

Result<void> write_weights(const ir::Plan& plan, StageId stage, const std::string& folder) {
  const runtime::Signature signature = runtime::signature(plan, stage);
  std::vector<std::byte> buffer;
  std::vector<runtime::SafetensorsTensor> tensors;
  for (const auto* group : {&signature.parameters, &signature.buffers, &signature.constants}) {
    for (const runtime::Weight& weight : *group) {
      RANNC_ASSIGN(runtime::SafetensorsTensor tensor, weight_to_write(plan.graph, weight, buffer));
      tensors.push_back(std::move(tensor));
    }
  }
  return runtime::write_safetensors(folder + "/" + runtime::weights_file(stage), std::move(tensors));
}

Result<void> write_unread_state(const ir::Plan& plan, const std::string& folder) {
  const std::vector<ValueId> unread = runtime::unread_state(plan);
  if (unread.empty()) return {};
  std::vector<std::byte> buffer;
  std::vector<runtime::SafetensorsTensor> tensors;
  for (const ValueId value : unread) {
    const ir::Graph::Value found = plan.graph.value(value);
    RANNC_ASSIGN(runtime::SafetensorsTensor tensor,
                 weight_to_write(plan.graph, {value, std::string(found.name), found.type}, buffer));
    tensors.push_back(std::move(tensor));
  }
  return runtime::write_safetensors(folder + "/" + runtime::kStateFile, std::move(tensors));
}

Result<void> write_native_source(const ir::Plan& plan, StageId stage, NativeOptions options,
                                 const std::string& folder) {
  RANNC_ASSIGN(const std::string source, native_source(plan, stage, options));
  return write_file(folder + "/" + runtime::source_file(stage), source);
}

}  // namespace rannc::codegen
