/// Flags that select the data set of a run, and its opening.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/samples.h"

namespace rannc::tools {

struct DataFlags {
  std::string data;
  std::vector<std::string> text;
  std::string tokenizer;  ///< of `text`; empty: its bytes
  std::string tokens;
  std::string token_type;            ///< empty: the narrowest for the model's vocabulary
  std::optional<uint64_t> sequence;  ///< tokens per sample; not present: the planned number
  bool shuffle = false;              ///< of `data`; tokens are always shuffled
  bool by_length = false;            ///< files of `data` have sizes of their own
  uint64_t pad_multiple = 1;         ///< of these sizes
  std::vector<std::string> pads;     ///< `INPUT=NUMBER`
  Result<runtime::SampleSizes> sizes() const;
  std::string validate;              ///< samples in the form of the source
  uint64_t validate_every = 0;       ///< steps; 0: only after the last
  std::vector<std::string> metrics;  ///< outputs whose means validations report

  /// Number of flags that name a source of samples.
  int sources() const { return !data.empty() + !text.empty() + !tokens.empty(); }
};

/// Opens the `needed` part of the samples that the flags name, which is read ahead. Text and tokens require a model
/// with one token input and one label input. `MemoryGauge` does not count the memory of the samples. `prepare`: as of
/// `prefetched`.
Result<std::unique_ptr<runtime::Dataset>> open_data(const DataFlags& flags, const ir::Plan& plan, uint64_t seed,
                                                    const runtime::NeededSamples& needed,
                                                    runtime::PrepareValue prepare);

/// Opens the samples of `validate`.
Result<std::unique_ptr<runtime::Samples>> open_validation(const DataFlags& flags, const ir::Plan& plan);

/// Number of tokens in a mini-batch of such samples; 0 if the model reads none.
uint64_t tokens_per_step(const DataFlags& flags, const ir::Plan& plan);

}  // namespace rannc::tools
