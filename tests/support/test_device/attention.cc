// Fused attention of the test device: the kernel of the CPU, under the names that a third-party device has, and those
// of a GPU's kernels, whose rules and layouts it keeps.
#include <ATen/SDPBackend.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <array>
#include <limits>

#include "tests/support/test_device/device_kernels.h"
#include "tests/support/test_device/tensor_bytes.h"

namespace rannc::testing {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

OptionalTensor given(const at::Tensor& mask) { return mask.defined() ? OptionalTensor(mask) : std::nullopt; }

/// The choice of a CPU, as a choice of this device.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const OptionalTensor& mask, double dropout, bool causal, std::optional<double> scale,
                         bool grouped) {
  if (mask && mask->defined() && mask->requires_grad()) return static_cast<int64_t>(at::SDPBackend::math);
  const at::AutoDispatchBelowADInplaceOrView below;
  HostTwins twins;
  const OptionalTensor mask_twin = mask ? OptionalTensor(twins.twin(*mask)) : std::nullopt;
  const int64_t choice = at::_fused_sdp_choice(twins.twin(query), twins.twin(key), twins.twin(value), mask_twin,
                                               dropout, causal, scale, grouped);
  const bool flash = choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
  return static_cast<int64_t>(flash ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
          double dropout, bool causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  auto [out, log_sum] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale);
  return {out, log_sum, {}, {}, query.sym_size(2), key.sym_size(2), {}, {}, {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& mask, std::array<bool, 4> /*wanted*/, const at::Tensor& out, const at::Tensor& log_sum,
    const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal, const at::Tensor&,
    const at::Tensor&, std::optional<double> scale) {
  auto [to_query, to_key, to_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, query, key, value, out, log_sum, dropout, causal, given(mask), scale);
  return {to_query, to_key, to_value, at::Tensor()};
}

// --- the kernels of GPUs

/// A result of a GPU's kernel, laid out as it lays it out: dense with the axes of `like`, by places and then by heads.
at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& made) {
  return at::empty_like(like.transpose(1, 2)).copy_(made.transpose(1, 2)).transpose(1, 2);
}
at::Tensor by_places(const at::Tensor& made) { return made.transpose(1, 2).contiguous().transpose(1, 2); }

/// Rows in one piece, at multiples of 16 bytes.
void check_rows(const at::Tensor& operand) {
  const int64_t size = operand.element_size();
  TORCH_CHECK(operand.stride(-1) == 1 && operand.storage_offset() * size % 16 == 0, "attention of unaligned rows");
  for (int64_t axis = 0; axis < 3; ++axis)
    TORCH_CHECK(operand.size(axis) == 1 || operand.stride(axis) * size % 16 == 0, "attention of unaligned rows");
}

void check_flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout, bool causal) {
  const auto type = query.scalar_type();
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16, "FlashAttention only support fp16 and bf16 data type");
  const int64_t features = query.size(3);
  TORCH_CHECK(features % 8 == 0 && features <= 256 && value.size(3) == features, "head_size must be a multiple of 8");
  TORCH_CHECK(!causal || query.size(2) == key.size(2), "the mask of flash is another one");
  TORCH_CHECK(dropout == 0, "numbers that are dropped are not those of a GPU");
  for (const at::Tensor& operand : {query, key, value}) check_rows(operand);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout, bool causal,
      bool /*return_debug_mask*/, std::optional<double> scale) {
  check_flash(query, key, value, dropout, causal);
  const auto [out, log_sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, {}, scale);
  const at::Tensor state = at::empty({2}, query.options().dtype(at::kLong)), none = at::empty({0}, query.options());
  return {laid_out_as(query, out), log_sums.contiguous(), {}, {}, query.size(2), key.size(2), state, state, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& log_sums, const at::Tensor& lengths, const at::Tensor&, c10::SymInt,
    c10::SymInt, double dropout, bool causal, const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  check_flash(query, key, value, dropout, causal);
  TORCH_CHECK(log_sums.is_contiguous() && log_sums.scalar_type() == at::kFloat, "log-sums are read without strides");
  TORCH_CHECK(!lengths.defined(), "samples of several lengths");
  auto [to_query, to_key, to_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      by_places(gradient), query, key, value, out, log_sums, dropout, causal, {}, scale);
  return {laid_out_as(query, to_query), laid_out_as(key, to_key), laid_out_as(value, to_value)};
}

/// Log-sums have whole units of rows.
constexpr int64_t kRowsUnit = 32;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(const at::Tensor& query, const at::Tensor& key,
                                                                     const at::Tensor& value,
                                                                     const OptionalTensor& bias, bool /*log_sums*/,
                                                                     double dropout, bool causal,
                                                                     std::optional<double> scale) {
  for (const at::Tensor& operand : {query, key, value}) check_rows(operand);
  const auto [out, log_sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, bias, scale);
  const int64_t rows = query.size(2), units = (rows + kRowsUnit - 1) / kRowsUnit * kRowsUnit;
  const at::Tensor padded =
      at::full({query.size(0), query.size(1), units}, std::numeric_limits<float>::infinity(), log_sums.options());
  padded.narrow(2, 0, rows).copy_(log_sums);
  const at::Tensor state = at::empty({}, query.options().dtype(at::kLong));
  return {by_places(out), padded, state, state};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, const at::Tensor& out, const at::Tensor& log_sums, const at::Tensor&, const at::Tensor&,
    double dropout, std::array<bool, 4> /*wanted*/, bool causal, std::optional<double> scale) {
  for (const at::Tensor& operand : {query, key, value}) check_rows(operand);
  TORCH_CHECK(log_sums.size(2) % kRowsUnit == 0, "log-sums of a part of a unit");
  auto [to_query, to_key, to_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      by_places(gradient), query, key, value, out, log_sums.narrow(2, 0, query.size(2)).contiguous(), dropout, causal,
      given(bias), scale);
  return {by_places(to_query), by_places(to_key), by_places(to_value), at::Tensor()};
}

}  // namespace

void add_attention(torch::Library& library) {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose_attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
  library.impl("_scaled_dot_product_flash_attention", TORCH_FN(flash));
  library.impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_backward));
  library.impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient));
  library.impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_backward));
}

}  // namespace rannc::testing
