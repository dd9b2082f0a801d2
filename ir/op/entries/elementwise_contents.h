/// Elementwise operators on known contents of integer values. They return nothing if the result is unknown. Private to
/// ir/op.
#pragma once

#include <optional>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

inline std::optional<Dim> safe_div(const Dim& a, const Dim& b) {
  if (b == Dim(0) || (b == Dim(-1) && a == Dim(INT64_MIN))) return std::nullopt;
  return floor_div(a, b);
}
inline std::optional<Dim> truncated_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant() && b.constant() != 0 && b.constant() != -1) {
    return a.constant() / b.constant();
  }
  const auto sign_a = sign(a), sign_b = sign(b);
  if (!sign_a || !sign_b || *sign_b == 0) return std::nullopt;
  if (a == Dim(INT64_MIN) || b == Dim(INT64_MIN)) return std::nullopt;
  if (*sign_a * *sign_b >= 0) return floor_div(a, b);
  return Dim(0) - floor_div(Dim(0) - a, b);
}
inline std::optional<Dim> safe_mod(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  return mod(a, b);
}
/// Remainder with the dividend's sign.
inline std::optional<Dim> truncated_mod(const Dim& a, const Dim& b) {
  const auto quotient = truncated_div(a, b);
  return quotient ? std::optional(minus(a, times(*quotient, b))) : std::nullopt;
}
inline std::optional<Dim> larger_of(const Dim& a, const Dim& b) { return larger(a, b); }
inline std::optional<Dim> smaller_of(const Dim& a, const Dim& b) { return smaller(a, b); }
inline std::optional<Dim> power(const Dim& a, const Dim& b) {
  if (!b.is_constant() || b.constant() < 0 || b.constant() > 16) return std::nullopt;
  Dim out = 1;
  for (int64_t i = 0; i < b.constant(); ++i) out = times(out, a);
  return out;
}

template <int kLess, int kEqual, int kGreater>
std::optional<Dim> compare(const Dim& a, const Dim& b) {
  if (a == b) return Dim(kEqual);
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() < b.constant() ? kLess : kGreater);
  const Dim difference = a - b;
  const auto s = sign(difference);
  if (s) return Dim(*s < 0 ? kLess : *s == 0 ? kEqual : kGreater);
  if (kLess == kEqual && never_positive(difference)) return Dim(kLess);
  if (kGreater == kEqual && never_negative(difference)) return Dim(kGreater);
  return std::nullopt;
}

inline std::optional<Dim> sum_of(const Dim& a, const Dim& b) { return plus(a, b); }
inline std::optional<Dim> difference_of(const Dim& a, const Dim& b) { return minus(a, b); }
inline std::optional<Dim> product_of(const Dim& a, const Dim& b) { return times(a, b); }
inline std::optional<Dim> both(const Dim& a, const Dim& b) { return a * b; }
inline std::optional<Dim> either(const Dim& a, const Dim& b) { return a + b - a * b; }
inline std::optional<Dim> one_of(const Dim& a, const Dim& b) { return a + b - Dim(2) * a * b; }
inline std::optional<Dim> none_of(const Dim& x) { return Dim(1) - x; }
inline std::optional<Dim> negative(const Dim& x) { return minus(0, x); }
inline std::optional<Dim> absolute(const Dim& x) {
  const auto s = sign(x);
  return s ? std::optional(*s < 0 ? minus(0, x) : x) : std::nullopt;
}
inline std::optional<Dim> rectified(const Dim& x) {
  const auto s = sign(x);
  return s ? std::optional(*s < 0 ? Dim(0) : x) : std::nullopt;
}
inline std::optional<Dim> sign_of(const Dim& x) {
  const auto s = sign(x);
  return s ? std::optional(Dim(*s)) : std::nullopt;
}

}  // namespace rannc::ir::ops
