// Counts floating-point operations from the shapes of an operator's inputs.
#include "tools/measure/product_work.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>

namespace rannc::tools {

namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

constexpr std::array<std::string_view, 13> kMatrices = {
    "aten::mm",           "aten::addmm",  "aten::addmm_", "aten::bmm",  "aten::baddbmm", "aten::mv",
    "aten::addmv",        "aten::addbmm", "aten::dot",    "aten::vdot", "aten::ger",     "aten::_addmm_activation",
    "aten::mkldnn_linear"};
constexpr std::array<std::string_view, 5> kOthers = {"conv", "_attention", "lstm", "gru", "rnn_"};

at::Tensor tensor(Inputs inputs, size_t index) {
  return index < inputs.size() && inputs[index].isTensor() ? inputs[index].toTensor() : at::Tensor();
}

double size(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

// a: […, m, k], b: […, k, n] or [k]
double product(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.dim() == 0) return 0;
  return 2 * size(a) * (b.dim() > 1 ? static_cast<double>(b.size(-1)) : 1);
}

// Each element of the spatial side is multiplied by the weights of one of its channels.
double convolution(double places, const at::Tensor& weight) {
  return 2 * places * size(weight) / static_cast<double>(weight.size(0));
}

// (input, weight, bias, stride, padding, dilation, transposed, …)
double forward_convolution(Inputs inputs) {
  const at::Tensor input = tensor(inputs, 0), weight = tensor(inputs, 1);
  if (inputs.size() < 7 || !input.defined() || !weight.defined() || weight.dim() < 3) return 0;
  if (inputs[6].toBool()) return convolution(size(input), weight);
  const auto strides = inputs[3].toIntVector(), padding = inputs[4].toIntVector(), dilation = inputs[5].toIntVector();
  const auto of = [](const std::vector<int64_t>& all, size_t i) { return all.size() == 1 ? all[0] : all.at(i); };
  double places = static_cast<double>(input.size(0)) * static_cast<double>(weight.size(0));
  for (size_t i = 0; i + 2 < static_cast<size_t>(weight.dim()); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t reach = of(dilation, i) * (weight.size(axis) - 1) + 1;
    places *= static_cast<double>((input.size(axis) + 2 * of(padding, i) - reach) / of(strides, i) + 1);
  }
  return convolution(places, weight);
}

// (output's gradient, input, weight, bias sizes, stride, padding, dilation, transposed, …, which gradients)
double backward_convolution(Inputs inputs) {
  const at::Tensor gradient = tensor(inputs, 0), input = tensor(inputs, 1), weight = tensor(inputs, 2);
  if (inputs.size() < 11 || !gradient.defined() || !input.defined() || !weight.defined()) return 0;
  const auto wanted = inputs[10].toBoolList();
  const double once = convolution(size(inputs[7].toBool() ? input : gradient), weight);
  return once * ((wanted.get(0) ? 1 : 0) + (wanted.get(1) ? 1 : 0));
}

// Queries [b, h, l, e] and keys [b, h, s, e]: two products forward; those two and four more, less one, backward.
double attention(const at::Tensor& query, const at::Tensor& key, double products, bool causal) {
  if (!query.defined() || !key.defined() || key.dim() < 2) return 0;
  return products * 2 * size(query) * static_cast<double>(key.size(-2)) * (causal ? 0.5 : 1);
}

double recurrent(const at::Tensor& input, const at::Tensor& of_input, const at::Tensor& of_state, double passes) {
  if (!input.defined() || !of_input.defined() || !of_state.defined() || input.dim() == 0) return 0;
  return passes * 2 * size(input) / static_cast<double>(input.size(-1)) * (size(of_input) + size(of_state));
}

}  // namespace

bool is_product(std::string_view name) {
  return std::find(kMatrices.begin(), kMatrices.end(), name) != kMatrices.end() ||
         std::any_of(kOthers.begin(), kOthers.end(),
                     [&](std::string_view word) { return name.find(word) != name.npos; });
}

double product_flops(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const Inputs inputs = call.inputs();
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::mv")
    return product(tensor(inputs, 0), tensor(inputs, 1));
  if (name == "aten::addmm" || name == "aten::addmm_" || name == "aten::baddbmm" || name == "aten::addmv" ||
      name == "aten::_addmm_activation")
    return product(tensor(inputs, 1), tensor(inputs, 2));
  if (name == "aten::dot" || name == "aten::vdot") return product(tensor(inputs, 0), tensor(inputs, 1));
  if (name == "aten::convolution") return forward_convolution(inputs);
  if (name == "aten::convolution_backward") return backward_convolution(inputs);
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu")
    return attention(tensor(inputs, 0), tensor(inputs, 1), 2, inputs.size() > 4 && inputs[4].toBool());
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    return attention(tensor(inputs, 1), tensor(inputs, 2), 5, inputs.size() > 7 && inputs[7].toBool());
  if (name == "aten::mkldnn_rnn_layer") return recurrent(tensor(inputs, 0), tensor(inputs, 1), tensor(inputs, 2), 1);
  if (name == "aten::mkldnn_rnn_layer_backward")
    return recurrent(tensor(inputs, 0), tensor(inputs, 1), tensor(inputs, 2), 2);
  return 0;
}

}  // namespace rannc::tools
