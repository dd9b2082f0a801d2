/// Translates ONNX operators that draw random numbers.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

/// The operand as it is; the mask says that nothing was dropped.
void keep_all(Node& node) {
  const ValueId x = node.in(0);
  node.result("identity", {x});
  if (!node.wants(1)) return;
  const ir::Shape* const shape = node.shape(x);
  if (!shape) return;
  const ir::Attributes everywhere = {{"shape", *shape}, {"value", true}, {"dtype", ir::DType::kBool}};
  node.result_at(1, node.emit("full", {}, everywhere));
}

/// Before opset 12 an inference operator. Since then off unless `training_mode` is given and true.
void dropout(Node& node) {
  const ValueId x = node.in(0);
  if (node.opset() < 12 || !node.has(2)) return keep_all(node);
  const auto training = node.number(node.in(2));
  if (!training) return node.fail("Dropout needs a training_mode that is known before the model runs");
  if (*training == 0) return keep_all(node);
  const auto ratio = node.has(1) ? node.number(node.in(1)) : std::optional(0.5);
  if (!ratio || *ratio < 0 || *ratio >= 1) return node.fail("Dropout needs a constant ratio in [0, 1)");
  if (*ratio == 0) return keep_all(node);
  const ValueId factor = node.draw(x, {.of = ir::Draw::Of::kBernoulli, .drop = *ratio});
  node.result("mul", {x, factor});
  if (node.good() && node.wants(1)) {
    node.result_at(1, node.emit("ne", {factor, node.scalar(0, node.dtype(factor))}));
  }
}

/// The operand, or what `dtype` makes of it, says type and shape of the numbers.
ValueId like(Node& node) {
  const ValueId x = node.in(0);
  if (!node.has_attribute("dtype")) return x;
  const auto number = static_cast<int>(node.integer("dtype", 0));
  const auto dtype = element_type(number);
  if (!dtype) node.fail(node.op() + " of " + element_type_name(number) + " is not supported");
  return dtype && *dtype != node.dtype(x) ? node.emit("cast", {x}, {{"dtype", *dtype}}) : x;
}

/// The node's seed is not asked: numbers follow from the seed of a run.
void scaled(Node& node, ValueId like, ir::Draw::Of of, double scale, double shift) {
  const ValueId drawn = node.draw(like, {.of = of});
  if (!node.good()) return;
  const ir::DType dtype = node.dtype(drawn);
  node.result("add", {node.emit("mul", {drawn, node.scalar(scale, dtype)}), node.scalar(shift, dtype)});
}

/// Attributes say type and shape of the numbers.
ValueId as_said(Node& node) {
  const auto number = static_cast<int>(node.integer("dtype", onnx_element_type(ir::DType::kF32)));
  const auto dtype = element_type(number);
  if (!dtype) node.fail(node.op() + " of " + element_type_name(number) + " is not supported");
  if (!dtype) return {};
  return node.emit("full", {}, {{"shape", list(node.integers("shape"))}, {"value", 0.0}, {"dtype", *dtype}});
}

template <ValueId (*like)(Node&)>
void random_uniform(Node& node) {
  const double low = node.number("low", 0.0);
  scaled(node, like(node), ir::Draw::Of::kUniform, node.number("high", 1.0) - low, low);
}

template <ValueId (*like)(Node&)>
void random_normal(Node& node) {
  scaled(node, like(node), ir::Draw::Of::kNormal, node.number("scale", 1.0), node.number("mean", 0.0));
}

/// 1 with the probability that the operand says.
void bernoulli(Node& node) {
  const ValueId p = node.in(0);
  const ValueId drawn = node.draw(p, {.of = ir::Draw::Of::kUniform});
  if (!node.good()) return;
  const auto number = static_cast<int>(node.integer("dtype", onnx_element_type(node.dtype(p))));
  const auto dtype = element_type(number);
  if (!dtype) return node.fail("Bernoulli of " + element_type_name(number) + " is not supported");
  node.result("cast", {node.emit("lt", {drawn, p})}, {{"dtype", *dtype}});
}

constexpr Translator kTable[] = {
    {"Bernoulli", 15, 27, bernoulli},
    {"Dropout", 7, 27, dropout},
    {"RandomNormal", 7, 27, random_normal<as_said>},
    {"RandomNormalLike", 7, 27, random_normal<like>},
    {"RandomUniform", 7, 27, random_uniform<as_said>},
    {"RandomUniformLike", 7, 27, random_uniform<like>},
};

}  // namespace

std::span<const Translator> random_translators() { return kTable; }

}  // namespace rannc::frontend
