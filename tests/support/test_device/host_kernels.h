/// Runs operators on a test device by the kernels of the CPU.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "tests/support/test_device/streams.h"

namespace rannc::testing {

/// Runs `op` on the current stream of its device, and replaces its arguments on `stack` by its results. Device memory
/// is not copied: the kernel works on the shadow. Which arguments are written follows from the schema.
void run_by_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// `op` again with other memory for results: those of `results` that are not views of `arguments` are overwritten.
void run_again(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const torch::jit::Stack& results);

}  // namespace rannc::testing
