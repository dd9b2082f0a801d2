// Implements values with at::Tensor.
#include "runtime/internal/torch_value.h"

#include <c10/core/GradMode.h>

namespace rannc::runtime {
namespace {

class TorchPayload final : public Payload {
 public:
  explicit TorchPayload(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  const at::Tensor& tensor() const { return tensor_; }

  TensorSpec spec() const override {
    Result<ir::DType> dtype = to_dtype(tensor_.scalar_type());
    RANNC_CHECK(dtype.ok()) << "tensors of other kinds never become values";
    return {*dtype, tensor_.sizes().vec()};
  }

  Value plus(const Payload& other) const override {
    const c10::NoGradGuard no_grad;
    return to_value(tensor_ + static_cast<const TorchPayload&>(other).tensor_);
  }

  Value sum(std::span<const Value> terms) const override {
    std::vector<at::Tensor> tensors;
    for (const Value& term : terms) tensors.push_back(to_tensor(term));
    return to_value(sum_in_order(tensors));
  }

  Value samples(const SampleAxis& axis, ir::SampleRange range) const override {
    const c10::NoGradGuard no_grad;
    if (axis.outer == 1) {
      return to_value(tensor_.narrow(axis.axis, range.first * axis.inner, range.size() * axis.inner).contiguous());
    }
    const at::Tensor part = parted(axis).narrow(axis.axis + 1, range.first, range.size());
    return to_value(merged(part, axis));
  }

  Value joined(std::span<const Value> parts, const SampleAxis& axis) const override {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> tensors;
    for (const Value& part : parts) {
      const auto& payload = static_cast<const TorchPayload&>(*part);
      tensors.push_back(axis.outer == 1 ? payload.tensor_ : payload.parted(axis));
    }
    if (axis.outer == 1) return to_value(at::cat(tensors, axis.axis));
    return to_value(merged(at::cat(tensors, axis.axis + 1), axis));
  }

  Value contiguous() const override { return to_value(tensor_.contiguous()); }

  Value elements(int64_t first, int64_t last) const override {
    RANNC_CHECK(tensor_.is_contiguous()) << "elements are counted in memory order";
    return to_value(tensor_.detach().view(-1).narrow(0, first, last - first));
  }

  void overwrite(const Payload& source) const override {
    const c10::NoGradGuard no_grad;
    tensor_.detach().copy_(static_cast<const TorchPayload&>(source).tensor_);
  }

  Value zeros() const override { return to_value(at::zeros_like(tensor_)); }

  double item() const override {
    RANNC_CHECK(tensor_.numel() == 1) << "item() of a value with several elements";
    return tensor_.item().toDouble();
  }

 private:
  /// Views the axis as three: outer, samples, inner.
  at::Tensor parted(const SampleAxis& axis) const {
    std::vector<int64_t> sizes = tensor_.sizes().vec();
    const auto at = sizes.begin() + axis.axis;
    const int64_t samples = *at / (axis.outer * axis.inner);
    *at = axis.outer;
    sizes.insert(at + 1, {samples, axis.inner});
    return tensor_.reshape(sizes);
  }
  static at::Tensor merged(const at::Tensor& parted, const SampleAxis& axis) {
    return parted.flatten(axis.axis, axis.axis + 2).contiguous();
  }

  at::Tensor tensor_;
};

}  // namespace

Value to_value(at::Tensor tensor) { return std::make_shared<TorchPayload>(std::move(tensor)); }

const at::Tensor& to_tensor(const Value& value) {
  static const at::Tensor undefined;
  return value == nullptr ? undefined : static_cast<const TorchPayload&>(*value).tensor();
}

at::Tensor sum_in_order(std::span<const at::Tensor> terms) {
  const c10::NoGradGuard no_grad;
  if (terms.size() == 1) return terms[0];
  const at::ScalarType type = terms[0].scalar_type(), wide = sum_type(type);
  at::Tensor sum = wide == type ? terms[0].add(terms[1]) : terms[0].to(wide).add_(terms[1]);
  for (const at::Tensor& term : terms.subspan(2)) sum.add_(term);
  return sum.to(type);
}

at::Tensor on_host(const Value& value) {
  const c10::NoGradGuard no_grad;
  return to_tensor(value).contiguous().cpu();
}

void overwrite(const at::Tensor& tensor, std::span<const std::byte> bytes) {
  RANNC_CHECK(tensor.is_contiguous() && tensor.nbytes() == bytes.size()) << bytes.size() << " bytes";
  if (bytes.empty()) return;
  const c10::NoGradGuard no_grad;
  void* const data = const_cast<std::byte*>(bytes.data());  // only read
  tensor.detach().copy_(at::from_blob(data, tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type())));
}

Result<ir::DType> to_dtype(at::ScalarType type) {
  if (const auto dtype = ir::dtype_of_torch(static_cast<int>(type))) return *dtype;
  return error(std::string("element type ") + at::toString(type) + " is not supported");
}

}  // namespace rannc::runtime
