/// Finds labels and indices that are out of range, and masks that hide too much, before a step.
#pragma once

#include <optional>
#include <string>

#include "runtime/data/batch.h"

namespace rannc::runtime {

/// An out-of-range label or index, or a mask.
struct IndexFault {
  std::string input;     ///< the graph input that holds it
  std::string message;   ///< `holds 7 in sample 3, but the classes are 0 to 4`
  bool unknown = false;  ///< the input could not be judged
};

/// Returns the first element of the batch that is out of range for a cross entropy or a look-up. Ignored labels and
/// negative indices are valid as the model's tasks define them. Integer tasks between an input and its use are
/// evaluated with the constant-folding rules. Not checked: inputs that are not in the batch, values that depend on
/// floats, and more than a million computed elements. `bindings` binds all symbols, including the batch symbol. `part`:
/// the samples that the batch has, for the numbers in messages; null: all of the mini-batch.
std::optional<IndexFault> find_index_fault(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings,
                                           const NeededSamples* part = nullptr);

/// Returns the first sample of which a mask of attention that is to be checked (`checked` of `core.attention`) hides
/// every place, or a number that is neither 0 nor 1 where only these stand for places. A mask that cannot be computed
/// from the batch, as it has more than a million elements, is a fault. Inputs that are not in the batch are those of
/// other processes. Parameters as above.
std::optional<IndexFault> find_mask_fault(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings,
                                          const NeededSamples* part = nullptr);

/// Returns the smallest number of classes or table rows among the cross entropies and look-ups that read a graph input,
/// possibly after a change of type or shape; nullopt if there are none.
std::optional<int64_t> index_limit(const ir::Graph& graph, ValueId input, const ir::Bindings& bindings);

}  // namespace rannc::runtime
