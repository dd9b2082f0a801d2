/// Weights under the names that PyTorch's `state_dict` has for them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/state/state_bytes.h"
#include "runtime/bundle/safetensors.h"

namespace rannc::runtime {

/// The tensors of a file by name, as `ir::match_state` takes them. Their bytes stay in the file.
std::map<std::string, ir::StoredTensor> tensors_by_name(const SafetensorsFile& file);

/// What was written of a graph's state.
struct StateWritten {
  size_t tensors = 0;
  std::vector<std::string> warnings;  ///< tensors without numbers or of made-up names, values that are named in part
};

/// Writes the full state of a graph (`ir::full_state`) as a .safetensors file that `load_state_dict` takes, one tensor
/// at a time, whole or not at all. An error names the tensor and the file.
Result<StateWritten> write_state_dict(const std::string& path, const ir::Graph& graph, const ir::ReadStored& read);

/// Which names a file may have of those that a model expects; what is in it must fit in either case.
enum class WeightNames : uint8_t {
  kAll,         ///< exactly those
  kThoseGiven,  ///< others stay as they are, and names that the model does not know are left out: `strict=False`
};

/// How the names of a file differed from those expected; both empty unless that was allowed.
struct WeightsLoaded {
  std::vector<std::string> missing, unexpected;
};

/// Compares names, types and shapes of a file with the state of a graph, without reading a tensor.
Result<ir::StateMatch> match_file(const ir::Graph& graph, const std::string& path, WeightNames names);

}  // namespace rannc::runtime
