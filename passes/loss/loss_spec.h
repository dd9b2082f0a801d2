/// Specification of the training loss by the user.
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
    kInGraph,           ///< the output is the loss itself
    kSoftCrossEntropy,  ///< softmax cross entropy of logits against probabilities of the same shape
    kBceWithLogits,     ///< cross entropy of sigmoid(logits) against a target from 0 to 1 of the same shape
    kL1,                ///< absolute difference from a target of the same shape
    kHuber,             ///< half the squared difference if its size is below delta, else delta * (size - delta / 2)
    kSmoothL1,          ///< huber / delta; delta is called beta here and may be 0
  };
  enum class Reduction : uint8_t {
    kMean,     ///< over labels that are not ignored, weighted by class; over labels; or over elements
    kSamples,  ///< sum over the mini-batch divided by its number of samples
    kSum,
  };
  Kind kind = Kind::kCrossEntropy;
  std::string output;  ///< name of a model output; empty: the only one
  std::string labels;  ///< the input `labels/<labels>`, or an input with exactly this name; empty: the output's name
  int64_t axis = -1;   ///< axis of the classes; negative: from the end
  int64_t ignore_index = -100;  ///< labels with this value are ignored
  double weight = 1;
  Reduction reduction = Reduction::kMean;
  std::string
      count;  ///< input whose sum of elements is the divisor, for any reduction; looked up like labels; empty: none
  std::vector<double> class_weights;  ///< by class, for the two softmax cross entropies; empty: 1
  double label_smoothing = 0;         ///< for the same: the share of a label that is spread evenly over all classes
  std::vector<double> pos_weight;     ///< of a target's 1 in kBceWithLogits: one, or one per element of the last axis
  double delta = 1;                   ///< of kHuber; beta of kSmoothL1
  bool operator==(const LossSpec&) const = default;
};

/// Returns the names of all kinds, in the order of `LossSpec::Kind`.
std::span<const std::string_view> loss_names();

/// Formats terms, joined by `+`. Each is `cross_entropy`, `soft_cross_entropy`, `bce_with_logits`, `mse`, `l1`,
/// `huber`, `smooth_l1` or `in_graph`, followed by the options that differ from the defaults in parentheses:
/// `cross_entropy(output=logits,axis=1,class_weights=1/0.5/2)`.
std::string str(const std::vector<LossSpec>& terms);
/// Parses that spelling, also with spaces around terms and options. Names cannot contain commas or closing parentheses,
/// nor begin or end with a space. An error names the text that it is about and, of several terms, the term's number.
Result<std::vector<LossSpec>> parse_losses(std::string_view text);

}  // namespace rannc::passes
