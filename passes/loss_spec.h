/// What a user asks for as the training loss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"

namespace rannc::passes {

/// One term of the loss; the loss of a mini-batch is the sum of its terms.
struct LossSpec {
  enum class Kind : uint8_t {
    kCrossEntropy,  ///< softmax cross entropy of logits against class numbers
    kMse,           ///< squared difference from a target of the same shape
    kInGraph,       ///< the output is the loss
  };
  enum class Reduction : uint8_t {
    kMean,     ///< over labels that are not ignored, or over elements
    kSamples,  ///< sum over the mini-batch divided by its number of samples
    kSum,
  };
  Kind kind = Kind::kCrossEntropy;
  std::string output;  ///< name of a model's output; empty: its only one
  std::string labels;  ///< the input `labels/<labels>`, or an input of this very name; empty: the output's name
  int64_t axis = -1;   ///< of the classes; negative: from the end
  int64_t ignore_index = -100;  ///< label that counts for nothing
  double weight = 1;
  Reduction reduction = Reduction::kMean;
  bool operator==(const LossSpec&) const = default;
};

/// `cross_entropy`, `mse` or `in_graph`, then options that differ from the defaults in parentheses:
/// `cross_entropy(output=logits,axis=1,weight=0.25)`. Terms are joined by `+`.
std::string str(const std::vector<LossSpec>& terms);
/// Reads that spelling. Names cannot hold commas or closing parentheses.
Result<std::vector<LossSpec>> parse_losses(std::string_view text);

}  // namespace rannc::passes
