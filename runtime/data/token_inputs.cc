#include "runtime/data/token_inputs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/data/index_ranges.h"
#include "runtime/engine/tensor.h"

namespace rannc::runtime {

namespace {

/// The number of tokens per sample in one input.
Result<uint64_t> length_in(const ir::Plan& plan, ValueId input, size_t axis, std::optional<uint64_t> requested) {
  const ir::Dim& dim = (*plan.graph.type(input).shape)[axis];
  const auto planned = dim.evaluate(ir::bindings_of(plan, plan.mini_batch));
  if (!requested) return static_cast<uint64_t>(planned.value_or(0));
  if (dim.is_constant() && dim != ir::Dim(static_cast<int64_t>(*requested))) {
    return error(fmt::format("input '{}' has {} tokens per sample, not {}", plan.graph.value(input).name,
                             dim.constant(), *requested));
  }
  return *requested;
}

void copy_shifted(std::span<const int64_t> sample, int64_t* tokens, int64_t* targets) {
  std::copy(sample.begin(), sample.end() - 1, tokens);
  std::copy(sample.begin() + 1, sample.end(), targets);
}

}  // namespace

std::optional<size_t> token_axis(const ir::ValueType& type) {
  if (type.dtype != ir::DType::kI64 || !type.shape || type.shape->size() != 2) return std::nullopt;
  return type.batch.axis == 1 ? 0 : 1;
}

uint64_t planned_length(const ir::Plan& plan) {
  for (const ValueId id : plan.graph.inputs()) {
    const auto axis = token_axis(plan.graph.type(id));
    if (!axis) continue;
    const auto length = (*plan.graph.type(id).shape)[*axis].evaluate(ir::bindings_of(plan, plan.mini_batch));
    return static_cast<uint64_t>(length.value_or(0));
  }
  return 0;
}

Result<TokenInputs> find_token_inputs(const ir::Plan& plan, std::optional<uint64_t> length) {
  TokenInputs found;
  found.input.clear();
  found.length = 0;
  const std::string requirement = "next-token prediction requires a model with one token input and one label input";
  for (const ValueId id : plan.graph.inputs()) {
    const std::string name(plan.graph.value(id).name);
    const auto axis = token_axis(plan.graph.type(id));
    if (!axis) return error(fmt::format("input '{}' is not a list of tokens per sample", name));
    RANNC_ASSIGN(const uint64_t own, length_in(plan, id, *axis, length));
    if (own == 0) return error(fmt::format("the number of tokens per sample of input '{}' is not known", name));
    if (found.length != 0 && own != found.length) {
      return error(fmt::format("input '{}' has {} tokens per sample, another one {}", name, own, found.length));
    }
    found.length = own;
    const bool labels = name.starts_with("labels/");
    (labels ? found.labels : found.input) = name;
    (labels ? found.labels_by_place : found.input_by_place) = *axis == 0;
    const auto limit = index_limit(plan.graph, id, ir::bindings_of(plan, plan.mini_batch));
    if (limit) found.vocabulary = found.vocabulary == 0 ? *limit : std::min(found.vocabulary, *limit);
  }
  if (found.input.empty() || plan.graph.inputs().size() != 2) return error(requirement);
  return found;
}

Result<Batch> next_token_batch(const TokenInputs& inputs, uint64_t samples, const ReadTokens& read) {
  const auto count = static_cast<int64_t>(samples), length = static_cast<int64_t>(inputs.length);
  at::Tensor tokens = at::empty({count, length}, at::kLong), targets = at::empty({count, length}, at::kLong);
  std::vector<int64_t> sample(inputs.length + 1);
  for (int64_t i = 0; i < count; ++i) {
    RANNC_TRY(read(static_cast<uint64_t>(i), sample));
    copy_shifted(sample, tokens.mutable_data_ptr<int64_t>() + i * length,
                 targets.mutable_data_ptr<int64_t>() + i * length);
  }
  if (inputs.input_by_place) tokens = tokens.t().contiguous();
  if (inputs.labels_by_place) targets = targets.t().contiguous();
  return Batch{{inputs.input, to_value(tokens)}, {inputs.labels, to_value(targets)}};
}

}  // namespace rannc::runtime
