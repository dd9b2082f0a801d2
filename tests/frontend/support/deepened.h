/// Real exports made as deep as a test wants them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "ir/base/diagnostic.h"

namespace rannc::test {

/// What the repetitions of a layer are trained with.
enum class LayerWeights {
  kOwn,
  kShared,  ///< one set for all of them
};

/// Writes the export `from` as `to`, the last of its repeated layers repeated until the model has at least `nodes`
/// nodes. A layer is a run of nodes whose operators come again and again; each repetition reads what the one before it
/// made where its original does, has weights and names of its own, and shares what its original shares: masks, sizes,
/// tables, tied weights. Weights of more than 256 bytes lie in `<to>.weights`, which overlaps itself, so that a deep
/// model takes little space while no two weights are equal. A diagnostic where no layer comes twice.
Result<void> write_deepened(const std::filesystem::path& from, uint64_t nodes, const std::filesystem::path& to,
                            LayerWeights weights = LayerWeights::kOwn);

}  // namespace rannc::test
