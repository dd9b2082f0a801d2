/// What a user asks for as the training loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::passes {

/// One term of the loss; the loss of a mini-batch is the sum of its terms.
struct LossSpec {
  enum class Kind : uint8_t {
    kCrossEntropy,      ///< softmax cross entropy of logits against class numbers
    kMse,               ///< squared difference from a target of the same shape
    kInGraph,           ///< the output is the loss
    kSoftCrossEntropy,  ///< softmax cross entropy of logits against probabilities of the same shape
    kBceWithLogits,     ///< cross entropy of sigmoid(logits) against a target from 0 to 1 of the same shape
    kL1,                ///< size of the difference from a target of the same shape
    kHuber,             ///< half its square below delta, else delta * (size - delta / 2)
    kSmoothL1,          ///< huber / delta, which is called beta there and may be 0
  };
  enum class Reduction : uint8_t {
    kMean,     ///< over labels that are not ignored, by their classes' weights; over labels; or over elements
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
  std::string count;  ///< input whose elements' sum divides, whatever the reduction; found as labels are; empty: none
  std::vector<double> class_weights;  ///< by class; of the two softmax cross entropies; empty: 1
  double label_smoothing = 0;         ///< likewise: the share of a label that goes to all classes alike
  std::vector<double> pos_weight;  ///< of a target's 1 in kBceWithLogits: one, or one for each place on the last axis
  double delta = 1;                ///< of kHuber; beta of kSmoothL1
  bool operator==(const LossSpec&) const = default;
};

/// Names of all kinds, in the order of `LossSpec::Kind`.
std::span<const std::string_view> loss_names();

/// `cross_entropy`, `soft_cross_entropy`, `bce_with_logits`, `mse`, `l1`, `huber`, `smooth_l1` or `in_graph`, then
/// options that differ from the defaults in parentheses: `cross_entropy(output=logits,axis=1,class_weights=1/0.5/2)`.
/// Terms are joined by `+`.
std::string str(const std::vector<LossSpec>& terms);
/// Reads that spelling. Names cannot hold commas or closing parentheses.
Result<std::vector<LossSpec>> parse_losses(std::string_view text);

}  // namespace rannc::passes
