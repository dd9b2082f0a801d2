/// Tensors that a file stores, as constants of the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/aliases.h"

namespace rannc::frontend::torchscript {

/// What a stored tensor is to the program.
enum class Role : uint8_t {
  kLiteral,    ///< a number of its code: no state
  kConstant,   ///< state that is not trained
  kParameter,  ///< state that is trained
  kUnknown,    ///< the archive does not say: where it is used tells, as in a file of ONNX
};

/// What the program says of a stored tensor.
struct StoredTensor {
  std::string name;                 ///< as `state_dict` has it
  std::vector<std::string> others;  ///< further names of the same tensor, all of it
  Role role = Role::kLiteral;
};

/// Adds a constant of that type, and says in `notes` what is known of it. `type` is that of the file.
TensorRef add_stored(ir::Graph& graph, ImportNotes& notes, const StoredTensor& stored, ir::ValueType type,
                     ir::TensorData data);

/// Finds tensors that share a part of their memory, as a buffer does that is a view of a parameter: values of a graph
/// do not, so that training would change the one and not the other.
class SharedMemory {
 public:
  /// A tensor's place in a storage, in elements; equal places are one tensor, which is added once.
  void add(const std::string& storage, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides,
           const std::string& name, bool is_trained);
  /// An error where two of them overlap, of which one is trained.
  Result<void> check(const std::string& file);

 private:
  struct Extent {
    int64_t first = 0, last = 0;
    std::string name;
    bool is_trained = false;
  };
  std::map<std::string, std::vector<Extent>> extents_;  ///< by storage
};

/// The type of a tensor, or an error where the graph has no such elements, or it is no plain one.
Result<ir::ValueType> stored_type(const at::Tensor& tensor, const std::string& name, const Location& where);

}  // namespace rannc::frontend::torchscript
