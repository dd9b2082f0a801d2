/// Conversion between the bytes of state tensors and of stored values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/constant.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// Returns the current bytes of a stored value; an error if it has none.
using ReadStored = std::function<Result<std::vector<std::byte>>(ValueId)>;
/// Reads the bytes from the graph's data.
ReadStored stored_in(const Graph& graph);

/// The named state of a graph in a training program.
struct FullState {
  /// The state tensors of the graph, in order. Then the parameters and buffers that are in no state tensor, whole and
  /// under their own names, in the order of values. A name that is taken gets a suffix `.1`, `.2` …
  std::vector<StateTensor> tensors;
  std::vector<std::string> own_names;  ///< names of the latter; the exporter may have generated them
  /// Parameters and buffers that state tensors cover only partly. The other elements are not written, and reading does
  /// not change them.
  std::vector<ValueId> partly;
};
FullState full_state(const Graph& graph);

/// Row-major little-endian bytes of a state tensor of a graph that satisfies G20. Fails, naming the tensor, if a stored
/// value has no bytes or a number of bytes that does not match its type.
Result<std::vector<std::byte>> state_bytes(const Graph& graph, const StateTensor& tensor, const ReadStored& read);

/// Options for reading state tensors.
struct TakeState {
  std::string file;       ///< for messages
  bool partial = false;   ///< allows missing and unexpected names, which are errors otherwise
  bool converts = false;  ///< converts floats of another width, which are errors otherwise
};

/// Sources of the elements of stored values.
struct StateMatch {
  struct Source {
    std::string name;  ///< of the tensor
    StatePart part;    ///< its elements are those of `tensor` from `first` on
    StoredTensor tensor;
    int64_t first = 0;
  };
  std::map<ValueId, std::vector<Source>> sources;  ///< per stored value that any tensor contains a part of
  std::vector<std::string> missing, unexpected;    ///< only with `partial`
};

/// Matches the given tensors with the state of a graph. One error lists all faults: missing names, unexpected names,
/// shapes and types. Reads no bytes.
///
/// A tensor is not missing if given tensors contain its parts, such as a tied tensor that a file holds once.
/// `num_batches_tracked` is never unexpected: it is torch's step counter of batch normalization, which nothing reads.
Result<StateMatch> match_state(const Graph& graph, const std::map<std::string, StoredTensor>& given,
                               const TakeState& how);

/// New bytes of a stored value. Elements without a source keep the value from `read`. If a tensor is exactly the value,
/// its data is returned without a copy. Fails, naming both, if two tensors share elements and differ in them.
Result<TensorData> taken_bytes(const Graph& graph, ValueId value, const std::vector<StateMatch::Source>& sources,
                               const ReadStored& read);

}  // namespace rannc::ir
