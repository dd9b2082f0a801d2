#include "tests/codegen/native/speed_cases.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace rannc::native_kernels {
namespace {

struct Tensors {
  at::Tensor x, positive, out;
};
using Shared = std::shared_ptr<Tensors>;

template <typename Kernel>
auto named(const Kernel* kernels, int count, const char* name) {
  return std::find_if(kernels, kernels + count, [&](const Kernel& k) { return std::strcmp(k.name, name) == 0; })->run;
}

template <typename Operator>
SpeedCase unary(const char* name, Operator theirs, at::Tensor Tensors::*x, const Shared& tensors) {
  return {name, [=] { theirs(tensors->out, (*tensors).*x); },
          [=](const Kernels& k) {
            const at::Tensor& from = (*tensors).*x;
            named(k.of_float.unary, k.of_float.unary_count, name)(from.const_data_ptr<float>(),
                                                                  tensors->out.mutable_data_ptr<float>(), from.numel());
          }};
}
#define RANNC_UNARY(name, x) \
  unary(                     \
      #name, [](at::Tensor& to, const at::Tensor& from) { at::name##_out(to, from); }, &Tensors::x, tensors)

template <typename Operator>
SpeedCase binary(const char* name, Operator theirs, at::Tensor Tensors::*x, at::Tensor Tensors::*y,
                 const Shared& tensors) {
  return {name, [=] { theirs(tensors->out, (*tensors).*x, (*tensors).*y); },
          [=](const Kernels& k) {
            const at::Tensor &first = (*tensors).*x, &second = (*tensors).*y;
            named(k.of_float.binary, k.of_float.binary_count, name)(
                first.const_data_ptr<float>(), second.const_data_ptr<float>(), tensors->out.mutable_data_ptr<float>(),
                first.numel());
          }};
}

SpeedCase layer_norm(const Shared& tensors) {
  const std::int64_t columns = tensors->x.size(1);
  const at::Tensor weight = at::rand({columns}), bias = at::rand({columns});
  return {"layer_norm", [=] { at::native_layer_norm(tensors->x, {columns}, weight, bias, 1e-5); },
          [=](const Kernels& k) {
            k.of_float.others->layer_norm(tensors->x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                                          bias.const_data_ptr<float>(), tensors->out.mutable_data_ptr<float>(),
                                          tensors->x.size(0), columns);
          }};
}

}  // namespace

std::vector<SpeedCase> speed_cases(std::int64_t rows, std::int64_t columns) {
  using at::Tensor;
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto tensors = std::make_shared<Tensors>();
  tensors->x = at::rand({rows, columns}) * 6 - 3;
  tensors->positive = at::rand({rows, columns}) * 3 + 0.1;
  tensors->out = at::empty_like(tensors->x);
  return {
      RANNC_UNARY(exp, x),
      RANNC_UNARY(expm1, x),
      RANNC_UNARY(log, positive),
      RANNC_UNARY(log1p, positive),
      RANNC_UNARY(tanh, x),
      RANNC_UNARY(erf, x),
      RANNC_UNARY(sigmoid, x),
      RANNC_UNARY(sin, x),
      RANNC_UNARY(cos, x),
      RANNC_UNARY(rsqrt, positive),
      RANNC_UNARY(floor, x),
      binary(
          "max", [](Tensor& to, const Tensor& a, const Tensor& b) { at::maximum_out(to, a, b); }, &Tensors::x,
          &Tensors::positive, tensors),
      binary(
          "pow", [](Tensor& to, const Tensor& a, const Tensor& b) { at::pow_out(to, a, b); }, &Tensors::positive,
          &Tensors::x, tensors),
      RANNC_UNARY(gelu, x),
      binary(
          "gelu_gradient", [](Tensor& to, const Tensor& a, const Tensor& b) { at::gelu_backward_out(to, b, a); },
          &Tensors::x, &Tensors::positive, tensors),
      layer_norm(tensors),
  };
}

}  // namespace rannc::native_kernels
