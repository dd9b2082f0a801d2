// Compiled once per instruction set, with RANNC_KERNELS the name of its table.
#include "tests/codegen/native/kernels.h"

#include "codegen/native/products.h"
#include "codegen/native/vector_math.h"

namespace rannc::native_kernels {
namespace {

using native::load;
using native::load_as;
using native::load_mask;
using native::Mask;
using native::store;
using native::Vec;

#define RANNC_NAME(variant) RANNC_TEXT(variant)
#define RANNC_TEXT(variant) #variant

/// The loop that the generator emits: whole vectors, then a tail. `whole` and `tail` take the place and, for the tail,
/// the count.
template <typename T, typename Whole, typename Tail>
void each(std::int64_t count, Whole whole, Tail tail) {
  std::int64_t i = 0;
  for (; i + Vec<T>::kLanes <= count; i += Vec<T>::kLanes) whole(i);
  if (i < count) tail(i, count - i);
}

#define RANNC_UNARY(name, expression)                                                       \
  {                                                                                         \
    name, [](const T* from, T* to, std::int64_t count) {                                    \
      const auto f = [](Vec<T> x) __attribute__((always_inline)) { return expression; };    \
      each<T>(                                                                              \
          count, [&](std::int64_t i) { store(to + i, f(load(from + i))); },                 \
          [&](std::int64_t i, std::int64_t n) { store(to + i, f(load(from + i, n)), n); }); \
    }                                                                                       \
  }
#define RANNC_BINARY(name, expression)                                                                        \
  {                                                                                                           \
    name, [](const T* xs, const T* ys, T* to, std::int64_t count) {                                           \
      const auto f = [](Vec<T> x, Vec<T> y) __attribute__((always_inline)) { return expression; };            \
      each<T>(                                                                                                \
          count, [&](std::int64_t i) { store(to + i, f(load(xs + i), load(ys + i))); },                       \
          [&](std::int64_t i, std::int64_t n) { store(to + i, f(load(xs + i, n), load(ys + i, n, 1)), n); }); \
    }                                                                                                         \
  }

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)

template <typename T>
constexpr Unary<T> kUnary[] = {
    RANNC_UNARY("negate", -x),
    RANNC_UNARY("add_minus_zero", x + -0.0),
    RANNC_UNARY("abs", abs(x)),
    RANNC_UNARY("sqrt", sqrt(x)),
    RANNC_UNARY("rsqrt", rsqrt(x)),
    RANNC_UNARY("floor", floor(x)),
    RANNC_UNARY("ceil", ceil(x)),
    RANNC_UNARY("trunc", trunc(x)),
    RANNC_UNARY("round", round(x)),
    RANNC_UNARY("relu", relu(x)),
    RANNC_UNARY("exp", exp(x)),
    RANNC_UNARY("expm1", expm1(x)),
    RANNC_UNARY("log", log(x)),
    RANNC_UNARY("log1p", log1p(x)),
    RANNC_UNARY("tanh", tanh(x)),
    RANNC_UNARY("erf", erf(x)),
    RANNC_UNARY("sigmoid", sigmoid(x)),
    RANNC_UNARY("sin", sin(x)),
    RANNC_UNARY("cos", cos(x)),
    RANNC_UNARY("gelu", 0.5 * x * (1 + erf(x * kSqrtHalf))),
    RANNC_UNARY("polynomial", (x * 3 - 0.1) * x + 1 / (x + 2)),
};

template <typename T>
constexpr Binary<T> kBinary[] = {
    RANNC_BINARY("add", x + y),
    RANNC_BINARY("subtract", x - y),
    RANNC_BINARY("multiply", x* y),
    RANNC_BINARY("divide", x / y),
    RANNC_BINARY("min", min(x, y)),
    RANNC_BINARY("max", max(x, y)),
    RANNC_BINARY("copysign", copysign(x, y)),
    RANNC_BINARY("less", select(x < y, 1, 0)),
    RANNC_BINARY("less_equal", select(x <= y, 1, 0)),
    RANNC_BINARY("greater", select(x > y, 1, 0)),
    RANNC_BINARY("greater_equal", select(x >= y, 1, 0)),
    RANNC_BINARY("equal", select(x == y, 1, 0)),
    RANNC_BINARY("not_equal", select(x != y, 1, 0)),
    RANNC_BINARY("pow", pow(x, y)),
    RANNC_BINARY("gelu_gradient", y*(0.5 * (1 + erf(x * kSqrtHalf)) + x * kDensity * exp(-0.5 * x * x))),
};

template <typename T>
constexpr Reduction<T> kReduction[] = {
    {"sum", [](const T* lanes) { return lane_sum(load(lanes)); }},
    {"max", [](const T* lanes) { return lane_max(load(lanes)); }},
    {"min", [](const T* lanes) { return lane_min(load(lanes)); }},
};

template <typename T>
void keep(const std::uint8_t* mask, const T* x, T* to, std::int64_t count) {
  each<T>(
      count, [&](std::int64_t i) { store(to + i, select(load_mask<T>(mask + i), load(x + i), 0)); },
      [&](std::int64_t i, std::int64_t n) { store(to + i, select(load_mask<T>(mask + i, n), load(x + i, n), 0), n); });
}

template <typename T>
Mask<T> logic_of(Vec<T> x, Vec<T> y) {
  return ((x < y) & !(x == 0)) | (isnan(x) ^ (y >= 3));
}
template <typename T>
void logic(const T* x, const T* y, std::uint8_t* to, std::int64_t count) {
  each<T>(
      count, [&](std::int64_t i) { store(to + i, logic_of(load(x + i), load(y + i))); },
      [&](std::int64_t i, std::int64_t n) { store(to + i, logic_of(load(x + i, n), load(y + i, n)), n); });
}

template <typename T>
bool any_positive(const T* lanes) {
  return any(load(lanes) > 0);
}

template <typename T, typename S>
void convert(const S* from, T* to, std::int64_t count) {
  each<T>(
      count, [&](std::int64_t i) { store(to + i, load_as<T>(from + i)); },
      [&](std::int64_t i, std::int64_t n) { store(to + i, load_as<T>(from + i, n), n); });
}
template <typename S, typename T>
void convert_to(const T* from, S* to, std::int64_t count) {
  each<T>(
      count, [&](std::int64_t i) { native::store_as(to + i, load(from + i)); },
      [&](std::int64_t i, std::int64_t n) { native::store_as(to + i, load(from + i, n), n); });
}

template <typename T>
void fill(const T* from, T* lanes, std::int64_t count) {
  const Vec<T> loaded = load(from, count, 7);
  store(lanes, select(native::first_lanes<T>(count), loaded, loaded + native::lane_numbers<T>()));
}

template <typename T>
void layer_norm(const T* x, const T* weight, const T* bias, T* to, std::int64_t rows, std::int64_t columns) {
  constexpr int kLanes = Vec<T>::kLanes;
  for (std::int64_t row = 0; row < rows; ++row, x += columns, to += columns) {
    Vec<T> total = 0;
    for (std::int64_t i = 0; i < columns; i += kLanes) total += load(x + i);
    const T mean = lane_sum(total) / static_cast<T>(columns);
    Vec<T> squares = 0;
    for (std::int64_t i = 0; i < columns; i += kLanes) {
      const Vec<T> centered = load(x + i) - mean;
      squares += centered * centered;
    }
    const T variance = lane_sum(squares) / static_cast<T>(columns);
    const Vec<T> scale = rsqrt(Vec<T>(variance) + 1e-5);
    for (std::int64_t i = 0; i < columns; i += kLanes)
      store(to + i, (load(x + i) - mean) * scale * load(weight + i) + load(bias + i));
  }
}

template <typename T>
constexpr Others<T> kOthers = {
    keep<T>,
    logic<T>,
    any_positive<T>,
    convert<T, std::int64_t>,
    convert<T, std::int32_t>,
    convert<T, std::uint8_t>,
    convert<T, double>,
    convert_to<std::int64_t, T>,
    convert_to<float, T>,
    fill<T>,
    layer_norm<T>,
};

template <typename T>
constexpr Table<T> table() {
  return {
      kUnary<T>,     sizeof(kUnary<T>) / sizeof(Unary<T>),         kBinary<T>,  sizeof(kBinary<T>) / sizeof(Binary<T>),
      kReduction<T>, sizeof(kReduction<T>) / sizeof(Reduction<T>), &kOthers<T>, Vec<T>::kLanes};
}
constexpr Kernels kKernels = {RANNC_NAME(RANNC_VARIANT), table<float>(), table<double>(), &native::kProducts};

}  // namespace

const Kernels* RANNC_KERNELS() { return &kKernels; }

}  // namespace rannc::native_kernels
