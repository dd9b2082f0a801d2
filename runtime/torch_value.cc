// Values over at::Tensor.
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

  Value zeros() const override { return to_value(at::zeros_like(tensor_)); }

  double item() const override {
    RANNC_CHECK(tensor_.numel() == 1) << "item() of a value with several elements";
    return tensor_.item().toDouble();
  }

 private:
  /// The axis seen as three: outer, samples, inner.
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

at::ScalarType to_scalar_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF16:
      return at::kHalf;
    case ir::DType::kBF16:
      return at::kBFloat16;
    case ir::DType::kF32:
      return at::kFloat;
    case ir::DType::kF64:
      return at::kDouble;
    case ir::DType::kI8:
      return at::kChar;
    case ir::DType::kI16:
      return at::kShort;
    case ir::DType::kI32:
      return at::kInt;
    case ir::DType::kI64:
      return at::kLong;
    case ir::DType::kU8:
      return at::kByte;
    case ir::DType::kU16:
      return at::kUInt16;
    case ir::DType::kU32:
      return at::kUInt32;
    case ir::DType::kU64:
      return at::kUInt64;
    case ir::DType::kBool:
      return at::kBool;
  }
  RANNC_CHECK(false) << "unknown dtype";
  return at::kFloat;
}

Result<ir::DType> to_dtype(at::ScalarType type) {
  using enum ir::DType;
  for (ir::DType dtype : {kF16, kBF16, kF32, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool}) {
    if (to_scalar_type(dtype) == type) return dtype;
  }
  return error(std::string("element type ") + at::toString(type) + " is not supported");
}

}  // namespace rannc::runtime
