// Attention and its gradient on CUDA.
#include <array>
#include <limits>

#include "ir/op/entries/attention.h"
#include "ir/op/flash_attention.h"
#include "ir/op/rules/norms.h"

namespace rannc::ir::ops {
namespace {

constexpr size_t kHeadsAxis = 1, kRowsAxis = 2;
// LibTorch's kernel reads rows of the mask in units of this many elements, and keeps sums of rows in units of that.
constexpr int64_t kMaskUnit = 8, kRowsUnit = 32;

/// Missing elements of a last unit.
Dim missing(const Dim& size, int64_t unit) { return mod(size * Dim(unit - 1), unit); }

/// Whether LibTorch's kernel takes q of this type. The wide type of f64 is f64, which it does not know.
bool is_efficient(const ValueType& q) {
  const Dim& features = q.shape->back();
  const auto unit = 16 / static_cast<int64_t>(byte_size(q.dtype));
  return statistics_dtype(q.dtype) == DType::kF32 && features.is_constant() && features.constant() % unit == 0;
}

class CudaAttention {
 public:
  /// `q`: operand that q is; k and v follow. `mask`: operand that the mask is, which may be absent.
  CudaAttention(const LowerCall& call, uint32_t q, uint32_t mask)
      : fused(call), call_(call), q_(q), mask_(mask), dtype_(call.inputs[q]->dtype), wide_(statistics_dtype(dtype_)) {}

  bool is_efficient() const { return ops::is_efficient(*call_.inputs[q_]); }
  bool is_flash() const {
    return call_.flash_attention &&
           fits_flash_attention(call_.inputs.subspan(q_, 3), call_.has(mask_), call_.attributes);
  }

  std::vector<aten::Argument> by_heads() {
    std::vector<aten::Argument> arguments;
    for (uint32_t i = 0; i < 3; ++i) arguments.emplace_back(fused.by_heads(q_ + i));
    return arguments;
  }

  /// The mask for all scores, with rows whose distance is a multiple of the unit. The kernel takes no other views.
  aten::Argument bias() {
    if (!call_.has(mask_)) return aten::None{};
    aten::Value mask = std::get<aten::Value>(fused.mask(mask_, dtype_).value);
    Shape sizes = shape(mask_);
    const Dim& places = shape(q_ + 1)[kRowsAxis];
    if (!(sizes.back() == places)) {
      sizes.back() = places;
      mask = calls()("aten::expand", {mask, sizes});
    }
    mask = calls()("aten::contiguous", {mask});
    const Dim more = missing(places, kMaskUnit);
    if (!(more == Dim(0))) {
      mask = calls()("aten::constant_pad_nd", {mask, Shape{0, more}, 0.0});
      mask = calls()("aten::narrow", {mask, -1, 0, places});
    }
    return calls()("aten::expand", {mask, scores_shape()});
  }

  aten::Value rows_of_sums(aten::Made padded) { return calls()("aten::narrow", {padded, 2, 0, shape(q_)[kRowsAxis]}); }
  aten::Value padded_sums(uint32_t operand) {
    const Dim more = missing(shape(q_)[kRowsAxis], kRowsUnit);
    if (more == Dim(0)) return calls()("aten::contiguous", {aten::Operand{operand}});
    const double infinity = std::numeric_limits<double>::infinity();
    return calls()("aten::constant_pad_nd", {aten::Operand{operand}, Shape{0, more}, infinity});
  }

  Dim places(uint32_t operand) const { return shape(q_ + operand)[kRowsAxis]; }
  /// A gradient of flash, which lies in memory as its operand does, with the axes of `axes_of_gradients`.
  aten::Value laid_out(aten::Made gradient) {
    const Shape axes{0, 2, 1, 3};
    const aten::Value dense = calls()("aten::contiguous", {calls()("aten::permute", {gradient, axes})});
    return calls()("aten::permute", {dense, axes});
  }

  bool is_causal() const { return call_.attributes.flag("causal"); }
  aten::Argument scale() const { return {"scale", call_.attributes.number("scale")}; }

  // --- products and a softmax, in the wide type

  aten::Value widened(aten::Value value) {
    return wide_ == dtype_ ? value : aten::Value(calls()("aten::to.dtype", {value, wide_}));
  }
  aten::Value narrowed(aten::Value value) {
    return wide_ == dtype_ ? value : aten::Value(calls()("aten::to.dtype", {value, dtype_}));
  }
  aten::Value operand(uint32_t index) { return widened(aten::Operand{q_ + index}); }
  aten::Value transposed(aten::Value matrices) { return calls()("aten::transpose.int", {matrices, -2, -1}); }
  aten::Value product(aten::Value a, aten::Value b) { return calls()("aten::matmul", {a, b}); }
  aten::Value scaled(aten::Value value) {
    return calls()("aten::mul.Scalar", {value, aten::Scalar{call_.attributes.number("scale")}});
  }
  aten::Value scores() {
    aten::Value scores = scaled(product(operand(0), transposed(operand(1))));
    if (is_causal()) return without_later_places(scores);
    if (!call_.has(mask_)) return scores;
    const aten::Value mask = std::get<aten::Value>(fused.mask(mask_, dtype_).value);
    return calls()("aten::add.Tensor", {scores, widened(mask)});
  }
  aten::Value without_later_places(aten::Value scores) {
    const Shape sizes{shape(q_)[kRowsAxis], shape(q_ + 1)[kRowsAxis]};
    const aten::Value ones = calls()("aten::ones", {sizes, {"dtype", DType::kBool}, {"device", aten::Device{}}});
    const aten::Scalar least{-std::numeric_limits<double>::infinity()};
    return calls()("aten::masked_fill.Scalar", {scores, calls()("aten::triu", {ones, 1}), least});
  }
  aten::Value weights(aten::Value scores) { return calls()("aten::_safe_softmax", {scores, -1}); }

  Calls& calls() { return fused.calls; }

  FusedAttention fused;

 private:
  const Shape& shape(uint32_t operand) const { return *call_.inputs[operand]->shape; }
  Shape scores_shape() const {
    const Shape& q = shape(q_);
    return {q[0], q[kHeadsAxis], q[kRowsAxis], shape(q_ + 1)[kRowsAxis]};
  }

  const LowerCall& call_;
  uint32_t q_, mask_;
  DType dtype_, wide_;
};

// The result lies in memory as q does, so that `contiguous` rarely copies.
aten::Lowering by_flash(CudaAttention&& attention) {
  constexpr uint32_t kResults = 9;  // two of them are integers, two undefined
  std::vector<aten::Argument> arguments = attention.by_heads();
  arguments.insert(arguments.end(), {0.0, attention.is_causal(), /*return_debug_mask=*/false, attention.scale()});
  const aten::Made made =
      attention.calls()("aten::_scaled_dot_product_flash_attention", std::move(arguments), kResults);
  const aten::Value result = attention.calls()("aten::contiguous", {attention.fused.in_order(made)});
  return std::move(attention.calls()).with({result, aten::Made{made.call, 1}});
}

// No numbers are dropped, so there is no state of a generator. Samples have one length.
aten::Lowering gradient_by_flash(CudaAttention&& attention, uint32_t gradient, uint32_t result, uint32_t log_sums) {
  std::vector<aten::Argument> arguments = {attention.fused.turned_back_dense(gradient)};
  for (aten::Argument& operand : attention.by_heads()) arguments.push_back(std::move(operand));
  arguments.emplace_back(attention.fused.turned_back_dense(result));
  arguments.emplace_back(attention.calls()("aten::contiguous", {aten::Operand{log_sums}}));
  arguments.insert(arguments.end(), {aten::None{}, aten::None{}, attention.places(0), attention.places(1), 0.0,
                                     attention.is_causal(), aten::None{}, aten::None{}, attention.scale()});
  const aten::Made made =
      attention.calls()("aten::_scaled_dot_product_flash_attention_backward", std::move(arguments), 3);
  std::vector<aten::Value> gradients;
  for (uint32_t i = 0; i < 3; ++i) gradients.push_back(attention.laid_out({made.call, i}));
  return std::move(attention.calls()).with(std::move(gradients));
}

aten::Lowering by_products(CudaAttention&& attention) {
  const aten::Value scores = attention.scores();
  const aten::Value sums = attention.calls()("aten::logsumexp", {scores, Shape{-1}});
  const aten::Value made = attention.product(attention.weights(scores), attention.operand(2));
  const aten::Value result = attention.fused.in_order(attention.narrowed(made));
  return std::move(attention.calls()).with({result, sums});
}

// With weights w, the gradient of the scores is w * (gy v^T - sum(gy * result)).
aten::Lowering gradient_by_products(CudaAttention&& attention, uint32_t gradient, uint32_t result) {
  Calls& calls = attention.calls();
  const aten::Value gy = attention.widened(attention.fused.turned_back(gradient));
  const aten::Value y = attention.widened(attention.fused.turned_back(result));
  const aten::Value weights = attention.weights(attention.scores());
  const aten::Value of_weights = attention.product(gy, attention.transposed(attention.operand(2)));
  const aten::Value sums = calls("aten::sum.dim_IntList", {calls("aten::mul.Tensor", {gy, y}), Shape{-1}, true});
  const aten::Value scores =
      attention.scaled(calls("aten::mul.Tensor", {calls("aten::sub.Tensor", {of_weights, sums}), weights}));
  const aten::Value of_q = attention.narrowed(attention.product(scores, attention.operand(1)));
  const aten::Value of_k = attention.narrowed(attention.product(attention.transposed(scores), attention.operand(0)));
  const aten::Value of_v = attention.narrowed(attention.product(attention.transposed(weights), gy));
  return std::move(calls).with({of_q, of_k, of_v});
}

/// Operands q, k and v of a call begin at `q`.
class Memory {
 public:
  Memory(const MemoryCall& call, uint32_t q, uint32_t mask) : call_(call), q_(q), mask_(mask) {}

  /// The mask with rows of whole units, where that is a copy.
  Dim padded_mask() const {
    const Dim& places = (*call_.operand(q_ + 1).shape)[kRowsAxis];
    const Dim more = missing(places, kMaskUnit);
    if (!call_.has(mask_)) return 0;
    const Dim floats = FusedAttention::mask_bytes(call_, mask_);
    if (more == Dim(0)) return floats;
    Shape sizes = *call_.operand(mask_).shape;
    sizes.back() = places + more;
    return floats + element_count(sizes) * Dim(byte_size(call_.operand(q_).dtype));
  }
  /// A number for each row of the scores, in whole units.
  Dim rows() const {
    const Dim& places = q()[kRowsAxis];
    return q()[0] * q()[kHeadsAxis] * (places + missing(places, kRowsUnit)) * Dim(wide_bytes());
  }
  /// Matrices of scores in the wide type, with `more` bytes for each score, and operands in that type.
  Dim products(int64_t matrices, int64_t more) const {
    const Dim scores = q()[0] * q()[kHeadsAxis] * q()[kRowsAxis] * (*call_.operand(q_ + 1).shape)[kRowsAxis];
    Dim widened(0);
    for (uint32_t i = 0; i < 3 && narrow(); ++i)
      widened = widened + element_count(*call_.operand(q_ + i).shape) * Dim(wide_bytes());
    return scores * Dim(matrices * wide_bytes() + more) + widened + FusedAttention::mask_bytes(call_, mask_);
  }
  /// The gradient of q in the wide type, to which blocks of keys add.
  Dim wide_gradient() const { return narrow() ? element_count(q()) * Dim(wide_bytes()) : Dim(0); }
  /// The same of flash, with whole blocks, and a number for each of its rows.
  Dim flash_sums() const {
    constexpr int64_t kBlock = 128, kFewFeatures = 128;
    const int64_t features = q().back().constant(), unit = features <= kFewFeatures ? 32 : 64;
    const Dim rows = q()[kRowsAxis] + missing(q()[kRowsAxis], kBlock);
    return q()[0] * q()[kHeadsAxis] * rows * Dim((features + unit - 1) / unit * unit + 1) * Dim(wide_bytes());
  }
  bool may_be_flash() const {
    const std::array operands = {&call_.operand(q_), &call_.operand(q_ + 1), &call_.operand(q_ + 2)};
    const OpAttributes attributes(call_.graph().op(call_.task()), call_.attributes());
    return fits_flash_attention(operands, call_.has(mask_), attributes);
  }
  bool is_efficient() const { return ops::is_efficient(call_.operand(q_)); }

 private:
  const Shape& q() const { return *call_.operand(q_).shape; }
  int64_t wide_bytes() const { return static_cast<int64_t>(byte_size(statistics_dtype(call_.operand(q_).dtype))); }
  bool narrow() const { return statistics_dtype(call_.operand(q_).dtype) != call_.operand(q_).dtype; }

  const MemoryCall& call_;
  const uint32_t q_, mask_;
};

}  // namespace

// Padded sums are the memory of the result `log_sums`. Flash needs less, unless few rows make it divide the keys: then
// it holds the parts' results, which are not counted: some MiB.
Dim cuda_attention_temporary(const MemoryCall& call) {
  const Memory memory(call, 0, 3);
  if (!memory.is_efficient()) return memory.products(2, 1);  // the softmax, which looks for rows that see nothing
  return memory.padded_mask() + memory.rows() - call.result_bytes(1);
}

// The kernels also read the sum of each row of gy * result. Flash copies a result whose heads do not lie between places
// and features. Gradients of operands that lie otherwise are copied when its sums are freed, which are larger unless
// there are twice as many keys as queries.
Dim cuda_attention_grad_temporary(const MemoryCall& call) {
  constexpr uint32_t kGy = 0, kQ = 1, kResult = 4, kLogSums = 5, kMask = 6;
  const Memory memory(call, kQ, kMask);
  if (!memory.is_efficient()) return memory.products(3, 0);
  const bool dense = call.is_dense(kGy, FusedAttention::axes_of_read_gradient(call.attributes()));
  const Dim padded = memory.rows() - call.operand_bytes(kLogSums);
  const Dim sums = padded == Dim(0) ? Dim(0) : memory.rows();
  const Dim copied = dense ? Dim(0) : call.operand_bytes(kGy);
  const Dim efficient = copied + memory.padded_mask() + sums + call.operand_bytes(kLogSums) + memory.wide_gradient();
  if (!memory.may_be_flash()) return efficient;
  const bool by_places = call.is_dense(kResult, FusedAttention::axes_of_read_gradient(call.attributes()));
  return max(efficient, copied + (by_places ? Dim(0) : call.operand_bytes(kResult)) + memory.flash_sums());
}

aten::Lowering lower_cuda_attention(const LowerCall& call) {
  CudaAttention attention(call, 0, 3);
  if (attention.is_flash()) return by_flash(std::move(attention));
  if (!attention.is_efficient()) return by_products(std::move(attention));
  std::vector<aten::Argument> arguments = attention.by_heads();
  arguments.push_back(attention.bias());
  arguments.insert(arguments.end(), {/*compute_log_sumexp=*/true, 0.0, attention.is_causal(), attention.scale()});
  const aten::Made made = attention.calls()("aten::_scaled_dot_product_efficient_attention", std::move(arguments), 4);
  const aten::Value result = attention.fused.in_order(made);
  const aten::Value sums = attention.rows_of_sums({made.call, 1});
  return std::move(attention.calls()).with({result, sums});
}

aten::Lowering lower_cuda_attention_grad(const LowerCall& call) {
  constexpr uint32_t kGy = 0, kQ = 1, kResult = 4, kLogSums = 5, kMask = 6;
  CudaAttention attention(call, kQ, kMask);
  if (attention.is_flash()) return gradient_by_flash(std::move(attention), kGy, kResult, kLogSums);
  if (!attention.is_efficient()) return gradient_by_products(std::move(attention), kGy, kResult);
  std::vector<aten::Argument> arguments = {attention.fused.turned_back_dense(kGy)};
  for (aten::Argument& operand : attention.by_heads()) arguments.push_back(std::move(operand));
  arguments.push_back(attention.bias());
  arguments.emplace_back(attention.fused.turned_back_dense(kResult));
  arguments.emplace_back(attention.padded_sums(kLogSums));
  // No numbers are dropped, so there is no state of a generator.
  arguments.insert(arguments.end(), {aten::None{}, aten::None{}, 0.0, std::vector<bool>{true, true, true, false},
                                     attention.is_causal(), attention.scale()});
  const aten::Made made =
      attention.calls()("aten::_scaled_dot_product_efficient_attention_backward", std::move(arguments), 4);
  return std::move(attention.calls()).with({made, aten::Made{made.call, 1}, aten::Made{made.call, 2}});
}

}  // namespace rannc::ir::ops

namespace rannc::ir {

bool fits_flash_attention(std::span<const ValueType* const> qkv, bool has_mask, const OpAttributes& attributes) {
  constexpr int64_t kUnit = 8, kMost = 192;
  const ValueType &q = *qkv[0], &k = *qkv[1];
  if (has_mask || (q.dtype != DType::kF16 && q.dtype != DType::kBF16)) return false;
  if (!q.shape || !k.shape || !ops::FusedAttention::fits(qkv)) return false;
  const Dim& features = q.shape->back();
  if (!features.is_constant() || features.constant() % kUnit != 0 || features.constant() > kMost) return false;
  if (!(attributes.number("scale") > 0)) return false;
  return !attributes.flag("causal") || (*q.shape)[ops::kRowsAxis] == (*k.shape)[ops::kRowsAxis];
}

bool fits_flash_attention(const Graph& graph, TaskId task) {
  const std::vector<const ValueType*> operands = type_list(graph, graph.inputs(task));
  const bool has_mask = operands.size() > 3 && operands[3] != nullptr;
  return fits_flash_attention(std::span(operands).first(3), has_mask,
                              OpAttributes(graph.op(task), graph.attributes(task)));
}

}  // namespace rannc::ir
