/// Translates normalizations.
#include <fmt/format.h>

#include <array>
#include <tuple>

#include "frontend/internal/statistics.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::Shape;

double epsilon(Call& call, double otherwise) { return call.has("eps") ? call.number("eps") : otherwise; }

/// Returns an operand, or a constant of `value` if the program omits it.
ValueId or_number(Call& call, std::string_view name, double value, const Shape& shape, ir::DType dtype) {
  if (call.has(name)) return call.tensor(name);
  return call.emit("full", {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}});
}

/// The input, widened if it has fewer bits than weights or statistics have, as in regions of autocast.
ValueId wide_input(Call& call) {
  const ValueId x = call.tensor("input");
  for (const std::string_view name : {"weight", "bias", "running_mean", "running_var"}) {
    if (!call.good() || !call.is_tensor(name)) continue;
    const ir::DType own = call.dtype((*call.item(name).get<TensorRef>())->now());
    if (own == ir::DType::kF32 && ir::byte_size(call.dtype(x)) < ir::byte_size(own)) return call.cast(x, own);
  }
  return x;
}

/// A result has the type of the input.
template <void (*normalize)(Call&)>
void narrowed(Call& call) {
  const ir::DType dtype = call.dtype(call.tensor("input"));
  normalize(call);
  convert_results(call, dtype);
}

void layer_norm(Call& call) {
  const ValueId x = wide_input(call);
  const int64_t axis = call.rank(x) - static_cast<int64_t>(call.sizes("normalized_shape").size());
  std::vector<ValueId> operands = {x, call.optional_tensor("weight"), call.optional_tensor("bias")};
  while (operands.size() > 1 && !operands.back().valid()) operands.pop_back();
  if (call.good()) call.result("layer_norm", operands, {{"axis", Dim(axis)}, {"epsilon", epsilon(call, 1e-5)}});
}

void rms_norm(Call& call) {
  const ValueId x = wide_input(call);
  const int64_t axis = call.rank(x) - static_cast<int64_t>(call.sizes("normalized_shape").size());
  std::vector<ValueId> operands = {x};
  if (call.has("weight")) operands.push_back(call.tensor("weight"));
  if (!call.good()) return;
  const double natural = call.dtype(x) == ir::DType::kF64 ? 0x1p-52 : 0x1p-23;
  call.result("rms_norm", operands, {{"axis", Dim(axis)}, {"epsilon", epsilon(call, natural)}});
}

void group_norm(Call& call) {
  std::vector<ValueId> operands = {wide_input(call), call.optional_tensor("weight"), call.optional_tensor("bias")};
  while (operands.size() > 1 && !operands.back().valid()) operands.pop_back();
  if (call.good())
    call.result("group_norm", operands,
                {{"groups", Dim(call.integer(call.has("num_groups") ? "num_groups" : "group"))},
                 {"epsilon", epsilon(call, 1e-5)}});
}

/// Makes later reads of the running statistics errors: a step updates them at its end.
void note_update(Call& call) {
  for (const std::string_view name : {"running_mean", "running_var"}) {
    const auto* const statistic = call.item(name).get<TensorRef>();
    if (statistic == nullptr) continue;
    std::ignore = (*statistic)
                      ->lose(fmt::format("it reads '{}' after a batch normalization has updated it, whereas training "
                                         "updates it at the end of a step",
                                         (*statistic)->state()));
  }
}

/// Training uses batch statistics, which update the running ones. Without running statistics nothing reads the updates.
void batch_norm(Call& call) {
  const ValueId x = wide_input(call);
  const Shape* const shape = call.shape(x);
  if (!shape || shape->size() < 2) return call.fail("batch_norm needs at least 2 axes");
  const Shape channels = {(*shape)[1]};
  const ir::DType dtype = call.dtype(x);
  const bool training =
      call.has("training") ? call.flag("training") : call.has("use_input_stats") && call.flag("use_input_stats");
  const double momentum = call.has("momentum") ? call.number("momentum") : 0.1;
  const auto running = [&](std::string_view name, double value) {
    const auto* const given = call.item(name).get<TensorRef>();
    const bool may_be_updated = training && given != nullptr && !(*given)->is_view();  // by the same module before
    return may_be_updated ? (*given)->now() : or_number(call, name, value, channels, dtype);
  };
  const std::array operands = {x, or_number(call, "weight", 1, channels, dtype),
                               or_number(call, "bias", 0, channels, dtype), running("running_mean", 0),
                               running("running_var", 1)};
  if (!call.good()) return;
  const bool computed = is_computed(call, operands[3]) || is_computed(call, operands[4]);
  if (!training && computed) return call.give(normalised(call, operands, epsilon(call, 1e-5)));
  const bool keeps = call.has("running_mean") && !computed;
  ir::Attributes attributes = {{"epsilon", epsilon(call, 1e-5)}, {"momentum", momentum}, {"training", training}};
  if (training && !keeps) attributes.set("own_statistics", true);
  call.result_with_auxiliary("batch_norm", operands, attributes, training && keeps ? 2 : 0);
  if (training && keeps) note_update(call);
}

/// Normalizes each channel of each sample separately.
void instance_norm(Call& call) {
  if (!call.flag("use_input_stats")) return batch_norm(call);
  const ValueId x = wide_input(call);
  const Shape* const shape = call.shape(x);
  if (!shape || shape->size() < 3) return call.fail("instance_norm needs at least 3 axes");
  const Dim channels = (*shape)[1];
  if (call.has("running_mean")) call.remark("instance normalizations do not update their running statistics");
  std::vector<ValueId> operands = {x, call.optional_tensor("weight"), call.optional_tensor("bias")};
  while (operands.size() > 1 && !operands.back().valid()) operands.pop_back();
  if (call.good()) call.result("group_norm", operands, {{"groups", channels}, {"epsilon", epsilon(call, 1e-5)}});
}

}  // namespace

std::span<const Translator> normalize_translators() {
  static constexpr Translator kTable[] = {
      {"layer_norm", narrowed<layer_norm>},       {"rms_norm", narrowed<rms_norm>},
      {"group_norm", narrowed<group_norm>},       {"batch_norm", narrowed<batch_norm>},
      {"instance_norm", narrowed<instance_norm>},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
