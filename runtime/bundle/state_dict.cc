#include "runtime/bundle/state_dict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

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

/// Whether an exporter generated the name: `onnx::MatMul_530`, `/layer/Constant_output_0`, `val_12`, or `slice_1` for
/// the result of an operator on a parameter.
bool is_made_up(std::string_view name) {
  constexpr std::array<std::string_view, 24> kMakers = {
      "val",   "abs",     "add",      "cat",  "div",        "embedding", "exp",       "expand",
      "mul",   "neg",     "permute",  "pow",  "reciprocal", "rsqrt",     "select",    "sigmoid",
      "slice", "softmax", "softplus", "sqrt", "sub",        "tanh",      "transpose", "unsqueeze"};
  if (name.find_first_of(":/") != std::string_view::npos) return true;
  const size_t mark = name.find_last_not_of("0123456789");
  if (mark == std::string_view::npos || mark + 1 == name.size() || name[mark] != '_') return false;
  return std::find(kMakers.begin(), kMakers.end(), name.substr(0, mark)) != kMakers.end();
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
  std::vector<std::string> made_up = state.own_names;
  std::erase_if(made_up, [](const std::string& name) { return !is_made_up(name); });
  if (!made_up.empty()) {
    written.warnings.push_back(
        fmt::format("{} tensors have exporter-made names, because the model file lacks their original names: {}",
                    made_up.size(), fmt::join(made_up, ", ")));
  }
  for (const ValueId value : state.partly) {
    written.warnings.push_back(
        fmt::format("only a part of {} belongs to the state; the rest is not written", graph.value(value).name));
  }
  return written;
}

}  // namespace rannc::runtime
