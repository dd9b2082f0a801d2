// A thread per four numbers of a sample.
#include <algorithm>

#include "runtime/cuda/random.h"
#include "runtime/cuda/random_block.h"

namespace rannc::cuda {
namespace {

constexpr uint64_t kThreads = 256, kMostBlocks = 1 << 16;

__global__ void fill(runtime::DeviceRandom random_input) {
  const uint64_t per_sample = (random_input.elements + 3) / 4, count = random_input.samples * per_sample;
  const uint64_t key = random_input.key_and_sample != nullptr ? random_input.key_and_sample[0] : random_input.key;
  const uint64_t first =
      random_input.key_and_sample != nullptr ? random_input.key_and_sample[1] : random_input.first_sample;
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint64_t sample = i / per_sample, block = i % per_sample;
    const Numbers numbers = random_block(random_input, key, first + sample, block);
    float* const row = random_input.numbers + sample * random_input.elements;
    for (uint64_t k = 0; k < 4 && 4 * block + k < random_input.elements; ++k) row[4 * block + k] = numbers.values[k];
  }
}

}  // namespace

cudaError_t fill_random(const runtime::DeviceRandom& random_input, cudaStream_t stream) {
  const uint64_t count = random_input.samples * ((random_input.elements + 3) / 4);
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  fill<<<blocks, static_cast<unsigned>(kThreads), 0, stream>>>(random_input);
  return cudaGetLastError();
}

}  // namespace rannc::cuda
