// Fused attention of the test device: the kernel of the CPU, under the names that a third-party device has.
#include <ATen/SDPBackend.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include "tests/support/test_device/device_kernels.h"
#include "tests/support/test_device/tensor_bytes.h"

namespace rannc::testing {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

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
  const OptionalTensor given = mask.defined() ? OptionalTensor(mask) : std::nullopt;
  auto [to_query, to_key, to_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, query, key, value, out, log_sum, dropout, causal, given, scale);
  return {to_query, to_key, to_value, at::Tensor()};
}

}  // namespace

void add_attention(torch::Library& library) {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose_attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

}  // namespace rannc::testing
