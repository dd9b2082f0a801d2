/// Makes up samples of a model, each other than the last.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ir/graph/graph.h"
#include "runtime/aten/graph_run.h"

namespace rannc::tools {

/// Numbers of sample n of an input depend on the input's name and on n alone, those of a draw on its key and n, as in
/// training: whoever makes up samples 2 to 4 gets those that lie in samples 0 to 7 too.
class SyntheticSamples {
 public:
  enum class Kind : uint8_t {
    kVaried,  ///< floats about 0; integers below what look-ups allow, else 0 and 1, the first of each sample 1
    kPlain,   ///< floats from 0 to 1; integers that look up nothing, and booleans, are 1 throughout, as a mask's
  };
  /// The graph must outlive it; a symbol counts its samples. `symbols`: values of all others.
  SyntheticSamples(const ir::Graph& graph, ir::Bindings symbols, Kind kind);

  /// All symbols, of so many samples.
  ir::Bindings sizes(int64_t samples) const;
  /// Inputs and draws of samples first … first + count - 1, by value; floats as doubles. An error names a value whose
  /// sizes are not known.
  Result<runtime::GraphValues> of(int64_t first, int64_t count) const;

 private:
  Result<at::Tensor> tensor(ValueId value, int64_t first, int64_t count) const;

  const ir::Graph& graph_;
  ir::Bindings symbols_;
  Kind kind_;
};

/// What each integer of an input must stay below, for all look-ups by it to find something; nothing where none is seen.
/// Follows what only rearranges.
std::optional<int64_t> index_limit(const ir::Graph& graph, ValueId input, const ir::Bindings& sizes);

/// The tensor as [before, samples, after]; shares its memory where strides allow it.
at::Tensor by_sample(const at::Tensor& tensor, const ir::BatchLayout& layout, const ir::Bindings& sizes);

}  // namespace rannc::tools
