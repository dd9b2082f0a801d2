/// The arithmetic of four random numbers, for host and device.
///
/// The counterpart of `runtime/execute/random.cc`, which explains it. A test compares both bit by bit.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/cuda/host_device.h"
#include "runtime/device/plugin.h"

namespace rannc::cuda {

struct Bits {
  uint32_t words[4];
};
struct Numbers {
  float values[4];
};

/// Philox 4x32-10.
RANNC_HOST_DEVICE inline Bits philox(Bits counter, uint64_t key) {
  uint32_t low_key = static_cast<uint32_t>(key), high_key = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * counter.words[0], b = uint64_t{0xcd9e8d57} * counter.words[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.words[1] ^ low_key, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.words[3] ^ high_key, static_cast<uint32_t>(a)}};
    low_key += 0x9e3779b9;
    high_key += 0xbb67ae85;
  }
  return counter;
}

RANNC_HOST_DEVICE inline float uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

/// Numbers 4 * block to 4 * block + 3 of a sample.
RANNC_HOST_DEVICE inline Numbers random_block(const runtime::DeviceRandom& random_input, uint64_t key, uint64_t sample,
                                              uint64_t block) {
  constexpr double kTwoPi = 6.283185307179586;
  const Bits bits = philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                             static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)}},
                           key);
  Numbers numbers;
  if (random_input.of == runtime::DeviceRandom::Of::kUniform) {
    for (int i = 0; i < 4; ++i) numbers.values[i] = uniform(bits.words[i]);
  } else if (random_input.of == runtime::DeviceRandom::Of::kNormal) {
    for (int i = 0; i < 4; i += 2) {
      const double radius = sqrt(-2 * log(double{uniform(bits.words[i])} + 0x1p-24));
      const double angle = kTwoPi * uniform(bits.words[i + 1]);
      numbers.values[i] = static_cast<float>(radius * cos(angle));
      numbers.values[i + 1] = static_cast<float>(radius * sin(angle));
    }
  } else {
    const auto limit = static_cast<uint64_t>(random_input.drop * 4294967296.0);
    const auto kept = static_cast<float>(1.0 / (1.0 - random_input.drop));
    for (int i = 0; i < 4; ++i) numbers.values[i] = bits.words[i] < limit ? 0.0F : kept;
  }
  return numbers;
}

}  // namespace rannc::cuda
