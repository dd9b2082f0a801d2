/// Translates scaled dot product attention with any number of leading axes, which broadcast from the right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/recipes/attention_mask.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

constexpr size_t kMatrix = 2;  ///< axes after the leading ones: positions and features

/// Repeats keys or values of a group for each query head of the group.
ValueId for_each_head(Call& call, ValueId x, const Dim& heads) {
  const Shape from = *call.shape(x);
  const size_t axis = from.size() - kMatrix - 1;
  const auto group = ir::exact_div(heads, from[axis]);
  if (!group || *group == Dim(1)) return x;
  Shape wide = from, to = from;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, *group);
  to[axis] = heads;
  const ValueId column = call.emit("unsqueeze", {x}, {{"axes", Shape{static_cast<int64_t>(axis) + 1}}});
  return call.emit("reshape", {call.emit("expand", {column}, {{"shape", wide}})}, {{"shape", to}});
}

Shape leading_of(const Shape& shape) { return {shape.begin(), shape.end() - kMatrix}; }

/// Returns the broadcast shape.
Shape stretched(const Shape& a, const Shape& b) {
  Shape wide = a.size() < b.size() ? b : a;
  const Shape& narrow = a.size() < b.size() ? a : b;
  for (size_t back = 1; back <= narrow.size(); ++back) {
    Dim& extent = wide[wide.size() - back];
    if (extent == Dim(1)) extent = narrow[narrow.size() - back];
  }
  return wide;
}

/// Returns the axes first … first + count - 1.
Shape axes_from(size_t first, size_t count) {
  Shape axes;
  for (size_t i = 0; i < count; ++i) axes.emplace_back(static_cast<int64_t>(first + i));
  return axes;
}

class Attention {
 public:
  explicit Attention(Call& call) : call_(call) {}

  void run() {
    q_ = call_.tensor("query"), k_ = call_.tensor("key"), v_ = call_.tensor("value");
    mask_ = call_.optional_tensor("attn_mask");
    if (!call_.good() || !read_sizes()) return;
    if (call_.has("enable_gqa") && call_.flag("enable_gqa") && call_.good()) repeat_heads();
    if (call_.flag("is_causal") && call_.good()) {
      const ValueId seen = causal_mask(call_, queries_, keys_);
      mask_ = mask_.valid() && call_.dtype(mask_) == DType::kBool ? both_seen(call_, mask_, seen) : seen;
    }
    const double drop = call_.number("dropout_p");
    if (!call_.good()) return;
    drop == 0 ? in_one_task() : written_out(drop);
  }

 private:
  bool read_sizes() {
    for (const ValueId each : {q_, k_, v_}) {
      const Shape* const shape = call_.shape(each);
      if (shape && shape->size() < kMatrix) call_.fail("attention needs operands with axes for positions and features");
      if (!call_.good()) return false;
    }
    const Shape& shape = *call_.shape(q_);
    queries_ = shape[shape.size() - 2], keys_ = *(call_.shape(k_)->end() - 2);
    if (call_.has("scale")) {
      scale_ = call_.number("scale");
    } else if (shape.back().is_constant()) {
      scale_ = 1 / std::sqrt(static_cast<double>(shape.back().constant()));
    } else {
      call_.fail("attention needs a known head size");
    }
    return call_.good();
  }

  void repeat_heads() {
    const Shape from = *call_.shape(q_);
    if (std::min({from.size(), call_.shape(k_)->size(), call_.shape(v_)->size()}) <= kMatrix)
      return call_.fail("attention with enable_gqa needs operands with an axis of heads");
    const Dim& heads = from[from.size() - kMatrix - 1];
    k_ = for_each_head(call_, k_, heads);
    v_ = for_each_head(call_, v_, heads);
  }

  /// Emits one task. The core operator has two leading axes, samples and heads, so further axes are joined with the
  /// heads.
  void in_one_task() {
    for (const ValueId each : {q_, k_, v_}) leading_ = stretched(leading_, leading_of(*call_.shape(each)));
    if (mask_.valid() && call_.rank(mask_) > static_cast<int64_t>(kMatrix))
      leading_ = stretched(leading_, leading_of(*call_.shape(mask_)));
    if (leading_.size() > 2) bring_samples_first();
    std::vector<ValueId> operands;
    for (const ValueId each : {q_, k_, v_}) operands.push_back(by_heads(each));
    if (mask_.valid()) operands.push_back(mask_by_heads());
    if (!call_.good()) return;
    const ir::Attributes attributes = {{"scale", scale_}, {"order", Shape{0, 1, 2, 3}}};
    if (leading_.size() == 2) return call_.result("attention", operands, attributes);
    const ValueId made = call_.emit("attention", operands, attributes);
    if (leading_.size() < 2) return call_.result("squeeze", {made}, {{"axes", missing_heads()}});
    Shape to = order_.empty() ? leading_ : in_order(leading_);
    to.push_back(queries_), to.push_back(call_.shape(v_)->back());
    if (order_.empty()) return call_.result("reshape", {made}, {{"shape", to}});
    Shape back(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) back[order_[i]] = static_cast<int64_t>(i);
    call_.result("permute", {call_.emit("reshape", {made}, {{"shape", to}})}, {{"dims", back}});
  }

  /// Returns the axes to insert in a tensor without samples or heads.
  Shape missing_heads() const { return leading_.empty() ? Shape{0, 1} : Shape{1}; }

  void bring_samples_first() {
    const ir::BatchLayout& batch = call_.type(q_).batch;
    const size_t rank = leading_.size() + kMatrix;
    const int64_t axis = batch.axis + static_cast<int64_t>(rank - call_.shape(q_)->size());
    if (!batch.has_batch() || axis == 0 || axis >= static_cast<int64_t>(leading_.size())) return;
    order_.resize(rank);
    std::iota(order_.begin(), order_.end(), size_t{0});
    order_.erase(order_.begin() + axis);
    order_.insert(order_.begin(), static_cast<size_t>(axis));
  }

  Shape in_order(const Shape& shape) const {
    Shape made;
    for (size_t i = 0; i < shape.size(); ++i) made.push_back(shape[order_[i]]);
    return made;
  }

  /// Permutes the axes of `x` so that samples come first.
  ValueId ordered(ValueId x) {
    if (order_.empty() || !call_.good()) return x;
    return call_.emit("permute", {x}, {{"dims", in_order(axes_from(0, order_.size()))}});
  }

  /// Prepends axes of extent 1 up to `rank` axes.
  ValueId with_all_axes(ValueId x, size_t rank) {
    const size_t lacks = rank - std::min(rank, static_cast<size_t>(call_.rank(x)));
    return lacks == 0 || !call_.good() ? x : call_.emit("unsqueeze", {x}, {{"axes", axes_from(0, lacks)}});
  }

  /// Returns a value as [samples, heads, positions, features].
  ValueId by_heads(ValueId x) {
    Shape whole = leading_;
    const Shape from = *call_.shape(x);
    whole.insert(whole.end(), from.end() - kMatrix, from.end());
    if (!(whole == from)) x = call_.emit("expand", {x}, {{"shape", whole}});
    if (leading_.size() < 2) return call_.emit("unsqueeze", {x}, {{"axes", missing_heads()}});
    return leading_.size() == 2 ? x : joined(ordered(x));
  }

  /// Joins all leading axes except the first.
  ValueId joined(ValueId x) {
    if (!call_.good()) return x;
    const Shape from = *call_.shape(x);
    Dim heads = 1;
    for (size_t i = 1; i + kMatrix < from.size(); ++i) heads = heads * from[i];
    return call_.emit("reshape", {x}, {{"shape", Shape{from[0], heads, from[from.size() - 2], from.back()}}});
  }

  /// Returns the mask in a shape that broadcasts to [samples, heads, queries, keys].
  ValueId mask_by_heads() {
    ValueId mask = with_all_axes(mask_, kMatrix);
    if (call_.rank(mask) == static_cast<int64_t>(kMatrix)) return mask;
    mask = with_all_axes(mask, leading_.size() + kMatrix);
    if (leading_.size() == 1) return call_.emit("unsqueeze", {mask}, {{"axes", missing_heads()}});
    if (leading_.size() == 2 || !call_.good()) return mask;
    mask = ordered(mask);
    const Shape from = *call_.shape(mask);
    Shape to = order_.empty() ? leading_ : in_order(leading_);
    to[0] = from[0];
    to.insert(to.end(), from.end() - kMatrix, from.end());
    const bool is_shared =
        std::all_of(from.begin() + 1, from.end() - kMatrix, [](const Dim& n) { return n == Dim(1); });
    return joined(is_shared || to == from ? mask : call_.emit("expand", {mask}, {{"shape", to}}));
  }

  /// Emits the decomposed form, because dropout applies to the attention weights.
  void written_out(double drop) {
    const DType dtype = call_.dtype(q_);
    Shape turned = axes_from(0, call_.shape(k_)->size());
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    const ValueId scaled = call_.emit("mul", {q_, call_.scalar(scale_, dtype)});
    ValueId scores = call_.emit("matmul", {scaled, call_.emit("permute", {k_}, {{"dims", turned}})});
    if (mask_.valid() && call_.dtype(mask_) == DType::kBool) mask_ = additive_mask(call_, mask_, {}, dtype);
    if (mask_.valid()) scores = call_.emit("add", {scores, mask_});
    ir::Attributes last = {{"axis", Dim(-1)}};
    if (mask_.valid()) last.set("hidden_rows", std::string("zero"));
    const ValueId weights = call_.emit("softmax", {scores}, last);
    if (!call_.good()) return;
    const ValueId kept = call_.emit(
        "mul", {weights, call_.add_random_input(weights, {.of = ir::RandomInput::Of::kBernoulli, .drop = drop})});
    call_.result("matmul", {kept, v_});
  }

  Call& call_;
  ValueId q_, k_, v_, mask_;
  Dim queries_, keys_;
  double scale_ = 0;
  Shape leading_;              ///< axes of the result before positions and features
  std::vector<size_t> order_;  ///< of all axes, if samples are not first; empty: unchanged
};

void attention(Call& call) { Attention(call).run(); }

}  // namespace

std::span<const Translator> attention_translators() {
  static constexpr Translator kTable[] = {
      {"scaled_dot_product_attention", attention},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
