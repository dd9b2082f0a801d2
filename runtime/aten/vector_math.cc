#include "runtime/aten/vector_math.h"

#include <ATen/ATen.h>

#include <mutex>
#include <thread>

namespace rannc::runtime {
namespace {

void call_each() {
  using Function = at::Tensor (*)(const at::Tensor&);
  constexpr Function kFunctions[] = {at::acos,  at::asin,   at::atan, at::cos,   at::cosh,    at::digamma, at::erf,
                                     at::erfc,  at::erfinv, at::exp,  at::exp2,  at::expm1,   at::lgamma,  at::log,
                                     at::log10, at::log1p,  at::log2, at::rsqrt, at::sigmoid, at::sin,     at::sinh,
                                     at::sqrt,  at::tan,    at::tanh, at::trunc};
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor half = at::full({1}, 0.5, type);
    for (const Function function : kFunctions) function(half);
  }
}

}  // namespace

void resolve_vector_math() {
  static std::once_flag once;
  std::call_once(once, [] { std::thread(call_each).join(); });  // no mode of the caller's thread applies
}

}  // namespace rannc::runtime
