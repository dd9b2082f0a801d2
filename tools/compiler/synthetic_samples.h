/// Generates synthetic samples of a model that differ from each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ir/graph/graph.h"
#include "runtime/aten/graph_run.h"

namespace rannc::tools {

/// Generates samples by index. Sample n of an input depends only on the input's name and n; that of a random input on
/// its key and n, as in training. Therefore samples 2 to 4 are the same if samples 0 to 7 are generated.
class SyntheticSamples {
 public:
  enum class Kind : uint8_t {
    kVaried,  ///< floats around 0; integers within look-up limits, else 0 or 1, the first of each sample 1
    kPlain,   ///< floats from 0 to 1; booleans, and integers that are not look-up indices, are 1 like a mask
  };
  /// The graph must outlive this object and have a batch symbol. `symbols` has the values of all other symbols.
  SyntheticSamples(const ir::Graph& graph, ir::Bindings symbols, Kind kind);

  /// Returns the values of all symbols for that number of samples.
  ir::Bindings sizes(int64_t samples) const;
  /// Returns inputs and random inputs of samples first … first + count - 1, by value, with floats as doubles. An error
  /// names a value of unknown size.
  Result<runtime::GraphValues> of(int64_t first, int64_t count) const;

 private:
  Result<at::Tensor> tensor(ValueId value, int64_t first, int64_t count) const;

  const ir::Graph& graph_;
  ir::Bindings symbols_;
  Kind kind_;
};

/// Returns the exclusive upper limit of an integer input for which all look-ups with it are in range, or nothing if
/// there are no look-ups. Follows operators that only rearrange elements.
std::optional<int64_t> index_limit(const ir::Graph& graph, ValueId input, const ir::Bindings& sizes);

/// Reshapes a tensor to [before, samples, after]. Shares its memory if strides allow it.
at::Tensor by_sample(const at::Tensor& tensor, const ir::BatchLayout& layout, const ir::Bindings& sizes);

}  // namespace rannc::tools
