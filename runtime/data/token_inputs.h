/// Inputs of models that predict the next token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "runtime/data/batch.h"

namespace rannc::runtime {

/// The two inputs of such a model.
struct TokenInputs {
  std::string input = "tokens";           ///< i64[samples, length]
  std::string labels = "labels/targets";  ///< the same, shifted by one token
  uint64_t length = 1;                    ///< tokens per sample
  bool input_by_place = false;            ///< the input is [length, samples]
  bool labels_by_place = false;           ///< the labels are [length, samples]
  int64_t vocabulary = 0;                 ///< tokens are below it; 0: unknown
};

/// Returns the axis that counts the tokens of a sample, if the value is a list of tokens per sample.
std::optional<size_t> token_axis(const ir::ValueType& type);

/// Number of tokens per sample of the plan's first token input, as planned; 0 if it has none.
uint64_t planned_length(const ir::Plan& plan);

/// Finds the inputs of the plan's model. `length` selects the number of tokens per sample where the model leaves it
/// open; by default it is the planned one. Errors name the input: the model has other inputs, or the length differs
/// from the model's.
Result<TokenInputs> find_token_inputs(const ir::Plan& plan, std::optional<uint64_t> length = std::nullopt);

/// Writes the `length` + 1 consecutive tokens of a sample.
using ReadTokens = std::function<Result<void>(uint64_t sample, std::span<int64_t> tokens)>;
/// Returns a batch in which each token's label is the next token.
Result<Batch> next_token_batch(const TokenInputs& inputs, uint64_t samples, const ReadTokens& read);

}  // namespace rannc::runtime
