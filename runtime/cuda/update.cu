// Blocks update chunks of tensors, as many tensors per launch as its arguments name.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "runtime/cuda/update.h"
#include "runtime/cuda/update_element.h"

namespace rannc::cuda {
namespace {

using runtime::DeviceUpdate;

constexpr uint64_t kChunk = uint64_t{1} << 16;  ///< elements of a block
constexpr unsigned kThreads = 256;
constexpr int kVector = 4;  ///< elements that a thread loads at once
constexpr uint32_t kTensors = 36, kBlocks = 320;

template <class Number>
struct Launch {
  UpdateFactors<Number> factors;
  DeviceUpdate::Tensor tensors[kTensors];
  uint32_t chunk[kBlocks];
  uint8_t tensor[kBlocks];
};
static_assert(sizeof(Launch<double>) <= 4096, "arguments of a kernel");

template <int size, class Stored>
struct alignas(size * sizeof(Stored)) Vector {
  Stored values[size];
};

template <class Number, class Stored>
__device__ Number to_number(Stored value) {
  return static_cast<Number>(value);
}
template <class Stored, class Number>
__device__ Stored to_stored(Number value) {
  return static_cast<Stored>(value);
}
template <>
__device__ __nv_bfloat16 to_stored(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __half to_stored(float value) {
  return __float2half_rn(value);
}

/// The tensors of a chunk, moved to its beginning.
template <class Stored, class Gradient>
struct Pointers {
  Stored* parameter;
  const Gradient* gradient;
  Stored* states[DeviceUpdate::kStates];
  Stored* average;

  __device__ bool are_aligned() const {
    uintptr_t all = reinterpret_cast<uintptr_t>(parameter) | reinterpret_cast<uintptr_t>(average);
    for (Stored* state : states) all |= reinterpret_cast<uintptr_t>(state);
    return all % sizeof(Vector<kVector, Stored>) == 0 &&
           reinterpret_cast<uintptr_t>(gradient) % sizeof(Vector<kVector, Gradient>) == 0;
  }
};

template <class Number, class Stored>
__device__ void update_one(const UpdateFactors<Number>& factors, const bool (&has)[DeviceUpdate::kStates],
                           Stored& parameter, Number gradient, Stored (&stored)[DeviceUpdate::kStates],
                           bool has_average, Stored& average) {
  Number states[DeviceUpdate::kStates] = {};
  for (int s = 0; s < DeviceUpdate::kStates; ++s) {
    if (has[s]) states[s] = to_number<Number>(stored[s]);
  }
  parameter = to_stored<Stored>(update_element(factors, to_number<Number>(parameter), gradient, states, has[2]));
  for (int s = 0; s < DeviceUpdate::kStates; ++s) {
    if (has[s]) stored[s] = to_stored<Stored>(states[s]);
  }
  if (has_average)
    average = to_stored<Stored>(lerp(to_number<Number>(average), to_number<Number>(parameter), factors.average));
}

/// Updates `size` elements from `i` on, which is kVector only if all pointers are aligned.
template <int size, class Number, class Stored, class Gradient>
__device__ void update_some(const UpdateFactors<Number>& factors, const Pointers<Stored, Gradient>& at, uint64_t i) {
  using Some = Vector<size, Stored>;
  using Gradients = Vector<size, Gradient>;
  bool has[DeviceUpdate::kStates];
  Some states[DeviceUpdate::kStates], average{};
  for (int s = 0; s < DeviceUpdate::kStates; ++s) {
    has[s] = at.states[s] != nullptr;
    if (has[s]) states[s] = *reinterpret_cast<const Some*>(at.states[s] + i);
  }
  const bool has_average = at.average != nullptr;
  if (has_average) average = *reinterpret_cast<const Some*>(at.average + i);
  Some parameter = *reinterpret_cast<const Some*>(at.parameter + i);
  const Gradients gradient = *reinterpret_cast<const Gradients*>(at.gradient + i);
  for (int k = 0; k < size; ++k) {
    Stored own[DeviceUpdate::kStates];
    for (int s = 0; s < DeviceUpdate::kStates; ++s) own[s] = states[s].values[k];
    update_one(factors, has, parameter.values[k], to_number<Number>(gradient.values[k]), own, has_average,
               average.values[k]);
    for (int s = 0; s < DeviceUpdate::kStates; ++s) states[s].values[k] = own[s];
  }
  *reinterpret_cast<Some*>(at.parameter + i) = parameter;
  for (int s = 0; s < DeviceUpdate::kStates; ++s) {
    if (has[s]) *reinterpret_cast<Some*>(at.states[s] + i) = states[s];
  }
  if (has_average) *reinterpret_cast<Some*>(at.average + i) = average;
}

template <class Number, class Stored, class Gradient>
__global__ void update_chunks(const __grid_constant__ Launch<Number> launch) {
  const DeviceUpdate::Tensor& tensor = launch.tensors[launch.tensor[blockIdx.x]];
  const uint64_t first = launch.chunk[blockIdx.x] * kChunk, size = min(kChunk, tensor.elements - first);
  Pointers<Stored, Gradient> at{static_cast<Stored*>(tensor.parameter) + first,
                                static_cast<const Gradient*>(tensor.gradient) + first,
                                {},
                                tensor.average != nullptr ? static_cast<Stored*>(tensor.average) + first : nullptr};
  for (int s = 0; s < DeviceUpdate::kStates; ++s)
    at.states[s] = tensor.states[s] != nullptr ? static_cast<Stored*>(tensor.states[s]) + first : nullptr;
  const uint64_t whole = at.are_aligned() ? size / kVector * kVector : 0;
  for (uint64_t i = uint64_t{threadIdx.x} * kVector; i < whole; i += uint64_t{blockDim.x} * kVector)
    update_some<kVector>(launch.factors, at, i);
  for (uint64_t i = whole + threadIdx.x; i < size; i += blockDim.x) update_some<1>(launch.factors, at, i);
}

template <class Number, class Stored, class Gradient>
cudaError_t update_all(const DeviceUpdate& update, cudaStream_t stream) {
  Launch<Number> launch{};
  launch.factors = update_factors<Number>(update);
  uint32_t tensors = 0, blocks = 0;
  const auto flush = [&] {
    if (blocks > 0) update_chunks<Number, Stored, Gradient><<<blocks, kThreads, 0, stream>>>(launch);
    tensors = blocks = 0;
    return cudaGetLastError();
  };
  for (size_t t = 0; t < update.count; ++t) {
    const auto chunks = static_cast<uint32_t>((update.tensors[t].elements + kChunk - 1) / kChunk);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      if (blocks == kBlocks || (chunk == 0 && tensors == kTensors)) {
        if (const cudaError_t failed = flush(); failed != cudaSuccess) return failed;
      }
      if (chunk == 0 || tensors == 0) launch.tensors[tensors++] = update.tensors[t];
      launch.tensor[blocks] = static_cast<uint8_t>(tensors - 1);
      launch.chunk[blocks++] = chunk;
    }
  }
  return flush();
}

}  // namespace

cudaError_t update_tensors(const DeviceUpdate& update, cudaStream_t stream) {
  switch (update.number) {
    case DeviceUpdate::Number::kFloat64:
      return update_all<double, double, double>(update, stream);
    case DeviceUpdate::Number::kBFloat16:
      return update_all<float, __nv_bfloat16, float>(update, stream);
    case DeviceUpdate::Number::kFloat16:
      return update_all<float, __half, float>(update, stream);
    default:
      return update_all<float, float, float>(update, stream);
  }
}

}  // namespace rannc::cuda
