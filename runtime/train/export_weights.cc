#include "runtime/train/export_weights.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"

namespace rannc::runtime {

namespace {

/// Returns the checkpoint data of all parameters and buffers of stages; empty without a checkpoint.
Result<std::map<ValueId, CheckpointEntry>> trained(const Bundle& bundle, const std::string& checkpoint) {
  std::map<ValueId, CheckpointEntry> found;
  if (checkpoint.empty()) return found;
  RANNC_ASSIGN(const CheckpointState state, read_checkpoint_state(checkpoint));
  RANNC_TRY(check_model(state, checkpoint, bundle.plan));
  RANNC_ASSIGN(const auto tensors, checkpoint_tensors(checkpoint));
  const auto take = [&](const std::vector<Weight>& weights, const std::string& kind) -> Result<void> {
    for (const Weight& weight : weights) {
      const auto entry = tensors.find(kind + weight.name);
      if (entry == tensors.end())
        return error({checkpoint, 0, 0, {}}, fmt::format("checkpoint has no tensor '{}{}'", kind, weight.name));
      const ir::ValueType& type = entry->second.type;
      if (type.dtype != weight.type.dtype || type.shape != weight.type.shape) {
        return error({checkpoint, 0, 0, {}},
                     fmt::format("checkpoint's tensor '{}{}' is {}{}, the bundle's {}{}", kind, weight.name,
                                 ir::str(type.dtype), ir::str(*type.shape), ir::str(weight.type.dtype),
                                 weight.type.shape ? ir::str(*weight.type.shape) : "[?]"));
      }
      found.emplace(weight.value, entry->second);
    }
    return {};
  };
  for (const Signature& signature : bundle.signatures) {
    RANNC_TRY(take(signature.parameters, "parameter/"));
    RANNC_TRY(take(signature.buffers, "buffer/"));
  }
  return found;
}

/// Reads the averages of all parameters, which may be stored in slices.
Result<std::map<ValueId, Value>> averages(const Bundle& bundle, const std::string& checkpoint) {
  std::map<ValueId, Value> found;
  if (checkpoint.empty()) return error({bundle.path, 0, 0, {}}, "an untrained model has no averages of its parameters");
  RANNC_ASSIGN(const CheckpointState state, read_checkpoint_state(checkpoint));
  if (state.settings.optimizer.grouping.average == 0)
    return error({checkpoint, 0, 0, {}}, "the run keeps no averages of its parameters: it has no --ema");
  CheckpointTensors tensors;
  for (const Signature& signature : bundle.signatures) {
    for (const Weight& weight : signature.parameters) {
      const at::ScalarType dtype = scalar_type(weight.type.dtype);
      if (!at::isFloatingType(dtype)) continue;
      std::vector<int64_t> sizes;
      for (const ir::Dim& dim : *weight.type.shape) sizes.push_back(dim.constant());
      const Value average = to_value(at::empty(sizes, dtype));
      tensors["optimizer/average/" + weight.name] = average;
      found[weight.value] = average;
    }
  }
  RANNC_TRY(read_checkpoint(checkpoint, tensors));
  return found;
}

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const auto* const first = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {first, first + tensor.nbytes()};
}

}  // namespace

Result<StateWritten> export_weights(const Bundle& bundle, const std::string& checkpoint, const std::string& path,
                                    ExportedWeights which) {
  RANNC_ASSIGN(const auto found, trained(bundle, checkpoint));
  std::map<ValueId, Value> averaged;
  if (which == ExportedWeights::kAverages) {
    RANNC_ASSIGN(averaged, averages(bundle, checkpoint));
  }
  return write_state_dict(path, bundle.plan.graph, [&](ValueId value) -> Result<std::vector<std::byte>> {
    if (const auto average = averaged.find(value); average != averaged.end())
      return bytes_of(to_tensor(average->second));
    const auto entry = found.find(value);
    return entry == found.end() ? bundle.plan.graph.value(value).data.read() : entry->second.read();
  });
}

}  // namespace rannc::runtime
