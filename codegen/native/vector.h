/// Vectors of 64 bytes whose arithmetic gives the same bits on every instruction set.
///
/// Generated loops include this header. It needs GCC 12 or Clang 14 on x86-64, depends on no library, and is compiled
/// once per instruction set with `-O3 -ffp-contract=off -fno-math-errno -fno-trapping-math` and
///
///   baseline   no option: SSE2
///   avx2       -mavx2 (without -mfma)
///   avx512     -mavx512f -mavx512dq -mavx512bw -mavx512vl
///
/// A Vec<float> has 16 lanes and a Vec<double> 8, whatever the registers. Lanes never mix except in lane_sum, lane_max
/// and lane_min, which combine them in one fixed order. Bits of NaN are not specified.
///
/// The linker merges functions of one name. Code for a newer processor must not replace code for an older one, so all
/// names lie in an inline namespace per variant. Sources that include this header keep their own functions in that
/// namespace too
/// (`namespace rannc::native { inline namespace RANNC_VARIANT { … } }`) or give them internal linkage, and instantiate
/// no template of the standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define RANNC_PART_BYTES 64
#elif defined(__AVX2__)
#define RANNC_PART_BYTES 32
#else
#define RANNC_PART_BYTES 16
#endif

// Whoever compiles with other options than the three above defines a name of their own.
#if !defined(RANNC_VARIANT)
#if RANNC_PART_BYTES == 64
#define RANNC_VARIANT avx512
#elif RANNC_PART_BYTES == 32
#define RANNC_VARIANT avx2
#else
#define RANNC_VARIANT baseline
#endif
#endif

#define RANNC_INLINE inline __attribute__((always_inline))

namespace rannc::native {
inline namespace RANNC_VARIANT {

/// Bytes of a Vec, and registers it takes.
inline constexpr int kVecBytes = 64;
inline constexpr int kParts = kVecBytes / RANNC_PART_BYTES;

/// Register types of T: Part holds numbers, Bits integers of the same width.
template <typename T>
struct Register;

template <>
struct Register<float> {
  using Integer = std::int32_t;
  typedef float Part __attribute__((vector_size(RANNC_PART_BYTES)));
  typedef Integer Bits __attribute__((vector_size(RANNC_PART_BYTES)));
  typedef float Quarter __attribute__((vector_size(16)));
  static constexpr Integer kSign = INT32_MIN;
  static constexpr float kInteger = 8388608.0F;  // 2^23: from here on every number is an integer
};

template <>
struct Register<double> {
  using Integer = std::int64_t;
  typedef double Part __attribute__((vector_size(RANNC_PART_BYTES)));
  typedef Integer Bits __attribute__((vector_size(RANNC_PART_BYTES)));
  typedef double Quarter __attribute__((vector_size(16)));
  static constexpr Integer kSign = INT64_MIN;
  static constexpr double kInteger = 4503599627370496.0;  // 2^52
};

/// `a < b ? a : b` and `a > b ? a : b`, lane by lane: b where one of them is NaN. Clang finds the instruction by
/// itself.
#if defined(__clang__) || !defined(__SSE2__)
#define RANNC_EXTREMES(Part, suffix)                                 \
  RANNC_INLINE Part lesser(Part a, Part b) { return a < b ? a : b; } \
  RANNC_INLINE Part greater(Part a, Part b) { return a > b ? a : b; }
#elif RANNC_PART_BYTES == 16
#define RANNC_EXTREMES(Part, suffix)                                                    \
  RANNC_INLINE Part lesser(Part a, Part b) { return __builtin_ia32_min##suffix(a, b); } \
  RANNC_INLINE Part greater(Part a, Part b) { return __builtin_ia32_max##suffix(a, b); }
#elif RANNC_PART_BYTES == 32
#define RANNC_EXTREMES(Part, suffix)                                                         \
  RANNC_INLINE Part lesser(Part a, Part b) { return __builtin_ia32_min##suffix##256(a, b); } \
  RANNC_INLINE Part greater(Part a, Part b) { return __builtin_ia32_max##suffix##256(a, b); }
#else
#define RANNC_EXTREMES(Part, suffix)                                                                        \
  RANNC_INLINE Part lesser(Part a, Part b) { return __builtin_ia32_min##suffix##512_mask(a, b, a, -1, 4); } \
  RANNC_INLINE Part greater(Part a, Part b) { return __builtin_ia32_max##suffix##512_mask(a, b, a, -1, 4); }
#endif
RANNC_EXTREMES(Register<float>::Part, ps)
RANNC_EXTREMES(Register<double>::Part, pd)
#undef RANNC_EXTREMES

template <typename T>
struct Vec;

/// A truth value per lane, as all bits or none.
template <typename T>
struct Mask {
  static constexpr int kLanes = kVecBytes / static_cast<int>(sizeof(T));
  using Bits = typename Register<T>::Bits;
  Bits part[kParts];

  friend RANNC_INLINE Mask operator&(Mask a, Mask b) {
    for (int i = 0; i < kParts; ++i) a.part[i] &= b.part[i];
    return a;
  }
  friend RANNC_INLINE Mask operator|(Mask a, Mask b) {
    for (int i = 0; i < kParts; ++i) a.part[i] |= b.part[i];
    return a;
  }
  friend RANNC_INLINE Mask operator^(Mask a, Mask b) {
    for (int i = 0; i < kParts; ++i) a.part[i] ^= b.part[i];
    return a;
  }
  friend RANNC_INLINE Mask operator!(Mask a) {
    for (int i = 0; i < kParts; ++i) a.part[i] = ~a.part[i];
    return a;
  }
  /// Lanes of `yes` where the mask is true, else of `no`. What the other one holds there has no effect, NaN included.
  friend RANNC_INLINE Vec<T> select(Mask mask, Vec<T> yes, Vec<T> no) {
    for (int i = 0; i < kParts; ++i) yes.part[i] = mask.part[i] < 0 ? yes.part[i] : no.part[i];
    return yes;
  }
  /// Whether the mask is true in some lane.
  friend RANNC_INLINE bool any(Mask mask) {
    Bits all = mask.part[0];
    for (int i = 1; i < kParts; ++i) all |= mask.part[i];
    std::int64_t words[RANNC_PART_BYTES / 8];
    __builtin_memcpy(words, &all, sizeof words);
    std::int64_t some = 0;
    for (const std::int64_t word : words) some |= word;
    return some != 0;
  }
};

/// Numbers, one per lane. Scalars convert to a Vec with all lanes equal, so `0.5 * x + 1` is an expression of T.
template <typename T>
struct Vec {
  static constexpr int kLanes = kVecBytes / static_cast<int>(sizeof(T));
  using Part = typename Register<T>::Part;
  using Bits = typename Register<T>::Bits;
  Part part[kParts];

  using Scalar = T;

  Vec() = default;
  RANNC_INLINE Vec(T scalar) {                                   // NOLINT(google-explicit-constructor)
    for (int i = 0; i < kParts; ++i) part[i] = scalar - Part{};  // `scalar + Part{}` would lose the sign of -0
  }

  friend RANNC_INLINE Vec operator+(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) a.part[i] += b.part[i];
    return a;
  }
  friend RANNC_INLINE Vec operator-(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) a.part[i] -= b.part[i];
    return a;
  }
  friend RANNC_INLINE Vec operator*(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) a.part[i] *= b.part[i];
    return a;
  }
  friend RANNC_INLINE Vec operator/(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) a.part[i] /= b.part[i];
    return a;
  }
  friend RANNC_INLINE Vec operator-(Vec a) {
    for (int i = 0; i < kParts; ++i) a.part[i] = -a.part[i];
    return a;
  }
  RANNC_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  RANNC_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  RANNC_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
  RANNC_INLINE Vec& operator/=(Vec b) { return *this = *this / b; }

  // Comparisons with NaN are false, except !=.
  friend RANNC_INLINE Mask<T> operator==(Vec a, Vec b) {
    Mask<T> m;
    for (int i = 0; i < kParts; ++i) m.part[i] = a.part[i] == b.part[i];
    return m;
  }
  friend RANNC_INLINE Mask<T> operator!=(Vec a, Vec b) {
    Mask<T> m;
    for (int i = 0; i < kParts; ++i) m.part[i] = a.part[i] != b.part[i];
    return m;
  }
  friend RANNC_INLINE Mask<T> operator<(Vec a, Vec b) {
    Mask<T> m;
    for (int i = 0; i < kParts; ++i) m.part[i] = a.part[i] < b.part[i];
    return m;
  }
  friend RANNC_INLINE Mask<T> operator<=(Vec a, Vec b) {
    Mask<T> m;
    for (int i = 0; i < kParts; ++i) m.part[i] = a.part[i] <= b.part[i];
    return m;
  }
  friend RANNC_INLINE Mask<T> operator>(Vec a, Vec b) { return b < a; }
  friend RANNC_INLINE Mask<T> operator>=(Vec a, Vec b) { return b <= a; }

  /// The smaller and the larger number. NaN if either is, as in PyTorch.
  friend RANNC_INLINE Vec min(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) {
      const Part smaller = lesser(b.part[i], a.part[i]);
      a.part[i] = b.part[i] != b.part[i] ? b.part[i] : smaller;
    }
    return a;
  }
  friend RANNC_INLINE Vec max(Vec a, Vec b) {
    for (int i = 0; i < kParts; ++i) {
      const Part larger = greater(b.part[i], a.part[i]);
      a.part[i] = b.part[i] != b.part[i] ? b.part[i] : larger;
    }
    return a;
  }
};

/// Lanes per part.
template <typename T>
inline constexpr int kPartLanes = RANNC_PART_BYTES / static_cast<int>(sizeof(T));

/// 16 of the 64 bytes of parts.
template <typename Quarter, typename Part>
RANNC_INLINE Quarter quarter(const Part (&part)[kParts], int index) {
  Quarter q;
  const int byte = 16 * index;
  __builtin_memcpy(&q, reinterpret_cast<const char*>(&part[byte / RANNC_PART_BYTES]) + byte % RANNC_PART_BYTES, 16);
  return q;
}

// ---- Memory. `count` lanes, 0 to all of them, are read or written by the partial forms, and no byte beyond.

template <typename T>
RANNC_INLINE Vec<T> load(const T* from) {
  Vec<T> v;
  for (int i = 0; i < kParts; ++i) __builtin_memcpy(&v.part[i], from + i * kPartLanes<T>, RANNC_PART_BYTES);
  return v;
}
template <typename T>
RANNC_INLINE void store(T* to, Vec<T> v) {
  for (int i = 0; i < kParts; ++i) __builtin_memcpy(to + i * kPartLanes<T>, &v.part[i], RANNC_PART_BYTES);
}
template <typename T>
RANNC_INLINE Vec<T> load(const T* from, std::int64_t count, typename Vec<T>::Scalar fill = 0) {
  T lanes[Vec<T>::kLanes];
  store(lanes, Vec<T>(fill));
  __builtin_memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}
template <typename T>
RANNC_INLINE void store(T* to, Vec<T> v, std::int64_t count) {
  T lanes[Vec<T>::kLanes];
  store(lanes, v);
  __builtin_memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

/// Numbers of another type as T: `load_as<float>(indices)`. Rounds to nearest even; bool and uint8 are allowed.
template <typename T, typename S>
RANNC_INLINE Vec<T> load_as(const S* from) {
  Vec<T> v = T(0);
  for (int i = 0; i < kParts; ++i)
    for (int j = 0; j < kPartLanes<T>; ++j) v.part[i][j] = static_cast<T>(from[i * kPartLanes<T> + j]);
  return v;
}
template <typename T, typename S>
RANNC_INLINE Vec<T> load_as(const S* from, std::int64_t count, typename Vec<T>::Scalar fill = 0) {
  T lanes[Vec<T>::kLanes];
  store(lanes, Vec<T>(fill));
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = static_cast<T>(from[i]);
  return load(lanes);
}
/// T as numbers of another type; integers round towards zero and are undefined where S cannot hold them, bool is `!=
/// 0`.
template <typename S, typename T>
RANNC_INLINE void store_as(S* to, Vec<T> v, std::int64_t count = Vec<T>::kLanes) {
  T lanes[Vec<T>::kLanes];
  store(lanes, v);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<S>(lanes[i]);
}

/// Bytes as a mask, true where one isn't 0. Byte is bool, uint8_t or int8_t.
template <typename T, typename Byte>
RANNC_INLINE Mask<T> load_mask(const Byte* from) {
  static_assert(sizeof(Byte) == 1);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  Mask<T> m;
#if RANNC_PART_BYTES == 16
  // Widening loops of lanes becomes one unpacking of all of them.
  typename Register<T>::Integer lanes[Vec<T>::kLanes];
  for (int i = 0; i < Vec<T>::kLanes; ++i) lanes[i] = bytes[i];
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(&m.part[i], lanes + i * kPartLanes<T>, RANNC_PART_BYTES);
    m.part[i] = m.part[i] != 0;
  }
#else
  for (int i = 0; i < kParts; ++i) {
    typename Mask<T>::Bits wide{};
    for (int j = 0; j < kPartLanes<T>; ++j) wide[j] = bytes[i * kPartLanes<T> + j];
    m.part[i] = wide != 0;
  }
#endif
  return m;
}
template <typename T, typename Byte>
RANNC_INLINE Mask<T> load_mask(const Byte* from, std::int64_t count) {
  unsigned char bytes[Vec<T>::kLanes] = {};
  __builtin_memcpy(bytes, from, static_cast<std::size_t>(count));
  return load_mask<T>(bytes);
}
/// A mask as bytes 0 and 1.
template <typename Byte, typename T>
RANNC_INLINE void store(Byte* to, Mask<T> m) {
  static_assert(sizeof(Byte) == 1);
  unsigned char bytes[Vec<T>::kLanes];
#if RANNC_PART_BYTES == 64
  for (int i = 0; i < Vec<T>::kLanes; ++i) bytes[i] = m.part[0][i] & 1;
#else
  // A lane is all bits or none, so each byte of it will do: three halvings of doubles, two of floats.
  typedef signed char Bytes __attribute__((vector_size(16)));
  Bytes q[4];
  for (int i = 0; i < 4; ++i) q[i] = quarter<Bytes>(m.part, i);
  const auto halve = [](Bytes a, Bytes b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  };
  Bytes packed = halve(halve(q[0], q[1]), halve(q[2], q[3]));
  if (sizeof(T) == 8) packed = halve(packed, packed);
  packed &= 1;
  __builtin_memcpy(bytes, &packed, sizeof bytes);
#endif
  __builtin_memcpy(to, bytes, sizeof bytes);
}
template <typename Byte, typename T>
RANNC_INLINE void store(Byte* to, Mask<T> m, std::int64_t count) {
  unsigned char bytes[Vec<T>::kLanes];
  store(bytes, m);
  __builtin_memcpy(to, bytes, static_cast<std::size_t>(count));
}

/// 0, 1, 2 … of the lanes.
template <typename T>
RANNC_INLINE Vec<T> lane_numbers() {
  Vec<T> v = T(0);
  for (int i = 0; i < kParts; ++i)
    for (int j = 0; j < kPartLanes<T>; ++j) v.part[i][j] = static_cast<T>(i * kPartLanes<T> + j);
  return v;
}
/// True in the first `count` lanes: what a tail is of.
template <typename T>
RANNC_INLINE Mask<T> first_lanes(std::int64_t count) {
  return lane_numbers<T>() < static_cast<T>(count);
}

/// The bits of numbers, for masks of single bits.
template <typename T>
RANNC_INLINE Vec<T> from_bits(Mask<T> bits) {
  Vec<T> v;
  for (int i = 0; i < kParts; ++i) v.part[i] = (typename Vec<T>::Part)bits.part[i];
  return v;
}
template <typename T>
RANNC_INLINE Mask<T> to_bits(Vec<T> v) {
  Mask<T> bits;
  for (int i = 0; i < kParts; ++i) bits.part[i] = (typename Mask<T>::Bits)v.part[i];
  return bits;
}

// ---- Reductions: lane i meets lane i + half, for halves of 8, 4, 2 and 1 lanes (double: from 4 on).

/// `combine` of all lanes in that order. It takes numbers and native vectors of them.
template <typename T, typename Combine>
RANNC_INLINE T lane_reduce(const Vec<T>& v, Combine combine) {
  using Quarter = typename Register<T>::Quarter;
  Quarter q[4];
  for (int i = 0; i < 4; ++i) q[i] = quarter<Quarter>(v.part, i);
  const Quarter last = combine(combine(q[0], q[2]), combine(q[1], q[3]));
  if constexpr (sizeof(T) == 8) return combine(last[0], last[1]);
  if constexpr (sizeof(T) == 4) return combine(combine(last[0], last[2]), combine(last[1], last[3]));
}
template <typename T>
RANNC_INLINE T lane_sum(Vec<T> v) {
  return lane_reduce(v, [](auto a, auto b) { return a + b; });
}
/// NaN if a lane is.
template <typename T>
RANNC_INLINE T lane_max(Vec<T> v) {
  return lane_reduce(v, [](auto a, auto b) { return ((a > b) | (a != a)) ? a : b; });
}
template <typename T>
RANNC_INLINE T lane_min(Vec<T> v) {
  return lane_reduce(v, [](auto a, auto b) { return ((a < b) | (a != a)) ? a : b; });
}

}  // namespace RANNC_VARIANT
}  // namespace rannc::native
