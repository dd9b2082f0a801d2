// A library of a user's operator as LibTorch wants it: a kernel, a meta kernel, an autograd formula.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

/// x / (1 + |x - scale|), with a scale for each feature, which is the last axis.
at::Tensor soft_step(const at::Tensor& x, const at::Tensor& scale) { return x / (1 + (x - scale).abs()); }

at::Tensor soft_step_meta(const at::Tensor& x, const at::Tensor& scale) {
  TORCH_CHECK(x.dim() > 0 && scale.dim() == 1 && x.sym_size(-1) == scale.sym_size(0), "a scale for each feature");
  return at::empty_like(x);
}

at::Tensor call(const at::Tensor& x, const at::Tensor& scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("rannc_test::soft_step", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(x, scale);
}

struct SoftStep : torch::autograd::Function<SoftStep> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& scale) {
    context->save_for_backward({x, scale});
    return call(x, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor distance = saved[0] - saved[1], below = 1 + distance.abs();
    const at::Tensor bent = gradients[0] * saved[0] * distance.sign() / (below * below);
    return {gradients[0] / below - bent, bent.sum_to_size(saved[1].sizes())};
  }
};

at::Tensor soft_step_autograd(const at::Tensor& x, const at::Tensor& scale) { return SoftStep::apply(x, scale); }

}  // namespace

TORCH_LIBRARY(rannc_test, library) { library.def("soft_step(Tensor x, Tensor scale) -> Tensor"); }
TORCH_LIBRARY_IMPL(rannc_test, CPU, library) { library.impl("soft_step", soft_step); }
TORCH_LIBRARY_IMPL(rannc_test, Meta, library) { library.impl("soft_step", soft_step_meta); }
TORCH_LIBRARY_IMPL(rannc_test, Autograd, library) { library.impl("soft_step", soft_step_autograd); }
