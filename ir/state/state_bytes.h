/// Bytes of tensors of state, from those of the stored values that they lie in.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/constant.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// Gives the bytes of a stored value as they are now; an error where it has none.
using ReadStored = std::function<Result<std::vector<std::byte>>(ValueId)>;
/// Reads them where the graph says that they are.
ReadStored stored_in(const Graph& graph);

/// All that a training program keeps of a graph by name.
struct FullState {
  /// Those that the graph names, in its order; then, whole and under their own names, the parameters and buffers of
  /// which no tensor has a part, in the order of values. A name that is taken gets a suffix `.1`, `.2` …
  std::vector<StateTensor> tensors;
  std::vector<std::string> own_names;  ///< names of the latter: the exporter may have made them up
  /// Parameters and buffers elements of which no tensor has. What is not named is not written, and stays on reading.
  std::vector<ValueId> partly;
};
FullState full_state(const Graph& graph);

/// Row-major little-endian bytes of a tensor of state of a graph for which G20 holds. An error names the tensor: a
/// stored value without bytes, or with another number of them than its type has.
Result<std::vector<std::byte>> state_bytes(const Graph& graph, const StateTensor& tensor, const ReadStored& read);

/// What is taken of tensors that are handed in.
struct TakeState {
  std::string file;       ///< for messages
  bool partial = false;   ///< names may be missing or unexpected; without it both are an error
  bool converts = false;  ///< floats of another width are converted; without it they are an error
};

/// Where the elements of stored values come from.
struct StateMatch {
  struct Source {
    std::string name;  ///< of the tensor
    StatePart part;    ///< whose elements are those of `tensor` from `first` on
    StoredTensor tensor;
    int64_t first = 0;
  };
  std::map<ValueId, std::vector<Source>> sources;  ///< per stored value that any tensor is a part of
  std::vector<std::string> missing, unexpected;    ///< of `partial` alone
};

/// Compares the tensors with the state of a graph. One error lists all that is wrong: names that are missing,
/// unexpected names, shapes and types. Not missing is what lies within parts of tensors that are given, as a tied
/// tensor does that a file holds once. Not unexpected is `num_batches_tracked`, an integer that torch counts steps of
/// batch normalization in and nothing reads. No bytes are read.
Result<StateMatch> match_state(const Graph& graph, const std::map<std::string, StoredTensor>& given,
                               const TakeState& how);

/// What a stored value becomes: bytes of its type. Elements that no source has keep what `read` says. Where a tensor is
/// the value as it is, its bytes stay where they are. An error where two tensors share elements and differ in them: it
/// names both.
Result<TensorData> taken_bytes(const Graph& graph, ValueId value, const std::vector<StateMatch::Source>& sources,
                               const ReadStored& read);

}  // namespace rannc::ir
