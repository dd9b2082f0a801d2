// Builds graphs with weights from a fixed sequence.
#include "tests/runtime/support/toy_graphs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/gradient/row_gradients.h"
#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "tests/support/totals.h"

namespace rannc::testing {
namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

class GraphBuilder {
 public:
  explicit GraphBuilder(DType dtype) : dtype_(dtype) { graph_.set_batch_symbol("batch"); }

  ValueId input(const char* name, DType dtype, Shape rest) {
    rest.insert(rest.begin(), Dim::symbol("batch"));
    const ValueId value =
        graph_.add_value(ir::ValueKind::kInput, name, {.dtype = dtype, .shape = rest, .batch = {.axis = 0}});
    graph_.add_input(value);
    return value;
  }
  ValueId parameter(const char* name, const std::vector<int64_t>& sizes) {
    Shape shape(sizes.begin(), sizes.end());
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    return graph_.add_value(ir::ValueKind::kParameter, name, {.dtype = dtype_, .shape = shape}, data(count));
  }
  ValueId buffer(const char* name, const std::vector<double>& values) {
    const ir::ValueType type = {.dtype = dtype_, .shape = Shape{static_cast<int64_t>(values.size())}};
    return graph_.add_value(ir::ValueKind::kBuffer, name, type, bytes_of(values));
  }
  ValueId constant(const char* name, double value) {
    return graph_.add_value(ir::ValueKind::kConstant, name, {.dtype = dtype_, .shape = Shape{}}, bytes_of({value}));
  }
  ValueId task(const char* op, std::initializer_list<ValueId> inputs, ir::Attributes attributes = {}) {
    const ValueId value = graph_.add(ir::core(op), inputs, std::move(attributes));
    ir::infer_types(graph_, graph_.value(value).producer).value();
    return value;
  }
  ValueId normalized(const std::array<ValueId, 5>& inputs, ir::Attributes attributes) {
    const TaskId task =
        graph_.add_task(ir::core("batch_norm"), inputs, std::move(attributes), std::vector<std::string>(3));
    ir::infer_types(graph_, task).value();
    const auto made = graph_.outputs(task);
    graph_.add_statistics({made[1], made[2], inputs[3], inputs[4]});
    return made[0];
  }
  ValueId random(const char* op, ValueId value, const ir::RandomInput& draw) {
    return task(op, {value, graph_.add_random_input("", graph_.type(value), draw)});
  }
  // With a loss that is divided by the number of elements of an input.
  ir::Graph finish_by_elements(ValueId output, ValueId numerator, ValueId counted) {
    return finish(output, {.numerator = numerator, .divisor = count_elements(graph_, counted)});
  }
  ir::Graph finish(ValueId output, const ir::LossTerm& loss) {
    graph_.add_loss(loss);
    return finish(output);
  }
  ir::Graph finish(ValueId output) {
    graph_.add_output(output);
    return std::move(graph_);
  }
  ir::Graph& graph() { return graph_; }

 private:
  ir::TensorData data(int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(0.4 * std::sin(1.7 * static_cast<double>(++drawn_)) + 0.05);
    return bytes_of(values);
  }
  ir::TensorData bytes_of(const std::vector<double>& values) const { return ir::encode_numbers(dtype_, values); }

  DType dtype_;
  ir::Graph graph_;
  int drawn_ = 0;
};

}  // namespace

namespace {

constexpr double kDropped = 0.25;

/// A loss in the first stage, between tasks 1 and 2, whose samples read a count that also multiplies the last loss, and
/// the mean of the result as a metric.
class CountedLosses {
 public:
  CountedLosses(GraphBuilder& builder, ValueId x, ValueId target) : builder_(builder) {
    ir::Graph& graph = builder.graph();
    elements_ = count_elements(graph, target);
    const auto positive = [](ir::Graph& body, ValueId elements) {
      const std::vector<double> zero = {0};
      const ValueId none = ir::add_constant(body, "zero", body.type(elements).dtype, {}, std::span<const double>(zero));
      const ValueId found = body.add(ir::core("gt"), {elements, none});
      ir::infer_types(body, body.producer(found)).value();
      return found;
    };
    of_x_ = count_elements(graph, x, positive);
    of_target_ = count_elements(graph, target, positive);
  }
  void add_first(ValueId activation, DType dtype) {
    ir::Graph& graph = builder_.graph();
    const ValueId given = graph.add_value(ir::ValueKind::kInput, "whole", {.dtype = dtype, .shape = Shape{}});
    ir::Totals totals = graph.totals();
    totals.given.push_back({given, of_target_});
    graph.set_totals(std::move(totals));
    const ValueId first = builder_.task("sum", {builder_.task("mul", {activation, given})});
    graph.add_loss({.numerator = first, .weight = 0.01, .divisor = of_x_});
  }
  void add_last(ValueId result, ValueId loss) {
    ir::Graph& graph = builder_.graph();
    graph.add_loss({.numerator = loss, .weight = 0.1, .factor = of_target_, .divisor = elements_});
    add_metric(graph, builder_.task("sum", {result}));
  }

 private:
  GraphBuilder& builder_;
  uint32_t elements_ = 0, of_x_ = 0, of_target_ = 0;
};

/// With dropout after the first two activations, or without.
ir::Graph skip_and_tie(DType dtype, bool drops, bool counts = false) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), target = g.input("target", dtype, {6});
  const ValueId w0 = g.parameter("w0", {6, 6}), b0 = g.parameter("b0", {6}), w1 = g.parameter("w1", {6, 6});
  const ValueId b1 = g.parameter("b1", {6}), b2 = g.parameter("b2", {6});
  const ValueId w2 = g.parameter("w2", {6, 6}), b3 = g.parameter("b3", {6});
  const ir::Attributes oi = {{"layout", std::string("oi")}};
  const auto dropped = [&](ValueId value, uint32_t key) {
    return drops ? g.random("mul", value, {ir::RandomInput::Of::kBernoulli, kDropped, key}) : value;
  };
  CountedLosses counted(g, x, target);
  const ValueId a = g.task("relu", {g.task("linear", {x, w0, b0}, oi)});
  if (counts) counted.add_first(a, dtype);
  const ValueId b = g.task("tanh", {g.task("linear", {dropped(a, 1), w1, b1}, oi)});
  const ValueId c =
      g.task("gelu", {g.task("linear", {dropped(b, 2), w1, b2}, oi)}, {{"approximate", std::string("none")}});
  const ValueId y = g.task("linear", {g.task("add", {c, a}), w2, b3}, oi);
  const ValueId loss = g.task("mse_sum", {y, target});
  if (counts) {
    counted.add_last(y, loss);
    return g.finish(y);
  }
  g.graph().set_totals({});
  return g.finish_by_elements(y, loss, target);
}

}  // namespace

ir::Graph skip_and_tie(DType dtype) { return skip_and_tie(dtype, false); }
ir::Graph skip_tie_and_dropout(DType dtype) { return skip_and_tie(dtype, true); }
ir::Graph counted_losses(DType dtype) { return skip_and_tie(dtype, true, true); }

ir::Graph tied_thrice(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), target = g.input("target", dtype, {6});
  const ValueId w = g.parameter("w", {6, 6}), b0 = g.parameter("b0", {6}), b1 = g.parameter("b1", {6});
  const ValueId b2 = g.parameter("b2", {6}), last = g.parameter("last", {6, 6});
  const ir::Attributes oi = {{"layout", std::string("oi")}};
  const ValueId a = g.task("tanh", {g.task("linear", {x, w, b0}, oi)});
  const ValueId b = g.task("sigmoid", {g.task("linear", {a, w, b1}, oi)});
  const ValueId y = g.task("linear", {g.task("linear", {b, w, b2}, oi), last}, oi);
  return g.finish_by_elements(y, g.task("mse_sum", {y, target}), target);
}

ir::Graph chain(DType dtype, uint32_t layers) {
  GraphBuilder g(dtype);
  const ValueId target = g.input("target", dtype, {6});
  ValueId y = g.input("x", dtype, {6});
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const ValueId weight = g.parameter(("w" + std::to_string(layer)).c_str(), {6, 6});
    y = g.task("linear", {y, weight}, {{"layout", std::string("oi")}});
  }
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

ir::Graph token_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId tokens = g.input("tokens", DType::kI64, {5}), labels = g.input("labels", DType::kI64, {5});
  const ValueId table = g.parameter("table", {11, 8}), scale = g.parameter("scale", {8}),
                bias = g.parameter("bias", {8});
  const ValueId w0 = g.parameter("w0", {8, 8}), w1 = g.parameter("w1", {8, 8}), extra = g.parameter("extra", {8, 8});
  const ValueId half = g.constant("half", 0.5);
  const ir::Attributes io = {{"layout", std::string("io")}};
  const ValueId embedded = g.task("gather", {table, tokens}, {{"axis", Dim(0)}});
  const ValueId normal = g.task("layer_norm", {embedded, scale, bias}, {{"axis", Dim(2)}, {"epsilon", 1e-5}});
  const ValueId chosen = g.task("argmax", {normal}, {{"axis", Dim(2)}, {"keepdim", false}});
  const ValueId h = g.task("sigmoid", {g.task("linear", {normal, w0}, io)});
  const ValueId mixed = g.task("add", {g.task("mul", {embedded, half}), g.task("linear", {h, w1}, io)});
  const ValueId looked_up = g.task("gather", {extra, chosen}, {{"axis", Dim(0)}});
  const ValueId total = g.task("add", {g.task("add", {mixed, looked_up}), embedded});
  const ValueId transposed = g.task("permute", {table}, {{"dims", Shape{1, 0}}});
  const ValueId logits = g.task("matmul", {total, transposed});
  const ValueId loss = g.task("cross_entropy_sum", {logits, labels}, {{"axis", Dim(2)}, {"ignore_index", Dim(-100)}});
  return g.finish(logits, {.numerator = loss, .divisor = count_others(g.graph(), labels, -100)});
}

ir::Graph large_table(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId tokens = g.input("tokens", DType::kI64, {5}), target = g.input("target", dtype, {5, 4});
  const int64_t rows = std::max<int64_t>(8192, ir::kRowGradientTableBytes / (32 * ir::byte_size(dtype)));
  const ValueId table = g.parameter("table", {rows, 32}), w0 = g.parameter("w0", {4, 32}), b0 = g.parameter("b0", {4});
  const ValueId embedded = g.task("gather", {table, tokens}, {{"axis", Dim(0)}});
  const ValueId y = g.task("tanh", {g.task("linear", {embedded, w0, b0}, {{"layout", std::string("oi")}})});
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

ir::Graph dropout_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), target = g.input("target", dtype, {6});
  const ValueId w0 = g.parameter("w0", {6, 6}), w1 = g.parameter("w1", {6, 6});
  const ir::Attributes oi = {{"layout", std::string("oi")}};
  const ValueId a = g.random("mul", g.task("linear", {x, w0}, oi), {ir::RandomInput::Of::kBernoulli, 0.4, 1});
  const ValueId b = g.random("mul", g.task("tanh", {a}), {ir::RandomInput::Of::kBernoulli, 0.4, 2});
  const ValueId y = g.task("linear", {b, w1}, oi);
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

ir::Graph noise_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), target = g.input("target", dtype, {6});
  const ValueId w0 = g.parameter("w0", {6, 6}), w1 = g.parameter("w1", {6, 6});
  const ir::Attributes oi = {{"layout", std::string("oi")}};
  const ValueId a = g.random("add", g.task("linear", {x, w0}, oi), {.of = ir::RandomInput::Of::kNormal, .key = 1});
  const ValueId b = g.random("mul", g.task("tanh", {a}), {.of = ir::RandomInput::Of::kUniform, .key = 2});
  const ValueId y = g.task("linear", {b, w1}, oi);
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

namespace {

const ir::Attributes kJoint = {{"training", true}, {"epsilon", 1e-5}, {"momentum", 0.3}, {"synchronised", true}};

ir::Graph normalised_twice(DType dtype, const ir::Attributes& training) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {3, 4}), target = g.input("target", dtype, {3, 4});
  const auto normalize = [&](ValueId value, const std::string& number) {
    const ValueId scale = g.parameter(("scale" + number).c_str(), {3}),
                  bias = g.parameter(("bias" + number).c_str(), {3});
    const ValueId mean = g.buffer(("mean" + number).c_str(), {0.5, 0, -1}),
                  variance = g.buffer(("variance" + number).c_str(), {1, 2, 3});
    return g.normalized({value, scale, bias, mean, variance}, training);
  };
  const ValueId y = normalize(g.task("tanh", {normalize(x, "0")}), "1");
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

}  // namespace

ir::Graph norm_model(DType dtype) {
  return normalised_twice(dtype, {{"training", true}, {"epsilon", 1e-5}, {"momentum", 0.3}});
}

ir::Graph joint_norm_model(DType dtype) { return normalised_twice(dtype, kJoint); }

ir::Graph permuted_joint_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {3, 4}), target = g.input("target", dtype, {3, 4});
  const ValueId weight = g.parameter("weight", {4, 4});
  const ValueId scale = g.parameter("scale", {3}), bias = g.parameter("bias", {3});
  const ValueId mean = g.buffer("mean", {0.5, 0, -1}), variance = g.buffer("variance", {1, 2, 3});
  const ValueId permuted = g.task("permute", {weight}, {{"dims", Shape{1, 0}}});
  const ValueId normal = g.normalized({g.task("matmul", {x, permuted}), scale, bias, mean, variance}, kJoint);
  const ValueId y = g.task("matmul", {normal, permuted});
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

ir::Graph sums_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), target = g.input("target", dtype, {6});
  const ValueId w0 = g.parameter("w0", {6, 6}), w1 = g.parameter("w1", {6, 6}), v = g.parameter("v", {6});
  const ValueId half = g.constant("half", 0.5);
  const ir::Attributes oi = {{"layout", std::string("oi")}};
  const ValueId a = g.task("tanh", {g.task("linear", {x, w0}, oi)});
  const ValueId p = g.task("sum", {g.task("mul", {a, a})}, {{"axes", Shape{0}}});
  const ValueId y = g.task("linear", {a, w1}, oi);
  const ValueId q = g.task("mul", {p, v});
  const ValueId r = g.task("mul", {g.task("sum", {g.task("add", {q, p})}), half});
  const ValueId loss = g.task("add", {g.task("mse_sum", {y, target}), r});
  return g.finish_by_elements(y, loss, target);
}

ir::Graph three_readers(DType dtype, const std::array<double, 3>& factors) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {6}), w = g.parameter("w", {6, 6}), b = g.parameter("b", {6});
  const ValueId v = g.task("linear", {x, w, b}, {{"layout", std::string("oi")}});
  std::array<ValueId, 3> parts;
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = g.task("mul", {v, g.constant(("f" + std::to_string(i)).c_str(), factors[i])});
  const ValueId y = g.task("add", {g.task("add", {parts[0], parts[1]}), parts[2]});
  const ValueId loss = g.task("sum", {y});
  return g.finish_by_elements(y, loss, x);
}

ir::Graph attention_model(DType dtype) {
  GraphBuilder g(dtype);
  const ValueId x = g.input("x", dtype, {5, 16}), target = g.input("target", dtype, {5, 16});
  const ValueId in = g.parameter("in", {16, 48}), out = g.parameter("out", {16, 16});
  const ir::Attributes io = {{"layout", std::string("io")}};
  const ValueId projected = g.task("linear", {x, in}, io);
  const TaskId split =
      g.graph().add_task(ir::core("split"), std::array{projected}, {{"axis", Dim(2)}, {"sizes", Shape{16, 16, 16}}},
                         std::vector<std::string>(3));
  ir::infer_types(g.graph(), split).value();
  std::array<ValueId, 3> heads;
  for (size_t i = 0; i < heads.size(); ++i) {
    const Shape shape{Dim::symbol("batch"), 5, 2, 8};
    const ValueId apart = g.task("reshape", {g.graph().outputs(split)[i]}, {{"shape", shape}});
    heads[i] = g.task("permute", {apart}, {{"dims", Shape{0, 2, 1, 3}}});
  }
  const ValueId mixed = g.task("attention", {heads[0], heads[1], heads[2]},
                               {{"scale", 0.35}, {"order", Shape{0, 2, 1, 3}}, {"causal", true}});
  const ValueId joined = g.task("reshape", {mixed}, {{"shape", Shape{Dim::symbol("batch"), 5, 16}}});
  const ValueId y = g.task("linear", {joined, out}, io);
  const ValueId loss = g.task("mse_sum", {y, target});
  return g.finish_by_elements(y, loss, target);
}

}  // namespace rannc::testing
