#include "runtime/train/export_weights.h"

#include <fmt/format.h>

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

}  // namespace

Result<StateWritten> export_weights(const Bundle& bundle, const std::string& checkpoint, const std::string& path) {
  RANNC_ASSIGN(const auto found, trained(bundle, checkpoint));
  return write_state_dict(path, bundle.plan.graph, [&](ValueId value) {
    const auto entry = found.find(value);
    return entry == found.end() ? bundle.plan.graph.value(value).data.read() : entry->second.read();
  });
}

}  // namespace rannc::runtime
