#include "runtime/bundle/state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/state/name_source.h"

namespace rannc::runtime {

std::map<std::string, ir::StoredTensor> tensors_by_name(const SafetensorsFile& file) {
  std::map<std::string, ir::StoredTensor> tensors;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    ir::ValueType type;
    type.dtype = entry.spec.dtype;
    type.shape = ir::Shape(entry.spec.shape.begin(), entry.spec.shape.end());
    tensors.emplace(entry.name, ir::StoredTensor{std::move(type), file.data(entry)});
  }
  return tensors;
}

Result<ir::StateMatch> match_file(const ir::Graph& graph, const std::string& path, WeightNames names) {
  RANNC_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  return ir::match_state(graph, tensors_by_name(file), {.file = path, .partial = names == WeightNames::kThoseGiven});
}

namespace {

bool has_bytes(const ir::Graph& graph, const ir::StateTensor& tensor) {
  return std::all_of(tensor.parts.begin(), tensor.parts.end(),
                     [&](const ir::StatePart& part) { return graph.value(part.value).data.present(); });
}

}  // namespace

Result<StateWritten> write_state_dict(const std::string& path, const ir::Graph& graph, const ir::ReadStored& read) {
  const ir::FullState state = ir::full_state(graph);
  std::vector<std::byte> buffer;
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::string> lost;
  for (const ir::StateTensor& tensor : state.tensors) {
    if (!has_bytes(graph, tensor)) {
      lost.push_back(tensor.name);
      continue;
    }
    tensors.push_back({tensor.name,
                       {graph.type(tensor.parts[0].value).dtype, tensor.shape},
                       [&graph, &tensor, &read, &buffer]() -> Result<std::span<const std::byte>> {
                         RANNC_ASSIGN(buffer, ir::state_bytes(graph, tensor, read));
                         return std::span<const std::byte>(buffer);
                       }});
  }
  StateWritten written{tensors.size(), {}};
  // PyTorch's readers require the format's name.
  RANNC_TRY(write_safetensors(path, std::move(tensors), {{"format", "pt"}}));
  if (!lost.empty())
    written.warnings.push_back(
        fmt::format("{} tensors have no stored data and are skipped: {}", lost.size(), fmt::join(lost, ", ")));
  std::vector<std::string> synthetic = state.own_names;
  std::erase_if(synthetic, [](const std::string& name) { return !ir::is_synthetic(name); });
  if (!synthetic.empty()) {
    written.warnings.push_back(
        fmt::format("{} tensors have exporter-made names, because the model file lacks their original names: {}",
                    synthetic.size(), fmt::join(synthetic, ", ")));
  }
  for (const ValueId value : state.partly) {
    written.warnings.push_back(
        fmt::format("only a part of {} belongs to the state; the rest is not written", graph.value(value).name));
  }
  return written;
}

}  // namespace rannc::runtime
