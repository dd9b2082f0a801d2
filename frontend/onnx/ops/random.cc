/// Translates ONNX operators that generate random numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Emits the operand unchanged, with a mask that keeps all elements.
void keep_all(Node& node) {
  const ValueId x = node.in(0);
  node.result("identity", {x});
  if (!node.wants(1)) return;
  const ir::Shape* const shape = node.shape(x);
  if (!shape) return;
  const ir::Attributes everywhere = {{"shape", *shape}, {"value", true}, {"dtype", ir::DType::kBool}};
  node.result_at(1, node.emit("full", {}, everywhere));
}

/// Dropout is off before opset 12, and since then unless `training_mode` is true.
void dropout(Node& node) {
  const ValueId x = node.in(0);
  if (node.opset() < 12 || !node.has(2)) return keep_all(node);
  const auto training = node.number(node.in(2));
  if (!training) return node.fail("Dropout needs a training_mode that is known before the model runs");
  if (*training == 0) return keep_all(node);
  const auto ratio = node.has(1) ? node.number(node.in(1)) : std::optional(0.5);
  if (!ratio || *ratio < 0 || *ratio >= 1) return node.fail("Dropout needs a constant ratio in [0, 1)");
  if (*ratio == 0) return keep_all(node);
  const ValueId factor = node.add_random_input(x, {.of = ir::RandomInput::Of::kBernoulli, .drop = *ratio});
  node.result("mul", {x, factor});
  if (node.good() && node.wants(1)) {
    node.result_at(1, node.emit("ne", {factor, node.scalar(0, node.dtype(factor))}));
  }
}

/// Returns a value with the type and shape of the result: the operand, cast to `dtype` if present.
ValueId like(Node& node) {
  const ValueId x = node.in(0);
  if (!node.has_attribute("dtype")) return x;
  const auto number = static_cast<int>(node.integer("dtype", 0));
  const auto dtype = element_type(number);
  if (!dtype) node.fail(node.op() + " of " + element_type_name(number) + " is not supported");
  return dtype && *dtype != node.dtype(x) ? node.emit("cast", {x}, {{"dtype", *dtype}}) : x;
}

/// Emits scale * random + shift. Ignores the seed of the node: numbers follow from the seed of the run.
void scaled(Node& node, ValueId like, ir::RandomInput::Of of, double scale, double shift) {
  const ValueId random = node.add_random_input(like, {.of = of});
  if (!node.good()) return;
  const ir::DType dtype = node.dtype(random);
  node.result("add", {node.emit("mul", {random, node.scalar(scale, dtype)}), node.scalar(shift, dtype)});
}

/// Returns the largest number below `high` of that type, or one within two steps of it. Needed because rounding of
/// low + u * (high - low) can reach `high` for the largest u below 1.
double below(double high, ir::DType dtype) {
  const int digits = dtype == ir::DType::kF64 ? 53 : dtype == ir::DType::kF32 ? 24 : dtype == ir::DType::kF16 ? 11 : 8;
  int exponent = 0;
  std::frexp(high, &exponent);
  const double step = std::ldexp(1.0, exponent - digits);
  return (std::ceil(high / step) - 1) * step;
}

/// Returns a value with the type and shape that attributes specify.
ValueId as_said(Node& node) {
  const auto number = static_cast<int>(node.integer("dtype", onnx_element_type(ir::DType::kF32)));
  const auto dtype = element_type(number);
  if (!dtype) node.fail(node.op() + " of " + element_type_name(number) + " is not supported");
  if (!dtype) return {};
  return node.emit("full", {}, {{"shape", list(node.integers("shape"))}, {"value", 0.0}, {"dtype", *dtype}});
}

/// Numbers in [low, high). `high` is never reached, because results may index a table of `high` rows. With low = 0
/// rounding cannot reach it.
template <ValueId (*like)(Node&)>
void random_uniform(Node& node) {
  const double low = node.number("low", 0.0), high = node.number("high", 1.0);
  if (!std::isfinite(low) || !std::isfinite(high) || !(low <= high)) {
    return node.fail(fmt::format("{} from {} to {}; expected finite bounds, the lower first", node.op(), low, high));
  }
  if (low == 0 || low == high) return scaled(node, like(node), ir::RandomInput::Of::kUniform, high - low, low);
  const ValueId random = node.add_random_input(like(node), {.of = ir::RandomInput::Of::kUniform});
  if (!node.good()) return;
  const ir::DType dtype = node.dtype(random);
  const ValueId wide = node.emit("mul", {random, node.scalar(high - low, dtype)});
  const ValueId shifted = node.emit("add", {wide, node.scalar(low, dtype)});
  node.result("clamp", {shifted}, {{"max", std::max(low, below(high, dtype))}});
}

template <ValueId (*like)(Node&)>
void random_normal(Node& node) {
  scaled(node, like(node), ir::RandomInput::Of::kNormal, node.number("scale", 1.0), node.number("mean", 0.0));
}

/// 1 with the probability given by the operand.
void bernoulli(Node& node) {
  const ValueId p = node.in(0);
  const ValueId random = node.add_random_input(p, {.of = ir::RandomInput::Of::kUniform});
  if (!node.good()) return;
  const auto number = static_cast<int>(node.integer("dtype", onnx_element_type(node.dtype(p))));
  const auto dtype = element_type(number);
  if (!dtype) return node.fail("Bernoulli of " + element_type_name(number) + " is not supported");
  node.result("cast", {node.emit("lt", {random, p})}, {{"dtype", *dtype}});
}

/// Reports that the exported program drew without replacement, which ONNX cannot represent.
void note_replacement(Node& node, int64_t random_inputs) {
  const auto& call = node.traced();
  if (random_inputs < 2 || !call || !call->is("aten.multinomial")) return;
  if (call->arguments.size() > 2 && call->arguments[2] == "True") return;
  node.remark("Multinomial nodes draw with replacement; the exported program drew without replacement");
}

/// Fails and returns false unless the node is valid.
bool random_classes(Node& node) {
  const ir::Shape* const shape = node.shape(node.in(0));
  if (!shape) return false;
  const auto number = static_cast<int>(node.integer("dtype", onnx_element_type(ir::DType::kI32)));
  const auto dtype = element_type(number);
  if (shape->size() != 2) {
    node.fail(fmt::format("Multinomial of {}; expected [batch, classes]", ir::str(*shape)));
  } else if (const int64_t random_inputs = node.integer("sample_size", 1); random_inputs < 1) {
    node.fail(fmt::format("Multinomial of sample_size {}; expected at least 1", random_inputs));
  } else if (dtype != ir::DType::kI32 && dtype != ir::DType::kI64) {
    node.fail(fmt::format("Multinomial of {}; expected int32 or int64", element_type_name(number)));
  } else if (const ir::DType of = node.dtype(node.in(0)); !ir::is_float(of)) {
    node.fail(fmt::format("Multinomial by {}; expected floats", ir::str(of)));
  }
  return node.good();
}

/// Draws classes with probabilities softmax(x): returns the first class whose cumulative sum of exponentials exceeds
/// u * sum, with u uniform in [0, 1). A class of probability 0 is never drawn, because u * sum < sum also after
/// rounding.
void multinomial(Node& node) {
  if (!random_classes(node)) return;
  const ValueId x = node.widened(node.in(0));
  const ir::Dim rows = (*node.shape(x))[0], classes = (*node.shape(x))[1];
  const int64_t random_inputs = node.integer("sample_size", 1);
  note_replacement(node, random_inputs);
  const ir::Attributes along = {{"axis", ir::Dim(1)}};
  const ValueId sums = node.emit("cumsum", {node.emit("softmax", {x}, along)}, along);
  const ValueId sum = node.emit(
      "slice", {sums}, {{"axes", ir::Shape{1}}, {"starts", ir::Shape{classes - 1}}, {"ends", ir::Shape{classes}}});
  const ValueId sum_for_each = node.emit("expand", {sum}, {{"shape", ir::Shape{rows, random_inputs}}});
  const ValueId random = node.add_random_input(sum_for_each, {.of = ir::RandomInput::Of::kUniform});
  if (!node.good()) return;
  const ValueId place = node.emit("mul", {random, sum_for_each});
  const ValueId passed = node.emit("le", {node.emit("unsqueeze", {sums}, {{"axes", ir::Shape{1}}}),
                                          node.emit("unsqueeze", {place}, {{"axes", ir::Shape{2}}})});
  const ValueId counted = node.emit("cast", {passed}, {{"dtype", ir::DType::kI64}});
  const ValueId number = node.emit("sum", {counted}, {{"axes", ir::Shape{2}}, {"keepdim", false}});
  const int wanted = static_cast<int>(node.integer("dtype", onnx_element_type(ir::DType::kI32)));
  node.result("cast", {number}, {{"dtype", *element_type(wanted)}});
}

}  // namespace

std::span<const Translator> random_translators() {
  static constexpr Translator kTable[] = {
      {"Bernoulli", 15, 27, bernoulli},
      {"Dropout", 7, 27, dropout},
      {"Multinomial", 7, 27, multinomial},
      {"RandomNormal", 7, 27, random_normal<as_said>},
      {"RandomNormalLike", 7, 27, random_normal<like>},
      {"RandomUniform", 7, 27, random_uniform<as_said>},
      {"RandomUniformLike", 7, 27, random_uniform<like>},
  };
  return kTable;
}

}  // namespace rannc::frontend
