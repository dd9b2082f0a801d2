// Gradient rules of scatter operators and topk.
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

/// A scatter and the look-up that reads at the same positions.
struct Pair {
  const char *scatter, *gather, *cleared;
};

// Building blocks for the gradient rules of one scatter.
class Scattered {
 public:
  Scattered(GradientCall& call, const Pair& pair) : call_(call), pair_(pair), attributes_(call.attributes().given()) {
    reduction_ = call.attributes().text("reduction");
  }
  const std::string& reduction() const { return reduction_; }
  ValueId x() const { return call_.operand(0); }
  ValueId updates() const { return call_.operand(2); }
  /// Elements of a value of x's shape at the positions of the updates.
  ValueId read(ValueId value) { return call_.add(pair_.gather, {value, call_.operand(1)}, place()); }
  /// `value`, which has x's shape, with updates reduced into it.
  ValueId write(ValueId value, ValueId updates, const std::string& reduction) {
    Attributes attributes = place();
    attributes.set("reduction", reduction);
    return call_.add(pair_.scatter, {value, call_.operand(1), updates}, std::move(attributes));
  }
  ValueId cleared(ValueId value) { return call_.add(pair_.cleared, {value, call_.operand(1)}, place()); }
  /// For each element of x: 1 if the condition holds for it, plus the number of its updates for which it holds.
  ValueId counted(ValueId of_x, ValueId of_updates) { return write(whole(of_x), whole(of_updates), "add"); }
  ValueId floats(ValueId value) { return call_.add("cast", {value}, {{"dtype", call_.type(x()).dtype}}); }
  ValueId whole(ValueId value) { return call_.add("cast", {value}, {{"dtype", DType::kI64}}); }
  ValueId integer(int64_t number) {
    return call_.add("full", {}, {{"shape", Shape{}}, {"value", Dim(number)}, {"dtype", DType::kI64}});
  }

 private:
  Attributes place() const {
    Attributes attributes;
    if (const Attribute* axis = attributes_.find("axis")) attributes.set("axis", *axis);
    return attributes;
  }

  GradientCall& call_;
  const Pair& pair_;
  Attributes attributes_;
  std::string reduction_;
};

// Equal extremes share the gradient.
void give_extremes(GradientCall& call, Scattered parts) {
  const ValueId y = call.result();
  const ValueId of_x = call.add("eq", {parts.x(), y});
  const ValueId of_updates = call.add("eq", {parts.updates(), parts.read(y)});
  const ValueId count = parts.floats(parts.counted(of_x, of_updates));
  const ValueId share = call.add("div", {call.gradient(), count});
  if (call.wants(0)) call.give(0, call.add("where_grad", {share, of_x}));
  if (call.wants(2)) call.give(2, call.add("where_grad", {parts.read(share), of_updates}));
}

// Gradient factor of an update: x times all other updates at that position, none of which may be 0.
void give_product_of_others(GradientCall& call, Scattered parts) {
  const ValueId u = parts.updates();
  const ValueId zero = call.add("eq", {u, call.number(0, u)});
  const ValueId factors = call.add("where", {zero, call.number(1, u), u});
  const ValueId product = parts.write(parts.x(), factors, "mul");
  const ValueId numbers = parts.whole(parts.x());
  const ValueId zeros = call.add("sub", {numbers, numbers});  // of x's shape, with its samples
  const ValueId here = parts.whole(zero), there = parts.read(parts.write(zeros, here, "add"));
  const ValueId alone = call.add("eq", {there, here});
  const ValueId others = call.add("div", {parts.read(product), factors});
  const ValueId passed = call.add("mul", {parts.read(call.gradient()), others});
  call.give(2, call.add("where_grad", {passed, alone}));
}

bool scattered(GradientCall& call, const Pair& pair) {
  Scattered parts(call, pair);
  const std::string& reduction = parts.reduction();
  if (reduction == "max" || reduction == "min") {
    give_extremes(call, parts);
    return true;
  }
  const ValueId gy = call.gradient();
  if (call.wants(0)) {
    call.give(0, reduction == "none"  ? parts.cleared(gy)
                 : reduction == "add" ? gy
                                      : parts.write(gy, parts.updates(), "mul"));
  }
  if (!call.wants(2)) return true;
  if (reduction == "mul") {
    give_product_of_others(call, parts);
  } else {
    call.give(2, parts.read(gy));
  }
  return true;
}

}  // namespace

bool scatter_elements(GradientCall& call) {
  return scattered(call, {"scatter_elements", "gather_elements", "scatter_elements_grad"});
}
bool scatter_nd(GradientCall& call) { return scattered(call, {"scatter_nd", "gather_nd", "scatter_nd_grad"}); }

// The auxiliary result contains the positions of the picked elements.
bool topk(GradientCall& call) {
  const ValueId x = call.operand(0);
  Attributes attributes = {{"axis", Dim(call.attributes().integer("axis"))}, {"sizes", call.shape(x)}};
  const BatchLayout& layout = call.type(x).batch;
  if (layout.has_batch() && !(layout.outer == Dim(1))) attributes.set("outer", Shape{layout.outer});
  call.give(0, call.add("gather_elements_grad_input", {call.gradient(), call.result(1)}, std::move(attributes)));
  return true;
}

}  // namespace rannc::ir::ops::gradient
