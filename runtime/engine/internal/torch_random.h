/// Generates random inputs as tensors.
#pragma once

#include <ATen/ATen.h>

#include <array>

#include "runtime/device/device.h"
#include "runtime/execute/program.h"
#include "runtime/native/stage.h"

namespace rannc::runtime {

/// Returns the random input for the samples of a call in the memory of `device`, or a single factor 1 if nothing is
/// dropped (evaluation, or a drop rate of 0). An error if its sizes are unknown. `key_and_sample`: device memory with
/// `key_and_sample_of` this call; null: those of `at`.
Result<at::Tensor> make_random_input(const RandomValue& value, const At& at, const ir::Bindings& bindings,
                                     Device& device, const int64_t* key_and_sample = nullptr);

/// The key and the first sample of a call's numbers.
std::array<int64_t, 2> key_and_sample_of(const RandomValue& value, const At& at);

/// The same for loops of compiled stages.
native::Numbers numbers_of(const RandomValue& value, const At& at);

}  // namespace rannc::runtime
