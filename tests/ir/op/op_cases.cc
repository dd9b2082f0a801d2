#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {

Shape dims(std::string_view text) {
  Shape shape;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    shape.push_back(Dim::parse(text.substr(0, end)).value());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shape;
}

namespace {

Operand made(DType dtype, std::string_view text) {
  Operand operand;
  operand.type.dtype = dtype;
  operand.type.shape = dims(text);
  for (size_t axis = 0; axis < operand.type.shape->size(); ++axis) {
    const Dim& dim = (*operand.type.shape)[axis];
    if (dim.uses("batch")) operand.type.batch = {static_cast<int32_t>(axis), 1, *exact_div(dim, Dim::symbol("batch"))};
  }
  return operand;
}

void add_elementwise(std::vector<OpCase>& cases) {
  for (const char* op : {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "mod"}) {
    cases.push_back({op, {f("batch,3,4"), f("batch,1,4")}});
    cases.push_back({op, {f("4"), f("batch,3,4")}});
  }
  for (const char* op : {"add", "sub", "mul", "maximum", "minimum", "mod"}) {
    cases.push_back({op, {i("batch,3", -5, 6), i("3", 1, 4)}});
  }
  for (const char* op :
       {"neg",     "abs",       "exp",         "log",   "sqrt",  "rsqrt",    "reciprocal", "erf",        "tanh",
        "sigmoid", "relu",      "floor",       "ceil",  "sin",   "cos",      "atan",       "sign",       "softplus",
        "silu",    "hardswish", "hardsigmoid", "isnan", "isinf", "identity", "gelu",       "leaky_relu", "elu"}) {
    cases.push_back({op, {f("batch,5")}});
  }
  for (const char* op : {"neg", "abs", "relu", "sign"}) cases.push_back({op, {i("batch,5", -3, 4)}});
  for (const char* op : {"logical_and", "logical_or", "logical_xor"}) cases.push_back({op, {b("batch,4"), b("4")}});
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"})
    cases.push_back({op, {i("batch,4", 0, 3), i("1,4", 0, 3)}});
  const std::vector<OpCase> more = {
      {"div", {i("batch,6", -9, 10), i("6", 2, 4)}, {{"rounding", std::string("trunc")}}},
      {"div", {i("batch,6", -9, 10), i("6", -4, -1)}, {{"rounding", std::string("floor")}}},
      {"div", {list("12*batch,7"), list("4,2")}, {{"rounding", std::string("trunc")}}},
      {"pow", {f("batch,3"), i("", 3, 4)}},
      {"pow", {i("batch,3", 1, 4), i("3", 0, 3)}},
      {"logical_not", {b("batch,4")}},
      {"gelu", {f("batch,5")}, {{"approximate", std::string("tanh")}}},
      {"leaky_relu", {f("batch,5")}, {{"alpha", 0.2}}},
      {"elu", {f("batch,5")}, {{"alpha", 0.7}}},
      {"clamp", {f("batch,5")}, {{"min", -0.5}, {"max", 0.25}}},
      {"clamp", {i("batch,5", -9, 9)}, {{"max", Dim(3)}}},
      {"clamp", {f("batch,5")}, {{"min", 0.5}}},
      {"where", {b("batch,1,4"), f("batch,3,4"), f("")}},
      {"cast", {f("batch,5")}, {{"dtype", DType::kI32}}},
      {"cast", {i("batch,5", -1, 2)}, {{"dtype", DType::kBool}}},
      {"cast", {b("batch,5")}, {{"dtype", DType::kF64}}},
      {"add", {list("batch,12"), list("1")}},
      {"eq", {list("batch,12"), list("-1")}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_shapes(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"reshape", {f("batch,12,6")}, {{"shape", dims("-1,6")}}},
      {"reshape", {f("12*batch,6")}, {{"shape", dims("-1,12,2,3")}}},
      {"reshape", {f("batch,4,3,5")}, {{"shape", dims("4*batch,3,5")}}},
      {"reshape", {f("5,4*batch,3")}, {{"shape", dims("5,-1,4,3")}}},
      {"reshape", {f("batch,12,6"), list("batch,12,2,3")}},
      {"reshape", {f("2,3")}, {{"shape", dims("6")}}},
      {"permute", {f("batch,3,4,5")}, {{"dims", dims("2,0,3,1")}}},
      {"expand", {f("1,4"), list("batch,4")}},
      {"expand", {f("batch,1,4")}, {{"shape", dims("2,1,3,1")}}},
      {"tile", {f("batch,3")}, {{"repeats", dims("1,2")}}},
      {"tile", {f("batch,3"), list("2,1")}},
      {"unsqueeze", {f("batch,4")}, {{"axes", dims("0,-1")}}},
      {"squeeze", {f("1,batch,1,4")}, {{"axes", dims("0,2")}}},
      {"squeeze", {f("1,4")}},
      {"shape", {f("batch,3,4")}},
      {"shape", {f("batch,3,4")}, {{"start", Dim(0)}, {"end", Dim(-1)}}},
      {"concat", {f("batch,3"), f("batch,2")}, {{"axis", Dim(-1)}}},
      {"concat", {list("batch,3"), list("12")}, {{"axis", Dim(0)}}},
      {"concat", {f("batch,3"), f("batch,3"), f("batch,3")}, {{"axis", Dim(0)}}},
      {"concat", {f("2,2*batch"), f("2,2*batch")}, {{"axis", Dim(-1)}}},
      {"split", {f("batch,7")}, {{"axis", Dim(1)}, {"sizes", dims("3,4")}}, 2},
      {"split", {f("batch,7"), list("1,2,4")}, {{"axis", Dim(-1)}}, 3},
      {"slice",
       {f("batch,7,5")},
       {{"axes", dims("1,2")}, {"starts", dims("-3,0")}, {"ends", dims("9223372036854775807,4")}}},
      {"slice",
       {f("batch,7")},
       {{"axes", dims("1")}, {"starts", dims("6")}, {"ends", dims("-9223372036854775807")}, {"steps", dims("-2")}}},
      {"slice", {f("batch,7")}, {{"axes", dims("1")}, {"starts", dims("5")}, {"ends", dims("2")}}},
      {"slice", {f("batch,7"), list("1"), list("6"), list("-1"), list("2")}},
      {"slice",
       {f("4*batch,3")},
       {{"axes", dims("0")}, {"starts", dims("1")}, {"ends", dims("9223372036854775807")}, {"steps", dims("2")}}},
      {"slice", {list("batch,3,4"), list("-1"), list("9223372036854775807")}},
      {"pad", {f("batch,3,4")}, {{"pads", dims("0,1,0,0,2,1")}, {"value", 2.5}}},
      {"pad", {f("batch,3,4")}, {{"pads", dims("0,0,-1,0,0,2")}}},
      {"pad", {f("batch,3,4,5")}, {{"pads", dims("0,0,1,2,0,0,1,0")}, {"mode", std::string("reflect")}}},
      {"pad", {f("batch,3,4")}, {{"pads", dims("0,0,1,0,0,2")}, {"mode", std::string("edge")}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_index(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"gather", {f("9,4"), i("batch,3", -9, 9)}, {{"axis", Dim(0)}}},
      {"gather", {f("batch,5,4"), i("3", -5, 5)}, {{"axis", Dim(1)}}},
      {"gather", {f("batch,5,4"), i("", -5, 5)}, {{"axis", Dim(1)}}},
      {"gather", {f("5,4,3"), i("2,batch", 0, 4)}, {{"axis", Dim(-2)}}},
      {"gather", {list("batch,3,4"), list("-1,0")}, {{"axis", Dim(0)}}},
      {"gather_nd", {f("3,4,5"), i("batch,2,2", -3, 3)}},
      {"gather_nd", {f("6,5,batch,4"), i("2,3,2", -5, 5)}},
      {"gather_nd", {f("batch,4,5"), i("batch,2,1", -4, 4)}, {{"batch_dims", Dim(1)}}},
      {"gather_nd", {f("batch,4"), i("batch,3,2", -1, 1)}, {}, 1, false},
      {"gather_elements", {f("batch,5"), i("batch,3", -5, 5)}, {{"axis", Dim(1)}}},
      {"gather_elements", {f("9,5"), i("batch,5", -9, 9)}, {{"axis", Dim(0)}}},
      {"cumsum", {f("batch,5")}, {{"axis", Dim(-1)}}},
      {"cumsum", {i("batch,5", 0, 4)}, {{"axis", Dim(1)}, {"exclusive", true}, {"reverse", true}}},
      {"trilu", {f("batch,4,5")}, {{"upper", true}, {"diagonal", Dim(1)}}},
      {"trilu", {f("batch,4,5")}, {{"upper", false}}},
      {"one_hot", {i("batch,3", -4, 6)}, {{"depth", Dim(4)}}},
      {"one_hot", {i("batch,3", 0, 4)}, {{"depth", Dim(4)}, {"axis", Dim(0)}}},
      {"range", {scalar("0"), scalar("batch"), scalar("1")}, {}, 1, false},
      {"range", {}, {{"start", Dim(7)}, {"limit", Dim(-2)}, {"delta", Dim(-2)}, {"dtype", DType::kI64}}},
      {"range", {}, {{"start", 0.5}, {"limit", 2.5}, {"delta", 0.25}, {"dtype", DType::kF64}}},
      {"full", {list("batch,3")}, {{"value", 1.5}, {"dtype", DType::kF64}}, 1, false},
      {"full", {}, {{"shape", Shape{}}, {"value", Dim::symbol("batch")}, {"dtype", DType::kI64}}, 1, false},
      {"full", {}, {{"shape", dims("3,2")}, {"value", true}, {"dtype", DType::kBool}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_reduce(std::vector<OpCase>& cases) {
  for (const char* op : {"sum", "mean", "amax", "amin", "prod"}) {
    cases.push_back({op, {f("batch,3,4")}, {{"axes", dims("1,-1")}, {"keepdim", true}}});
    cases.push_back({op, {f("3,batch,4")}, {{"axes", dims("0")}}});
    cases.push_back({op, {f("3,4")}});
  }
  for (const char* op : {"sum", "amax", "amin", "prod"}) {
    cases.push_back({op, {i("batch,5", -3, 4)}, {{"axes", dims("1")}}});
  }
  for (const char* op : {"softmax", "log_softmax"}) cases.push_back({op, {f("batch,3,4")}, {{"axis", Dim(-1)}}});
  cases.push_back({"softmax", {f("batch,3,4")}, {{"axis", Dim(1)}, {"hidden_rows", std::string("zero")}}});
  cases.push_back({"argmax", {f("batch,5")}, {{"axis", Dim(-1)}}});
  cases.push_back({"argmax", {f("3,batch")}, {{"axis", Dim(0)}, {"keepdim", true}}});
  cases.push_back({"prod", {list("batch,3,4")}, {{"axes", dims("0")}}});
  cases.push_back({"total", {f("3,4")}});
}

void add_networks(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"matmul", {f("batch,2,3,4"), f("batch,2,4,5")}},
      {"matmul", {f("batch,3,4"), f("4,5")}},
      {"matmul", {f("6,3"), f("batch,3,2")}},
      {"matmul", {f("batch,3,4"), f("4")}},
      {"matmul", {f("4"), f("batch,4,5")}},
      {"linear", {f("batch,3,4"), f("5,4"), f("5")}},
      {"linear", {f("3*batch,4"), f("4,5"), none()}, {{"layout", std::string("io")}}},
      {"layer_norm", {f("batch,3,4"), f("4"), f("4")}, {{"axis", Dim(-1)}, {"epsilon", 1e-12}}},
      {"layer_norm", {f("batch,3,4"), f("3,4")}, {{"axis", Dim(1)}}},
      {"rms_norm", {f("batch,3,4"), f("4")}, {{"axis", Dim(-1)}, {"epsilon", 1e-6}}},
      {"batch_norm", {f("batch,3,4"), f("3"), f("3"), f("3"), f("3")}, {{"epsilon", 1e-3}}},
      {"batch_norm", {f("batch,3,4,2"), f("3"), f("3"), f("3"), f("3")}, {{"training", true}}, 3, false},
      {"batch_norm",
       {f("batch,3,4,2"), f("3"), f("3"), f("3"), f("3")},
       {{"training", true}, {"channels_last", true}},
       3,
       false},
      {"conv",
       {f("batch,4,9,8"), f("6,2,3,3"), f("6")},
       {{"strides", dims("2,1")}, {"pads", dims("1,1,1,1")}, {"groups", Dim(2)}}},
      {"conv",
       {f("batch,4,6,5"), f("6,4,3,3"), f("6")},
       {{"strides", dims("2,1")}, {"pads", dims("1,1,1,1")}, {"channels_last", true}}},
      {"conv",
       {f("batch,4,6,5"), f("6,4,1,1"), f("6")},
       {{"algorithm", std::string("linear")}, {"channels_last", true}}},
      {"conv",
       {f("batch,4,6,5"), f("6,4,1,1")},
       {{"algorithm", std::string("linear")}, {"strides", dims("2,3")}, {"channels_last", true}}},
      {"contiguous", {f("batch,4,3,2")}, {{"channels_last", true}}},
      {"contiguous", {f("batch,4,3,2")}},
      {"conv", {f("batch,2,9"), f("3,2,3")}, {{"pads", dims("2,0")}, {"dilations", dims("2")}}},
      {"conv", {f("batch,2,4,5,6"), f("3,2,2,2,2"), f("3")}},
      {"max_pool", {f("batch,2,7,6")}, {{"kernel", dims("3,2")}, {"strides", dims("2,2")}, {"pads", dims("1,0,1,0")}}},
      {"max_pool", {f("batch,2,7,8")}, {{"kernel", dims("2,3")}, {"strides", dims("2,2")}, {"ceil", true}}},
      {"max_pool", {f("batch,2,7")}, {{"kernel", dims("2")}, {"pads", dims("0,1")}}},
      {"max_pool",
       {f("batch,2,5,6")},
       {{"kernel", dims("2,3")}, {"strides", dims("3,2")}, {"pads", dims("0,1,2,0")}, {"ceil", true}}},
      {"avg_pool",
       {f("batch,2,5")},
       {{"kernel", dims("2")},
        {"strides", dims("3")},
        {"pads", dims("0,2")},
        {"ceil", true},
        {"count_include_pad", true}}},
      {"avg_pool", {f("batch,2,7,6")}, {{"kernel", dims("3,3")}, {"strides", dims("2,2")}, {"pads", dims("1,1,1,1")}}},
      {"avg_pool", {f("batch,2,7")}, {{"kernel", dims("3")}, {"pads", dims("0,2")}, {"count_include_pad", true}}},
      {"adaptive_avg_pool", {f("batch,2,7,6")}, {{"size", dims("3,2")}}},
      {"cross_entropy_sum", {f("batch,5"), i("batch", 0, 5)}, {{"axis", Dim(-1)}}},
      {"cross_entropy_sum",
       {f("batch,5,3"), i("batch,3", 0, 5)},
       {{"axis", Dim(1)}, {"ignore_index", Dim(2)}},
       1,
       false},
      {"mse_sum", {f("batch,5"), f("batch,5")}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

Operand f(std::string_view shape) { return made(DType::kF64, shape); }
Operand single(std::string_view shape) { return made(DType::kF32, shape); }
Operand whole(std::string_view shape, int64_t low, int64_t high) {
  Operand operand = f(shape);
  operand.low = low;
  operand.high = high;
  operand.whole = true;
  return operand;
}
Operand i(std::string_view shape, int64_t low, int64_t high) {
  Operand operand = made(DType::kI64, shape);
  operand.low = low;
  operand.high = high;
  return operand;
}
Operand b(std::string_view shape) {
  Operand operand = made(DType::kBool, shape);
  operand.high = 2;
  return operand;
}
Operand none() {
  Operand operand;
  operand.absent = true;
  return operand;
}
Operand list(std::string_view contents) {
  Operand operand;
  operand.type.dtype = DType::kI64;
  operand.type.contents = dims(contents);
  operand.type.shape = Shape{static_cast<int64_t>(operand.type.contents->size())};
  return operand;
}
Operand scalar(std::string_view content) {
  Operand operand = list(content);
  operand.type.shape = Shape{};
  return operand;
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> kCases = [] {
    std::vector<OpCase> cases;
    add_elementwise(cases);
    add_shapes(cases);
    add_index(cases);
    add_reduce(cases);
    add_networks(cases);
    add_grad_elementwise(cases);
    add_grad_dense(cases);
    add_control(cases);
    add_resample(cases);
    add_recurrent(cases);
    add_scatter(cases);
    add_bits(cases);
    add_quantize(cases);
    add_group_norm(cases);
    add_loss_cases(cases);
    add_attention(cases);
    return cases;
  }();
  return kCases;
}

bool is_workspace(const OpCase& c, size_t result, const ValueType& type) {
  return type.dtype == DType::kU8 && result >= core(c.op).min_results();
}

bool is_of_backward_pass(const OpCase& c) { return core(c.op).family.starts_with("grad_"); }

Shape concrete(Shape shape, int64_t batch) {
  for (Dim& dim : shape) dim = dim.substitute("batch", Dim(batch));
  return shape;
}

OpCase with_batch(OpCase c, int64_t batch) {
  for (Operand& operand : c.operands) {
    if (operand.absent) continue;
    operand.type.shape = concrete(*operand.type.shape, batch);
    operand.type.batch = {};
    if (operand.type.contents) operand.type.contents = concrete(*operand.type.contents, batch);
  }
  Attributes attributes = c.attributes;
  for (const auto& [name, value] : c.attributes) {
    if (const auto* shape = std::get_if<Shape>(&value)) attributes.set(name, concrete(*shape, batch));
    if (const auto* dim = std::get_if<Dim>(&value)) attributes.set(name, dim->substitute("batch", Dim(batch)));
  }
  c.attributes = attributes;
  return fitted(std::move(c));
}

std::string describe(const OpCase& c) {
  std::string text = c.op + "(";
  for (const Operand& operand : c.operands) {
    text += operand.absent ? "none " : std::string(str(operand.type.dtype)) + str(*operand.type.shape) + " ";
  }
  return text + ")";
}

}  // namespace rannc::ir::testing
