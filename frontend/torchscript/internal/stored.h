/// Adds tensors stored in a file as constants of the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/aliases.h"

namespace rannc::frontend::torchscript {

/// Role of a stored tensor in the program.
enum class Role : uint8_t {
  kLiteral,    ///< a number in the code, no state
  kConstant,   ///< state that is not trained
  kParameter,  ///< state that is trained
  kUnknown,    ///< not in the archive; determined by its uses, as for ONNX files
};

/// Description of a stored tensor.
struct StoredTensor {
  std::string name;                 ///< as in `state_dict`
  std::vector<std::string> others;  ///< other names of the same whole tensor
  Role role = Role::kLiteral;
};

/// Adds a constant of type `type`, which is that of the file, and records its role in `notes`. One whose value is among
/// `written` is a buffer, whose numbers no import reads, until `constants_again`.
TensorRef add_stored(ir::Graph& graph, ImportNotes& notes, const StoredTensor& stored, ir::ValueType type,
                     ir::TensorData data, const std::set<std::string>& written);

/// Makes the buffers of a graph constants.
void constants_again(ir::Graph& graph);

/// Finds tensors that share part of their memory, such as a buffer that is a view of a parameter. Values of a graph do
/// not share memory, so training would change only one of them.
class SharedMemory {
 public:
  /// Adds a tensor's extent in a storage, in elements. Equal places are one tensor, which must be added once.
  void add(const std::string& storage, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides,
           const std::string& name, bool is_trained);
  /// Returns an error if two tensors overlap and at least one is trained.
  Result<void> check(const std::string& file);

 private:
  struct Extent {
    int64_t first = 0, last = 0;
    std::string name;
    bool is_trained = false;
  };
  std::map<std::string, std::vector<Extent>> extents_;  ///< by storage
};

/// Returns a tensor with real elements: the parts of complex ones are on an additional last axis of extent 2. An error
/// if it is complex and trained, because a file of weights could not contain it.
Result<at::Tensor> real_numbers(const at::Tensor& tensor, const std::string& name, bool is_trained,
                                const Location& where);

/// Returns the type of a tensor, or an error if its element type is unsupported or it is no plain tensor.
Result<ir::ValueType> stored_type(const at::Tensor& tensor, const std::string& name, const Location& where);

}  // namespace rannc::frontend::torchscript
