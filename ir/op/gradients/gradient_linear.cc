// Gradient rules of matrix products.
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

Dim product(const Shape& shape, size_t from, size_t to) {
  return element_count(Shape(shape.begin() + from, shape.begin() + to));
}

ValueId reshaped(GradientCall& call, ValueId value, Shape shape) {
  return call.shape(value) == shape ? value : call.add("reshape", {value}, {{"shape", std::move(shape)}});
}

ValueId transposed(GradientCall& call, ValueId value) {
  const size_t rank = call.shape(value).size();
  Shape dims;
  for (size_t i = 0; i < rank; ++i) dims.emplace_back(static_cast<int64_t>(i + 2 < rank ? i : 2 * rank - 3 - i));
  return call.add("permute", {value}, {{"dims", dims}});
}

// [S…, R, C] as [S * R, C].
ValueId rows(GradientCall& call, ValueId value) {
  const Shape& shape = call.shape(value);
  return reshaped(call, value, {product(shape, 0, shape.size() - 1), shape.back()});
}

// [S…, R, C] as [R, S * C].
ValueId columns(GradientCall& call, ValueId value) {
  const Shape shape = call.shape(value);
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 2) return value;
  Shape dims = {Dim(rank - 2)};
  for (int64_t i = 0; i < rank; ++i) {
    if (i != rank - 2) dims.emplace_back(i);
  }
  const ValueId moved = call.add("permute", {value}, {{"dims", dims}});
  return reshaped(call, moved, {shape[rank - 2], product(shape, 0, rank - 2) * shape.back()});
}

// A product of matrices [S…, M, K] and [S…, K, N]. Vectors are matrices of one row or column.
struct Product {
  ValueId a, b, gy;
};

Product as_matrices(GradientCall& call) {
  const auto axis = [](int64_t at) { return Attributes{{"axes", Shape{Dim(at)}}}; };
  Product product = {call.operand(0), call.operand(1), call.gradient()};
  const bool vector_a = call.shape(product.a).size() == 1, vector_b = call.shape(product.b).size() == 1;
  if (vector_b) product.gy = call.add("unsqueeze", {product.gy}, axis(-1));
  if (vector_a) product.gy = call.add("unsqueeze", {product.gy}, axis(-2));
  if (vector_b && call.wants(0)) product.b = call.add("unsqueeze", {product.b}, axis(-1));
  if (vector_a && call.wants(1)) product.a = call.add("unsqueeze", {product.a}, axis(0));
  return product;
}

// gy times b transposed. If a is one matrix for a stack, one product covers the whole stack.
void give_left(GradientCall& call, const Product& p) {
  const size_t rank = call.shape(call.operand(0)).size();
  const bool folds = rank <= 2 && call.shape(p.gy).size() == call.shape(p.b).size();
  const ValueId gy = folds ? columns(call, p.gy) : p.gy, b = folds ? columns(call, p.b) : p.b;
  call.give_unstretched(0, call.add("matmul", {gy, transposed(call, b)}));
}

// a transposed times gy.
void give_right(GradientCall& call, const Product& p) {
  const size_t rank = call.shape(call.operand(1)).size();
  const bool folds = rank <= 2 && call.shape(p.gy).size() == call.shape(p.a).size();
  const ValueId gy = folds ? rows(call, p.gy) : p.gy, a = folds ? rows(call, p.a) : p.a;
  ValueId made = call.add("matmul", {transposed(call, a), gy});
  if (rank == 1) made = call.add("squeeze", {made}, {{"axes", Shape{Dim(-1)}}});
  call.give_unstretched(1, made);
}

}  // namespace

bool matmul(GradientCall& call) {
  const Product product = as_matrices(call);
  if (call.wants(0)) give_left(call, product);
  if (call.wants(1)) give_right(call, product);
  return true;
}

bool linear(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), weight = call.operand(1);
  const bool output_first = call.attributes().text("layout") == "oi";
  if (call.wants(0)) {
    const std::string other = output_first ? "io" : "oi";
    call.give(0, call.add("linear", {gy, weight}, {{"layout", other}}));
  }
  if (call.wants(1)) {
    const ValueId left = rows(call, output_first ? gy : x), right = rows(call, output_first ? x : gy);
    call.give(1, call.add("matmul", {transposed(call, left), right}));
  }
  if (call.wants(2)) call.give_unstretched(2, gy);
  return true;
}

}  // namespace rannc::ir::ops::gradient
