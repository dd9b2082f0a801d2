/// Reads and writes weights under PyTorch's `state_dict` names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/state/state_bytes.h"
#include "runtime/bundle/safetensors.h"

namespace rannc::runtime {

/// Tensors of a file by name, as input to `ir::match_state`. Their bytes stay in the file.
std::map<std::string, ir::StoredTensor> tensors_by_name(const SafetensorsFile& file);

/// Summary of a written state.
struct StateWritten {
  size_t tensors = 0;
  std::vector<std::string> warnings;  ///< tensors without data or with exporter-made names, partly named values
};

/// Writes the full state of a graph (`ir::full_state`) as a .safetensors file for `load_state_dict`. Writes one tensor
/// at a time, and the whole file or nothing. An error names the tensor and the file.
Result<StateWritten> write_state_dict(const std::string& path, const ir::Graph& graph, const ir::ReadStored& read);

/// Names that a file of weights may contain. Types and shapes must match in either case.
enum class WeightNames : uint8_t {
  kAll,         ///< exactly those that the model expects
  kThoseGiven,  ///< missing tensors keep their values, unknown names are skipped: `strict=False`
};

/// Differences between the names of a file and those expected. Both are empty with `WeightNames::kAll`.
struct WeightsLoaded {
  std::vector<std::string> missing, unexpected;
};

/// Compares the names, types and shapes of a file with the state of a graph. Reads no tensor.
Result<ir::StateMatch> match_file(const ir::Graph& graph, const std::string& path, WeightNames names);

}  // namespace rannc::runtime
