/// Random numbers of loops: the bits of `runtime/execute/random.cc`.
#pragma once

#include "codegen/native/loops.h"

namespace rannc::native {

inline namespace RANNC_VARIANT {

/// 32 bits in the lower half of each lane.
typedef uint64_t Words __attribute__((vector_size(RANNC_PART_BYTES)));

/// Products of the lower halves.
RANNC_INLINE Words product(Words a, Words b) {
#if defined(__clang__)
  return (a & 0xffffffff) * (b & 0xffffffff);
#elif RANNC_PART_BYTES == 16
  typedef int Halves __attribute__((vector_size(16)));
  return (Words)__builtin_ia32_pmuludq128((Halves)a, (Halves)b);
#elif RANNC_PART_BYTES == 32
  typedef int Halves __attribute__((vector_size(32)));
  return (Words)__builtin_ia32_pmuludq256((Halves)a, (Halves)b);
#else
  typedef int Halves __attribute__((vector_size(64)));
  typedef long long Products __attribute__((vector_size(64)));
  return (Words)__builtin_ia32_pmuludq512_mask((Halves)a, (Halves)b, Products{}, -1);
#endif
}

/// Blocks of four numbers that are made together.
constexpr int kBlocks = 8;
constexpr int64_t kMade = 4 * kBlocks;
constexpr int kBlockParts = kBlocks * 8 / RANNC_PART_BYTES;

/// Philox 4x32-10 of blocks `block` to `block` + kBlocks - 1 of a sample. Bits 4 i to 4 i + 3 are those of block i.
RANNC_INLINE void philox(uint64_t key, uint64_t sample, uint64_t block, uint32_t (&bits)[kMade]) {
  constexpr uint64_t kLow = 0xffffffff;
  uint64_t low[kBlocks], high[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    low[i] = (block + i) & kLow;
    high[i] = (block + i) >> 32;
  }
  uint64_t pairs[2][kBlocks];
  for (int part = 0; part < kBlockParts; ++part) {
    constexpr int kLanes = RANNC_PART_BYTES / 8;
    Words w0, w1, w2 = (sample & kLow) - Words{}, w3 = (sample >> 32) - Words{};
    __builtin_memcpy(&w0, low + part * kLanes, sizeof w0);
    __builtin_memcpy(&w1, high + part * kLanes, sizeof w1);
    uint32_t low_key = static_cast<uint32_t>(key), high_key = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Words a = product(w0, 0xd2511f53 - Words{}), b = product(w2, 0xcd9e8d57 - Words{});
      w0 = (b >> 32) ^ w1 ^ (uint64_t{low_key} - Words{});
      w2 = (a >> 32) ^ w3 ^ (uint64_t{high_key} - Words{});
      w1 = b & kLow;
      w3 = a & kLow;
      low_key += 0x9e3779b9;
      high_key += 0xbb67ae85;
    }
    const Words first = w0 | (w1 << 32), second = w2 | (w3 << 32);
    __builtin_memcpy(pairs[0] + part * kLanes, &first, sizeof first);
    __builtin_memcpy(pairs[1] + part * kLanes, &second, sizeof second);
  }
  for (int i = 0; i < kBlocks; ++i) {
    __builtin_memcpy(bits + 4 * i, &pairs[0][i], 8);
    __builtin_memcpy(bits + 4 * i + 2, &pairs[1][i], 8);
  }
}

/// Multiples of 2^-24 in [0, 1).
struct Uniform {
  RANNC_INLINE float operator()(uint32_t bits) const { return static_cast<float>(bits >> 8) * 0x1p-24F; }
};
/// 0 with probability limit / 2^32, else `kept`. A limit of 2^32 does not fit: `none` keeps nothing.
struct Dropped {
  uint32_t limit;
  bool none;
  float kept;
  RANNC_INLINE float operator()(uint32_t bits) const { return (bits < limit) | none ? 0.0F : kept; }
};
RANNC_INLINE Dropped dropped(double drop) {
  const auto limit = static_cast<uint64_t>(drop * 4294967296.0);
  return {static_cast<uint32_t>(limit), limit > 0xffffffff, static_cast<float>(1.0 / (1.0 - drop))};
}

/// Numbers `first` to `first` + `count` - 1 of a sample.
template <class T, class NumberOf>
RANNC_INLINE void random(const LoopRandom& random, uint64_t sample, int64_t first, int64_t count, T* to,
                         NumberOf number) {
  for (int64_t made = 0; made < count;) {
    const int64_t skipped = (first + made) % 4;
    uint32_t bits[kMade];
    philox(random.key, sample, static_cast<uint64_t>((first + made) / 4), bits);
    T numbers[kMade];
    for (int i = 0; i < kMade; ++i) numbers[i] = static_cast<T>(number(bits[i]));
    const int64_t rest = count - made, usable = kMade - skipped, taken = rest < usable ? rest : usable;
    __builtin_memcpy(to + made, numbers + skipped, static_cast<std::size_t>(taken) * sizeof(T));
    made += taken;
  }
}

/// The numbers of a row, in `to`. `number` maps 32 random bits.
template <class T, class NumberOf>
RANNC_INLINE const T* random_row(const LoopRun& run, int operand, int64_t row, T* to, NumberOf number) {
  const LoopRandom& from = run.in[operand].random;
  const int64_t columns = length_of(run, row);
  if (from.ones) {
    for (int64_t j = 0; j < columns; ++j) to[j] = T(1);
    return to;
  }
  for (int64_t made = 0; made < columns;) {
    const int64_t at = row * run.columns + made, sample = at / from.elements, first = at % from.elements;
    const int64_t rest = columns - made, left = from.elements - first, taken = rest < left ? rest : left;
    random(from, from.first_sample + static_cast<uint64_t>(sample), first, taken, to + made, number);
    made += taken;
  }
  return to;
}

}  // namespace RANNC_VARIANT
}  // namespace rannc::native
