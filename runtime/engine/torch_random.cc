// Generates random numbers sample by sample and arranges the samples as specified by the type.
#include "runtime/engine/internal/torch_random.h"

#include <fmt/format.h>

#include "runtime/execute/random.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

Result<std::vector<int64_t>> sizes_of(const RandomValue& value, const ir::Bindings& bindings) {
  const Diagnostic unknown = error(fmt::format("random input %{} has an unknown shape", value.name));
  std::vector<int64_t> sizes;
  if (!value.type.shape) return unknown;
  for (const ir::Dim& dim : *value.type.shape) {
    const auto extent = dim.evaluate(bindings);
    if (!extent) return unknown;
    sizes.push_back(*extent);
  }
  return sizes;
}

/// Returns the largest number below 1 of a type. Rounding to fewer bits may give 1.
double below_one(ir::DType dtype) {
  return dtype == ir::DType::kBF16 ? 0x1.fep-1 : dtype == ir::DType::kF16 ? 0x1.ffcp-1 : 0x1.fffffep-1;
}

DeviceRandom::Of kind_of(ir::RandomInput::Of of) {
  switch (of) {
    case ir::RandomInput::Of::kUniform:
      return DeviceRandom::Of::kUniform;
    case ir::RandomInput::Of::kNormal:
      return DeviceRandom::Of::kNormal;
    case ir::RandomInput::Of::kBernoulli:
      break;
  }
  return DeviceRandom::Of::kBernoulli;
}

/// Whether the input is dropout that drops nothing.
bool is_all_ones(const RandomValue& value, const At& at) {
  return value.random_input.of == ir::RandomInput::Of::kBernoulli && (!at.training || value.random_input.drop <= 0);
}

uint64_t first_sample(const RandomValue& value, const At& at) {
  return value.type.batch.has_batch() ? at.first_sample : 0;
}

/// Fills a row of `numbers` for each sample of a call.
void fill_rows(const RandomValue& value, const At& at, const at::Tensor& numbers, Device& device,
               const int64_t* key_and_sample) {
  const ir::RandomInput& random_input = value.random_input;
  const RandomStep in{at.seed, at.step};
  const uint64_t first = first_sample(value, at);
  const auto samples = static_cast<uint64_t>(numbers.size(0)), elements = static_cast<uint64_t>(numbers.size(1));
  float* const rows = numbers.data_ptr<float>();
  if (device.is_asynchronous()) {
    device.fill({.numbers = rows,
                 .samples = samples,
                 .elements = elements,
                 .of = kind_of(random_input.of),
                 .drop = random_input.drop,
                 .key = random_key(random_input, in),
                 .first_sample = first,
                 .key_and_sample = reinterpret_cast<const uint64_t*>(key_and_sample)});
    return;
  }
  for (uint64_t i = 0; i < samples; ++i) fill(random_input, in, first + i, {rows + i * elements, elements});
}

}  // namespace

std::array<int64_t, 2> key_and_sample_of(const RandomValue& value, const At& at) {
  return {static_cast<int64_t>(random_key(value.random_input, {at.seed, at.step})),
          static_cast<int64_t>(first_sample(value, at))};
}

native::Numbers numbers_of(const RandomValue& value, const At& at) {
  return {random_key(value.random_input, {at.seed, at.step}), first_sample(value, at), is_all_ones(value, at)};
}

Result<at::Tensor> make_random_input(const RandomValue& value, const At& at, const ir::Bindings& bindings,
                                     Device& device, const int64_t* key_and_sample) {
  const auto options = at::TensorOptions().dtype(scalar_type(value.type.dtype)).device(c10::Device(device.address()));
  if (is_all_ones(value, at) && value.scales) return at::ones({}, options);
  RANNC_ASSIGN(const std::vector<int64_t> sizes, sizes_of(value, bindings));
  if (is_all_ones(value, at)) return at::ones(sizes, options);
  const ir::BatchLayout& layout = value.type.batch;
  const int64_t samples = layout.has_batch() ? static_cast<int64_t>(at.samples) : 1;
  const int64_t elements = c10::multiply_integers(sizes) / samples;
  at::Tensor numbers = at::empty({samples, elements}, options.dtype(at::kFloat));
  fill_rows(value, at, numbers, device, key_and_sample);
  numbers = numbers.to(options.dtype());
  if (value.random_input.of == ir::RandomInput::Of::kUniform) numbers.clamp_max_(below_one(value.type.dtype));
  if (!layout.has_batch()) return numbers.reshape(sizes);
  const auto axis = sizes.begin() + layout.axis;
  const int64_t before = c10::multiply_integers(sizes.begin(), axis);
  const int64_t outer = layout.outer.evaluate(bindings).value_or(1),
                inner = layout.inner.evaluate(bindings).value_or(1);
  return numbers.reshape({samples, before * outer, inner, -1}).permute({1, 0, 2, 3}).reshape(sizes);
}

}  // namespace rannc::runtime
