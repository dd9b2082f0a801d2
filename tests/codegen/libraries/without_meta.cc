// A library of user's operators that nobody can ask for shapes: kernels alone.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

/// Each row and its mirror image, one behind the other.
at::Tensor mirrored(const at::Tensor& x, double scale) { return at::cat({x, x.flip({-1}) * scale}, -1); }

struct Mirrored : torch::autograd::Function<Mirrored> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double scale) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("rannc_bare::mirrored", "")
                               .typed<at::Tensor(const at::Tensor&, double)>();
    context->saved_data["scale"] = scale;
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(x, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto halves = gradients[0].chunk(2, -1);
    return {halves[0] + halves[1].flip({-1}) * context->saved_data["scale"].toDouble(), at::Tensor()};
  }
};

at::Tensor mirrored_autograd(const at::Tensor& x, double scale) { return Mirrored::apply(x, scale); }

/// Distances of the samples from the mean of all of them.
at::Tensor centred(const at::Tensor& x) { return x - x.mean(0, true); }

/// The sum of squares.
at::Tensor energy(const at::Tensor& x) { return (x * x).sum(); }

/// Half of it. It has no autograd formula.
at::Tensor halved(const at::Tensor& x) { return x / 2; }

/// As many rows as the data say.
at::Tensor positive_rows(const at::Tensor& x) { return x.index({x.select(1, 0) > 0}); }

/// Doubles in place.
at::Tensor& twice_(at::Tensor& x) { return x.mul_(2); }

}  // namespace

TORCH_LIBRARY(rannc_bare, library) {
  library.def("mirrored(Tensor x, float scale=1.0) -> Tensor");
  library.def("centred(Tensor x) -> Tensor");
  library.def("energy(Tensor x) -> Tensor");
  library.def("halved(Tensor x) -> Tensor");
  library.def("positive_rows(Tensor x) -> Tensor");
  library.def("twice_(Tensor(a!) x) -> Tensor(a!)");
  library.def("say(str text) -> ()");
}
TORCH_LIBRARY_IMPL(rannc_bare, CPU, library) {
  library.impl("mirrored", mirrored);
  library.impl("centred", centred);
  library.impl("energy", energy);
  library.impl("halved", halved);
  library.impl("positive_rows", positive_rows);
  library.impl("twice_", twice_);
}
TORCH_LIBRARY_IMPL(rannc_bare, Autograd, library) { library.impl("mirrored", mirrored_autograd); }
