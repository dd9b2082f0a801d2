// Folding rules of elementwise operators.
#include <algorithm>
#include <functional>

#include "ir/op/folding/fold.h"
#include "ir/op/folding/fold_walk.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::fold {

namespace {

// f(a, b) of every pair of a broadcast operation.
template <class F>
Numbers binary(const FoldCall& call, F&& f) {
  const Sizes to = call.out_shape();
  const Sizes a = broadcast_strides(call.in(0).shape, to), b = broadcast_strides(call.in(1).shape, to);
  Numbers out;
  for_each_index(to, [&](const Sizes& index) {
    out.push_back(f(call.in(0).data[dot(index, a)], call.in(1).data[dot(index, b)]));
  });
  return out;
}

template <class F>
Numbers unary(const FoldCall& call, F&& f) {
  Numbers out;
  for (const int64_t x : call.in(0).data) out.push_back(f(x));
  return out;
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t floor_remainder(int64_t a, int64_t b) { return a - floor_quotient(a, b) * b; }

int64_t power(int64_t base, int64_t exponent) {
  uint64_t out = 1;
  for (uint64_t factor = u(base); exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) out *= factor;
  }
  return wrap(out);
}

// f(a, b). Fails for the divisor 0. Uses `of_minus_one(a)` for the divisor -1, because the processor may trap.
template <class F, class G>
Numbers quotients(FoldCall& call, F&& f, G&& of_minus_one) {
  return binary(call, [&](int64_t a, int64_t b) -> int64_t {
    call.failed = call.failed || b == 0;
    return b == 0 ? 0 : b == -1 ? of_minus_one(a) : f(a, b);
  });
}

}  // namespace

Numbers add(FoldCall& call) {
  return binary(call, [](int64_t a, int64_t b) { return wrap(u(a) + u(b)); });
}
Numbers sub(FoldCall& call) {
  return binary(call, [](int64_t a, int64_t b) { return wrap(u(a) - u(b)); });
}
Numbers mul(FoldCall& call) {
  return binary(call, [](int64_t a, int64_t b) { return wrap(u(a) * u(b)); });
}

Numbers div(FoldCall& call) {
  const auto negated = [](int64_t a) { return wrap(0 - u(a)); };
  if (call.attributes.text("rounding") == "floor") return quotients(call, floor_quotient, negated);
  return quotients(
      call, [](int64_t a, int64_t b) { return a / b; }, negated);
}

Numbers mod(FoldCall& call) {
  return quotients(call, floor_remainder, [](int64_t) { return 0; });
}

Numbers fmod(FoldCall& call) {
  return quotients(
      call, [](int64_t a, int64_t b) { return a % b; }, [](int64_t) { return 0; });
}

// For two types ATen chooses that of the operand with axes, which is not always the wider.
Numbers pow(FoldCall& call) {
  const DType dtype = call.in(0).dtype;
  call.failed = dtype == DType::kBool || call.in(1).dtype != dtype;
  return binary(call, [&](int64_t a, int64_t b) {
    call.failed = call.failed || b < 0;
    return power(a, b);
  });
}

Numbers maximum(FoldCall& call) {
  return binary(call, [](int64_t a, int64_t b) { return std::max(a, b); });
}
Numbers minimum(FoldCall& call) {
  return binary(call, [](int64_t a, int64_t b) { return std::min(a, b); });
}
Numbers eq(FoldCall& call) { return binary(call, std::equal_to<int64_t>()); }
Numbers ne(FoldCall& call) { return binary(call, std::not_equal_to<int64_t>()); }
Numbers lt(FoldCall& call) { return binary(call, std::less<int64_t>()); }
Numbers le(FoldCall& call) { return binary(call, std::less_equal<int64_t>()); }
Numbers gt(FoldCall& call) { return binary(call, std::greater<int64_t>()); }
Numbers ge(FoldCall& call) { return binary(call, std::greater_equal<int64_t>()); }
Numbers logical_and(FoldCall& call) { return binary(call, std::logical_and<int64_t>()); }
Numbers logical_or(FoldCall& call) { return binary(call, std::logical_or<int64_t>()); }
Numbers logical_xor(FoldCall& call) { return binary(call, std::not_equal_to<int64_t>()); }

Numbers bitwise_and(FoldCall& call) { return binary(call, std::bit_and<int64_t>()); }
Numbers bitwise_or(FoldCall& call) { return binary(call, std::bit_or<int64_t>()); }
Numbers bitwise_xor(FoldCall& call) { return binary(call, std::bit_xor<int64_t>()); }
Numbers bitwise_not(FoldCall& call) { return unary(call, std::bit_not<int64_t>()); }

Numbers neg(FoldCall& call) {
  return unary(call, [](int64_t x) { return wrap(0 - u(x)); });
}
Numbers abs(FoldCall& call) {
  return unary(call, [](int64_t x) { return x < 0 ? wrap(0 - u(x)) : x; });
}
Numbers relu(FoldCall& call) {
  return unary(call, [](int64_t x) { return std::max<int64_t>(x, 0); });
}
Numbers sign(FoldCall& call) {
  return unary(call, [](int64_t x) { return (x > 0) - (x < 0); });
}
Numbers logical_not(FoldCall& call) { return unary(call, std::logical_not<int64_t>()); }
Numbers identity(FoldCall& call) { return call.in(0).data; }

// If the bounds cross, the upper one wins.
Numbers clamp(FoldCall& call) {
  const auto bound = [&](std::string_view name, int64_t otherwise) {
    const Attribute* given = call.attributes.find(name);
    if (given == nullptr) return otherwise;
    const auto number = integer_element(*given, call.outputs[0].dtype);
    call.failed = call.failed || !number;
    return number.value_or(otherwise);
  };
  const int64_t low = bound("min", INT64_MIN), high = bound("max", INT64_MAX);
  return unary(call, [&](int64_t x) { return std::min(std::max(x, low), high); });
}

// A cast to bool compares with zero. Casts to integer types narrow when the bytes are written.
Numbers cast(FoldCall& call) {
  if (call.outputs[0].dtype != DType::kBool) return call.in(0).data;
  return unary(call, [](int64_t x) { return x != 0; });
}

Numbers where(FoldCall& call) {
  const Sizes to = call.out_shape();
  Sizes strides[3];
  for (size_t i = 0; i < 3; ++i) strides[i] = broadcast_strides(call.in(i).shape, to);
  Numbers out;
  for_each_index(to, [&](const Sizes& index) {
    const size_t chosen = call.in(0).data[dot(index, strides[0])] ? 1 : 2;
    out.push_back(call.in(chosen).data[dot(index, strides[chosen])]);
  });
  return out;
}

}  // namespace rannc::ir::ops::fold
