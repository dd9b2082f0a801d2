/// Loss and accuracy of a model in training on samples that it is not trained on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/samples.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// An output whose largest element along an axis is the predicted class, with its labels.
struct Classification {
  std::string output, labels;
  int64_t axis = 0;
  int64_t ignore_index = -100;
  SampleAxis label_axis;  ///< not present if the batch size is static
};

/// Returns the classification of a graph whose loss has exactly one cross entropy, between an output and an input of
/// the graph, possibly after a change of type; nullopt for other graphs.
std::optional<Classification> find_classification(const ir::Graph& graph);

struct ValidationResult {
  double loss = 0;
  /// Correct predictions among the labels that are not ignored. Only in the process of device 0, for models with a
  /// classification.
  std::optional<double> accuracy;
  /// Mean of each metric over all elements of all samples, only in the process of device 0; and the numbers that the
  /// model computes of sums over samples.
  std::map<std::string, double> metrics;
  uint64_t samples = 0;
};

/// Errors: a name is no output of the plan's graph, or the output has no samples that can be averaged, or is the one
/// whose classes are predicted.
Result<void> check_metrics(const ir::Plan& plan, const std::vector<std::string>& metrics);

/// Evaluates the samples in order, one mini-batch at a time. The last one may be smaller; if the model has a static
/// batch size, samples that fill no mini-batch are skipped. Changes nothing: later steps have the same bits as without
/// the call. Only the predicted classes of outputs are kept. Collective: all processes of the run must call it with the
/// same samples. `metrics`: names of outputs that the model computes to be averaged, such as an error per sample.
/// Errors: no labels that count; those of `check_metrics` and of `Trainer::evaluate`.
Result<ValidationResult> validate(Trainer& trainer, const Samples& samples,
                                  const std::vector<std::string>& metrics = {});

}  // namespace rannc::runtime
