// Draws masks sample by sample and lays them out like the value they multiply.
#include "runtime/internal/torch_masks.h"

#include <fmt/format.h>

#include "runtime/internal/torch_value.h"
#include "runtime/random.h"

namespace rannc::runtime {
namespace {

Result<std::vector<int64_t>> sizes_of(const Mask& mask, const ir::Bindings& bindings) {
  const Diagnostic unknown = error(fmt::format("the mask of task #{} has no known shape", mask.task.index()));
  std::vector<int64_t> sizes;
  if (!mask.type.shape) return unknown;
  for (const ir::Dim& dim : *mask.type.shape) {
    const auto extent = dim.evaluate(bindings);
    if (!extent) return unknown;
    sizes.push_back(*extent);
  }
  return sizes;
}

}  // namespace

Result<at::Tensor> make_mask(const Mask& mask, const At& at, const ir::Bindings& bindings) {
  const auto options = at::TensorOptions().dtype(to_scalar_type(mask.type.dtype));
  if (!at.training || mask.ratio <= 0) return at::ones({}, options);
  RANNC_ASSIGN(const std::vector<int64_t> sizes, sizes_of(mask, bindings));
  const ir::BatchLayout& layout = mask.type.batch;
  const int64_t samples = layout.has_batch() ? static_cast<int64_t>(at.samples) : 1;
  const int64_t elements = c10::multiply_integers(sizes) / samples;
  at::Tensor drawn = at::empty({samples, elements}, at::kFloat);
  for (int64_t i = 0; i < samples; ++i) {
    const uint64_t sample = layout.has_batch() ? at.first_sample + static_cast<uint64_t>(i) : 0;
    fill_mask({at.seed, at.step, mask.key}, sample, mask.ratio,
              {drawn.data_ptr<float>() + i * elements, static_cast<size_t>(elements)});
  }
  drawn = drawn.to(options.dtype());
  if (!layout.has_batch()) return drawn.reshape(sizes);
  const auto axis = sizes.begin() + layout.axis;
  const int64_t before = c10::multiply_integers(sizes.begin(), axis);
  const int64_t outer = layout.outer.evaluate(bindings).value_or(1),
                inner = layout.inner.evaluate(bindings).value_or(1);
  return drawn.reshape({samples, before * outer, inner, -1}).permute({1, 0, 2, 3}).reshape(sizes);
}

}  // namespace rannc::runtime
