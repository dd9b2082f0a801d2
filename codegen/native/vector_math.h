/// Elementary functions of vectors.
///
/// Those of float are polynomials without branches, but for sin and cos of large angles. They use products, sums and
/// quotients alone, so all variants give the same bits. Those of double call the C library lane by lane. Errors are at
/// most, in units in the last place (codegen_native_accuracy_test):
///
///   exp 1.1, expm1 2, log 1, log1p 2, tanh 1.5, erf 1.5, sigmoid 2.5, sin 2, cos 2, pow 1
#pragma once

#include "codegen/native/vector.h"

namespace rannc::native {
inline namespace RANNC_VARIANT {

template <typename T>
RANNC_INLINE Vec<T> abs(Vec<T> x) {
  for (int i = 0; i < kParts; ++i)
    x.part[i] = (typename Vec<T>::Part)((typename Vec<T>::Bits)x.part[i] & ~Register<T>::kSign);
  return x;
}
/// The magnitude of x with the sign of `sign`.
template <typename T>
RANNC_INLINE Vec<T> copysign(Vec<T> x, Vec<T> sign) {
  using Bits = typename Vec<T>::Bits;
  constexpr auto kSign = Register<T>::kSign;
  for (int i = 0; i < kParts; ++i)
    x.part[i] = (typename Vec<T>::Part)(((Bits)x.part[i] & ~kSign) | ((Bits)sign.part[i] & kSign));
  return x;
}
template <typename T>
RANNC_INLINE Mask<T> isnan(Vec<T> x) {
  return x != x;
}
/// x, or 0 where x < 0. NaN stays.
template <typename T>
RANNC_INLINE Vec<T> relu(Vec<T> x) {
  return select(x < T(0), T(0), x);
}

template <typename T>
RANNC_INLINE Vec<T> sqrt(Vec<T> x) {
  for (int i = 0; i < kParts; ++i)
    for (int j = 0; j < kPartLanes<T>; ++j)
      x.part[i][j] = sizeof(T) == 4 ? T(__builtin_sqrtf(float(x.part[i][j]))) : T(__builtin_sqrt(x.part[i][j]));
  return x;
}
/// 1 / sqrt(x), each rounded by itself.
template <typename T>
RANNC_INLINE Vec<T> rsqrt(Vec<T> x) {
  return T(1) / sqrt(x);
}

#if RANNC_PART_BYTES == 16
// SSE2 has no instructions for rounding. Adding 2^23 to a float below leaves no bits for a fraction.
template <typename T>
RANNC_INLINE Vec<T> round(Vec<T> x) {
  constexpr T kInteger = Register<T>::kInteger;
  const Vec<T> size = abs(x);
  return copysign(select(size < kInteger, (size + kInteger) - kInteger, size), x);
}
template <typename T>
RANNC_INLINE Vec<T> floor(Vec<T> x) {
  const Vec<T> near = round(x);
  return copysign(select(near > x, near - T(1), near), x);
}
template <typename T>
RANNC_INLINE Vec<T> ceil(Vec<T> x) {
  const Vec<T> near = round(x);
  return copysign(select(near < x, near + T(1), near), x);
}
template <typename T>
RANNC_INLINE Vec<T> trunc(Vec<T> x) {
  return copysign(floor(abs(x)), x);
}
#else
#define RANNC_ROUNDING(name, builtin)                                                                  \
  template <typename T>                                                                                \
  RANNC_INLINE Vec<T> name(Vec<T> x) {                                                                 \
    for (int i = 0; i < kParts; ++i)                                                                   \
      for (int j = 0; j < kPartLanes<T>; ++j)                                                          \
        x.part[i][j] = sizeof(T) == 4 ? T(builtin##f(float(x.part[i][j]))) : T(builtin(x.part[i][j])); \
    return x;                                                                                          \
  }
RANNC_ROUNDING(round, __builtin_rint)  // the nearest, the even one of two; keeps the sign of 0, as the others do
RANNC_ROUNDING(floor, __builtin_floor)
RANNC_ROUNDING(ceil, __builtin_ceil)
RANNC_ROUNDING(trunc, __builtin_trunc)
#undef RANNC_ROUNDING
#endif

/// Functions of one register of floats. Coefficients are minimax fits over the interval that the comment beside them
/// names.
namespace part {

using F = Register<float>::Part;
using I = Register<float>::Bits;
typedef std::uint32_t U __attribute__((vector_size(RANNC_PART_BYTES)));  // for what wraps around

RANNC_INLINE F splat(float x) { return x - F{}; }
RANNC_INLINE I splat_int(std::int32_t x) { return x - I{}; }
RANNC_INLINE F magnitude(F x) { return (F)((I)x & INT32_MAX); }
RANNC_INLINE F with_sign(F size, F sign) { return (F)((I)size | ((I)sign & INT32_MIN)); }
// NaN passes both of them.
RANNC_INLINE F at_most(F x, float bound) { return lesser(splat(bound), x); }
RANNC_INLINE F at_least(F x, float bound) { return greater(splat(bound), x); }

constexpr float kSmallestNormal = 1.17549435e-38F;
constexpr float kLn2High = 0.693145752F;  // 15 bits: its product with an exponent is exact
constexpr float kLn2Low = 1.42860677e-06F;
constexpr float kLog2E = 1.44269504F;
constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: a sum with it is rounded to an integer, which its low bits hold

/// x = exponent * ln 2 + rest. The low 9 bits of `bits` hold exponent + bias.
struct Reduced {
  F exponent;
  F rest;
  U bits;
};
RANNC_INLINE Reduced reduce(F x, float bias) {
  const F shifted = x * kLog2E + (kShift + bias);
  const F exponent = shifted - (kShift + bias);
  return {exponent, (x - exponent * kLn2High) - exponent * kLn2Low, (U)shifted};
}
/// e^x - 1, |x| <= ln 2 / 2. In pairs, which wait less for each other than a chain does.
RANNC_INLINE F small_expm1(F x) {
  const F z = x * x;
  const F high = 0.00138703163F * z + (0.00836625602F * x + 0.041667439F);
  return (high * z + (0.166665465F * x + 0.49999997F)) * z + x;
}

RANNC_INLINE F exp(F x) {
  const Reduced of = reduce(at_least(at_most(x, 89.0F), -104.0F), 254.0F);
  const F mantissa = small_expm1(of.rest) + 1.0F;
  // 2^exponent may be no float: two factors, the second of which rounds to infinity or to a denormal number.
  const U half = of.bits >> 1;
  return mantissa * (F)(half << 23) * (F)((of.bits - half) << 23);
}

RANNC_INLINE F expm1(F x) {
  const Reduced of = reduce(at_least(at_most(x, 89.0F), -18.0F), 126.0F);
  const F power = (F)(of.bits << 23);  // half of 2^exponent, which may be 2^128
  const F result = power * small_expm1(of.rest) + (power - 0.5F);
  return magnitude(x) < splat(1e-10F) ? x : result + result;  // keeps -0 and denormal numbers
}

/// exponent * ln 2 + log(1 + f), where 1 + f lies between sqrt(1/2) and sqrt(2).
/// By s = f / (2 + f): log(1 + f) = 2 s + s^3 P(s^2) = f - (f^2 / 2 - s (f^2 / 2 + s^2 P)).
RANNC_INLINE F log_of(F exponent, F f) {
  const F s = f / (2.0F + f);
  const F z = s * s;
  const F tail = z * ((0.29870829F * z + 0.399775833F) * z + 0.666667759F);
  const F square = 0.5F * f * f;
  return exponent * kLn2High - ((square - (s * (square + tail) + exponent * kLn2Low)) - f);
}
constexpr std::uint32_t kSqrtHalf = 0x3f3504f3;  // bits of sqrt(1/2)
RANNC_INLINE I exponent_of(F x) { return (I)((U)x - kSqrtHalf) >> 23; }
RANNC_INLINE F mantissa_of(F x) { return (F)((((U)x - kSqrtHalf) & 0x7fffff) + kSqrtHalf); }
/// `result`, or the logarithm of x where x is 0, negative, infinite or NaN.
RANNC_INLINE F log_special(F x, F result) {
  const F special = x == splat(0.0F) ? splat(-INFINITY) : x < splat(0.0F) ? splat(NAN) : x;
  return ((x > splat(0.0F)) & (x < splat(INFINITY))) ? result : special;
}

RANNC_INLINE F log(F x) {
  const I denormal = x < splat(kSmallestNormal);
  const F scaled = denormal ? x * 8388608.0F : x;
  const I exponent = exponent_of(scaled) - (denormal & 23);
  return log_special(x, log_of(__builtin_convertvector(exponent, F), mantissa_of(scaled) - 1.0F));
}

RANNC_INLINE F log1p(F x) {
  const F sum = 1.0F + x;
  const F used = sum - 1.0F;
  const F lost = (1.0F - (sum - used)) + (x - used);  // sum + lost is 1 + x exactly
  const I exponent = exponent_of(sum);
  const F correction = x < splat(1e9F) ? lost * (F)(0x3f800000U - ((U)exponent << 23)) : splat(0.0F);
  const F result = log_of(__builtin_convertvector(exponent, F), (mantissa_of(sum) - 1.0F) + correction);
  return magnitude(x) < splat(1e-10F) ? x : log_special(sum, result);  // keeps -0
}

RANNC_INLINE F tanh(F x) {
  const F size = magnitude(x);
  // 1 - 2 / (e^2x + 1) away from 0.
  const Reduced of = reduce(at_most(size + size, 18.2F), 127.0F);
  const F power = (small_expm1(of.rest) + 1.0F) * (F)(of.bits << 23);
  const F far = 1.0F - 2.0F / (power + 1.0F);
  // x + x^3 P(x^2) up to 0.6.
  const F z = size * size;
  const F tail = (((-0.00589796668F * z + 0.0207986254F) * z - 0.0537847169F) * z + 0.133319363F) * z - 0.333332986F;
  const F near = size + size * (z * tail);
  return with_sign(size < splat(0.6F) ? near : far, x);
}

RANNC_INLINE F sigmoid(F x) { return 1.0F / (1.0F + exp(-x)); }

// erf(a + t) - erf(a) = t + t P(t) for a = 0, 0.5 … 3.5 and |t| <= 0.25 (up to 4 from the last): erf(a), then P.
alignas(64) constexpr float kErf[7][16] = {
    {0.0F, 0.520499885F, 0.842700779F, 0.966105163F, 0.995322287F, 0.999593019F, 0.999977887F, 0.999999285F, 0.0F,
     0.520499885F, 0.842700779F, 0.966105163F, 0.995322287F, 0.999593019F, 0.999977887F, 0.999999285F},
    {0.128379166F, -0.121217385F, -0.584892273F, -0.88106972F, -0.979333043F, -0.997821689F, -0.999860764F,
     -0.999994576F, 0.128379166F, -0.121217385F, -0.584892273F, -0.88106972F, -0.979333043F, -0.997821689F,
     -0.999860764F, -0.999994576F},
    {-5.05023422e-07F, -0.439391822F, -0.415106803F, -0.178399235F, -0.0413396247F, -0.00543754455F, -0.000411372108F,
     -2.16179342e-05F, -5.05023422e-07F, -0.439391822F, -0.415106803F, -0.178399235F, -0.0413396247F, -0.00543754455F,
     -0.000411372108F, -2.16179342e-05F},
    {-0.37609449F, -0.14647612F, 0.138327345F, 0.13875787F, 0.0482281707F, 0.00834746193F, 0.000790183723F,
     4.44447505e-05F, -0.37609449F, -0.14647612F, 0.138327345F, 0.13875787F, 0.0482281707F, 0.00834746193F,
     0.000790183723F, 4.44447505e-05F},
    {-0.000612345058F, 0.183069944F, 0.0691935867F, -0.0444610082F, -0.0342304334F, -0.00896990858F, -0.0013102846F,
     -3.39547078e-05F, -0.000612345058F, 0.183069944F, 0.0691935867F, -0.0444610082F, -0.0342304334F, -0.00896990858F,
     -0.0013102846F, -3.39547078e-05F},
    {0.117899515F, 0.00783371925F, -0.067653656F, -0.0152310226F, 0.0128236283F, 0.00618554559F, 0.00102272269F,
     1.69126997e-05F, 0.117899515F, 0.00783371925F, -0.067653656F, -0.0152310226F, 0.0128236283F, 0.00618554559F,
     0.00102272269F, 1.69126997e-05F},
    {-0.0189924408F, -0.0491703078F, 0.00404229295F, 0.0178792085F, -0.00152008759F, 0.000918332255F, 0.00203864858F,
     -3.81966347e-05F, -0.0189924408F, -0.0491703078F, 0.00404229295F, 0.0178792085F, -0.00152008759F, 0.000918332255F,
     0.00203864858F, -3.81966347e-05F},
};
/// Numbers of a table of 8, by the low 3 bits of index.
RANNC_INLINE F lookup(const float (&table)[16], I index) {
  F numbers;
  __builtin_memcpy(&numbers, table, sizeof numbers);
#if RANNC_PART_BYTES == 16
  const I low = index & 7;
  for (int i = 0; i < kPartLanes<float>; ++i) numbers[i] = table[low[i]];
  return numbers;
#elif !defined(__clang__)
  return __builtin_shuffle(numbers, index);
#elif RANNC_PART_BYTES == 32
  return __builtin_ia32_permvarsf256(numbers, index);
#else
  return __builtin_ia32_permvarsf512(numbers, index);
#endif
}
RANNC_INLINE F erf(F x) {
  const F size = at_most(magnitude(x), 4.0F);
  constexpr float kHalves = 6291456.0F;  // 1.5 * 2^22: a sum with it is rounded to a multiple of 0.5
  const F shifted = at_most(size, 3.7F) + kHalves;
  const F t = size - (shifted - kHalves);
  const I index = (I)shifted;
  const F z = t * t;
  const F third = lookup(kErf[6], index) * t + lookup(kErf[5], index);
  const F second = lookup(kErf[4], index) * t + lookup(kErf[3], index);
  const F first = lookup(kErf[2], index) * t + lookup(kErf[1], index);
  const F tail = (third * z + second) * z + first;
  return with_sign(lookup(kErf[0], index) + (t + tail * t), x);
}

/// The sine of x plus that many quarters of a turn, for |x| <= kLargeAngle. x = turns * pi / 2 + rest.
constexpr float kLargeAngle = 8192.0F;
RANNC_INLINE F wave(F x, std::uint32_t quarters) {
  const F shifted = x * 0.636619772F + kShift;
  const F turns = shifted - kShift;
  const U quarter = (U)shifted + quarters;
  // The first three parts of pi / 2 have 11 bits, so `near` is exact and `rest` is rounded once.
  const F near = (x - turns * 1.5703125F) - turns * 0.000483751297F;
  const F third = turns * 7.54953362e-08F;
  const F closer = near - third;
  const F rest = closer + (((near - closer) - third) - turns * 2.56334415e-12F);
  const F z = rest * rest;
  const F sine = rest + rest * (z * ((-0.000195179062F * z + 0.00833218731F) * z - 0.166666552F));
  const F cosine = (1.0F - 0.5F * z) + z * z * ((2.44323273e-05F * z - 0.00138873095F) * z + 0.0416666456F);
  const F size = (quarter & 1) == 0 ? sine : cosine;
  return (F)((U)size ^ ((quarter & 2) << 30));
}
RANNC_INLINE F sin(F x) { return magnitude(x) < splat(1e-10F) ? x : wave(x, 0); }  // keeps -0
RANNC_INLINE F cos(F x) { return wave(x, 1); }

using D = Register<double>::Part;
typedef std::uint64_t UnsignedD __attribute__((vector_size(RANNC_PART_BYTES)));
typedef float HalfF __attribute__((vector_size(RANNC_PART_BYTES / 2)));

RANNC_INLINE F join(HalfF first, HalfF second) {
#if RANNC_PART_BYTES == 16
  return __builtin_shufflevector(first, second, 0, 1, 2, 3);
#elif RANNC_PART_BYTES == 32
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
}

/// (1 + f)^y * 2^(exponent * y) in double, where the last rounding is the one to float.
RANNC_INLINE HalfF positive_pow(HalfF exponent, HalfF f, HalfF y) {
  const D wide = __builtin_convertvector(f, D);
  const D s = wide / (2.0 + wide);
  const D z = s * s;
  const D z2 = z * z;
  const D tail = z2 * (0.34075857587493608 * z + 0.41167125875513144) + (0.57708360779535417 * z + 0.96179667323221141);
  const D log2 = __builtin_convertvector(exponent, D) + s * (tail * z + 2.8853900817901583);
  const D power = greater(-200.0 - D{}, lesser(200.0 - D{}, log2 * __builtin_convertvector(y, D)));
  constexpr double kShift64 = 6755399441055744.0 + 1023.0;  // 1.5 * 2^52, and the bias of exponents
  const D shifted = power + kShift64;
  const D r = power - (shifted - kShift64);
  const D r2 = r * r;
  const D high = 0.00015353341047072075 * r + 0.0013398900239776808;
  const D middle = 0.0096184376066051971 * r + 0.055503324094741846;
  const D low = 0.24022647910278311 * r + 0.6931472028810548;
  const D rest = ((high * r2 + middle) * r2 + low) * r;
  return __builtin_convertvector((rest + 1.0) * (D)((UnsignedD)shifted << 52), HalfF);
}

/// |x|^y of a finite x that isn't 0.
RANNC_INLINE F pow_of_size(F size, F y) {
  const I denormal = size < splat(kSmallestNormal);
  const F scaled = denormal ? size * 8388608.0F : size;
  const F exponent = __builtin_convertvector(exponent_of(scaled) - (denormal & 23), F);
  const F f = mantissa_of(scaled) - 1.0F;
  HalfF exponents[2], fs[2], ys[2];
  __builtin_memcpy(exponents, &exponent, RANNC_PART_BYTES);
  __builtin_memcpy(fs, &f, RANNC_PART_BYTES);
  __builtin_memcpy(ys, &y, RANNC_PART_BYTES);
  for (int i = 0; i < 2; ++i) fs[i] = positive_pow(exponents[i], fs[i], ys[i]);
  return join(fs[0], fs[1]);
}
/// Whether a number >= 0 is an integer.
RANNC_INLINE I is_whole(F size) {
  constexpr float kInteger = Register<float>::kInteger;
  return (size >= splat(kInteger)) | ((size + kInteger) - kInteger == size);
}
RANNC_INLINE F pow(F x, F y) {
  const F size = magnitude(x), infinity = splat(INFINITY), zero = splat(0.0F), one = splat(1.0F);
  const I whole = is_whole(magnitude(y)), odd = whole & ~is_whole(0.5F * magnitude(y));
  const I none = size == zero, all = size == infinity;
  F result = pow_of_size(size, y);
  const F edge = ((none & (y < zero)) | (all & (y > zero))) ? infinity : zero;
  result = ((none | all) & (y == y)) ? edge : result;
  result = ((size == one) & (y == y)) ? one : result;  // with y infinite too
  result = (F)((I)result ^ (odd & (I)x & INT32_MIN));
  result = ((x < zero) & ~all & ~whole) ? splat(NAN) : result;
  result = x != x ? x : result;
  return ((y == zero) | (x == one)) ? one : result;
}

}  // namespace part

#define RANNC_FUNCTION(name)                                            \
  RANNC_INLINE Vec<float> name(Vec<float> x) {                          \
    for (int i = 0; i < kParts; ++i) x.part[i] = part::name(x.part[i]); \
    return x;                                                           \
  }                                                                     \
  RANNC_LIBRARY_FUNCTION(name)
#define RANNC_LIBRARY_FUNCTION(name)                          \
  RANNC_INLINE Vec<double> name(Vec<double> x) {              \
    double lanes[Vec<double>::kLanes];                        \
    store(lanes, x);                                          \
    for (double& lane : lanes) lane = __builtin_##name(lane); \
    return load(lanes);                                       \
  }
RANNC_FUNCTION(exp)
RANNC_FUNCTION(expm1)
RANNC_FUNCTION(log)
RANNC_FUNCTION(log1p)
RANNC_FUNCTION(tanh)
RANNC_FUNCTION(erf)
#undef RANNC_FUNCTION

/// 1 / (1 + exp(-x)).
template <typename T>
RANNC_INLINE Vec<T> sigmoid(Vec<T> x) {
  return T(1) / (T(1) + exp(-x));
}

// Angles that are too large for the reduction, which are rare, go to the C library.
#define RANNC_WAVE(name)                                                     \
  RANNC_INLINE Vec<float> name(Vec<float> x) {                               \
    Vec<float> result;                                                       \
    for (int i = 0; i < kParts; ++i) result.part[i] = part::name(x.part[i]); \
    if (__builtin_expect(any(abs(x) > part::kLargeAngle), 0)) {              \
      float from[Vec<float>::kLanes], to[Vec<float>::kLanes];                \
      store(from, x);                                                        \
      store(to, result);                                                     \
      for (int i = 0; i < Vec<float>::kLanes; ++i)                           \
        if (__builtin_fabsf(from[i]) > part::kLargeAngle)                    \
          to[i] = static_cast<float>(__builtin_##name(double(from[i])));     \
      result = load(to);                                                     \
    }                                                                        \
    return result;                                                           \
  }                                                                          \
  RANNC_LIBRARY_FUNCTION(name)
RANNC_WAVE(sin)
RANNC_WAVE(cos)
#undef RANNC_WAVE
#undef RANNC_LIBRARY_FUNCTION

RANNC_INLINE Vec<float> pow(Vec<float> x, Vec<float> y) {
  for (int i = 0; i < kParts; ++i) x.part[i] = part::pow(x.part[i], y.part[i]);
  return x;
}
RANNC_INLINE Vec<double> pow(Vec<double> x, Vec<double> y) {
  double xs[Vec<double>::kLanes], ys[Vec<double>::kLanes];
  store(xs, x);
  store(ys, y);
  for (int i = 0; i < Vec<double>::kLanes; ++i) xs[i] = __builtin_pow(xs[i], ys[i]);
  return load(xs);
}

}  // namespace RANNC_VARIANT
}  // namespace rannc::native
