// Calls of the operators of the backward pass of elementwise, folding and cutting operators; and of these operators
// themselves on shapes and numbers at which gradients go wrong.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

std::string text(const char* chars) { return chars; }

void add_backward(std::vector<OpCase>& cases) {
  for (const char* op :
       {"relu_grad", "tanh_grad", "sigmoid_grad", "silu_grad", "hardswish_grad", "hardsigmoid_grad", "softplus_grad",
        "gelu_grad", "leaky_relu_grad", "elu_grad", "softmax_grad", "log_softmax_grad"}) {
    cases.push_back({op, {f("batch,5"), f("batch,5")}});
  }
  for (const char* op : {"maximum_grad", "minimum_grad", "pow_base_grad", "pow_exponent_grad"}) {
    cases.push_back({op, {f("batch,3,4"), f("batch,1,4"), f("3,1")}});
    cases.push_back({op, {f("batch,3"), whole("batch,3", 0, 3), whole("batch,3", 0, 3)}});
  }
  const std::vector<OpCase> more = {
      {"gelu_grad", {f("batch,5"), f("batch,5")}, {{"approximate", text("tanh")}}},
      {"leaky_relu_grad", {f("batch,5"), whole("batch,5", -2, 3)}, {{"alpha", 0.2}}},
      {"elu_grad", {f("batch,5"), whole("batch,5", -2, 3)}, {{"alpha", 0.7}}},
      {"where_grad", {f("batch,3,4"), b("batch,1,4")}},
      {"where_grad", {f("batch,3"), b("")}},
      {"pow_base_grad", {f("batch,3"), f("batch,3"), i("", 3, 4)}},
      {"pow_base_grad", {single("batch,3"), single("batch,3"), f("batch,3")}},
      {"pow_exponent_grad", {single("batch,3"), single("batch,3"), f("batch,3")}},
      {"softmax_grad", {f("3,batch,4"), f("3,batch,4")}, {{"axis", Dim(0)}}},
      {"log_softmax_grad", {f("3,batch,4"), f("3,batch,4")}, {{"axis", Dim(-3)}}},
      {"prod_grad", {f("batch,1,1"), whole("batch,3,4", 0, 3)}, {{"axes", dims("1,-1")}, {"keepdim", true}}},
      {"prod_grad", {f("batch,4"), f("3,batch,4")}, {{"axes", dims("0")}}},
      {"prod_grad", {f(""), f("3,4")}},
      {"prod_grad", {f("batch"), f("batch,0")}, {{"axes", dims("1")}}},
      {"slice_grad",
       {f("batch,3,4")},
       {{"sizes", dims("batch,7,5")},
        {"axes", dims("1,2")},
        {"starts", dims("-3,0")},
        {"ends", dims("9223372036854775807,4")}}},
      {"slice_grad",
       {f("batch,4,2")},
       {{"sizes", dims("batch,7,5")},
        {"axes", dims("-2,2")},
        {"starts", dims("6,0")},
        {"ends", dims("-9223372036854775807,4")},
        {"steps", dims("-2,3")}}},
      {"slice_grad", {f("batch,3")}, {{"sizes", dims("batch,3")}, {"starts", dims("0")}, {"ends", dims("batch")}}},
      {"pad_grad",
       {f("batch,3,7,6")},
       {{"sizes", dims("batch,3,4,5")}, {"pads", dims("0,0,1,2,0,0,2,-1")}, {"mode", text("reflect")}}},
      {"pad_grad",
       {f("batch,3,7")},
       {{"sizes", dims("batch,3,4")}, {"pads", dims("0,0,1,0,0,2")}, {"mode", text("edge")}}},
      {"pad_grad",
       {f("batch,3,7,5")},
       {{"sizes", dims("batch,3,4,5")}, {"pads", dims("0,0,1,2,0,0,2,-2")}, {"mode", text("wrap")}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

// Samples that vary in the middle of axis 0, as after a transposition and a reshape.
Operand in_the_middle(std::string_view shape, int64_t outer) {
  Operand operand = f(shape);
  operand.type.batch.outer = outer;
  operand.type.batch.inner = *exact_div(operand.type.batch.inner, outer);
  return operand;
}

// Zeros, equal elements, numbers of both signs.
void add_numbers(std::vector<OpCase>& cases) {
  for (const char* op : {"maximum", "minimum"}) {
    cases.push_back({op, {whole("batch,3,4", -1, 2), whole("3,1", -1, 2)}});
    cases.push_back({op, {f(""), f("batch,3")}});
  }
  for (const char* op : {"add", "sub", "mul", "div", "mod"}) {
    cases.push_back({op, {f(""), f("batch,1,4")}});
    cases.push_back({op, {f("batch,3,1"), f("1,1,4")}});
    cases.push_back({op, {f("1"), f("")}});
    cases.push_back({op, {f("batch,0,4"), f("1,4")}});
  }
  for (const char* op : {"abs", "relu", "sign", "floor", "ceil", "leaky_relu", "elu", "silu", "gelu", "softplus",
                         "hardswish", "hardsigmoid", "erf", "tanh", "sigmoid", "exp", "sin", "cos", "neg"}) {
    cases.push_back({op, {whole("batch,9", -4, 5)}});
    cases.push_back({op, {f("")}});
  }
  const std::vector<OpCase> more = {
      {"mod", {whole("batch,9", -7, 8), f("9")}},
      {"div", {f("batch,3"), f("3")}, {{"rounding", text("floor")}}},
      {"pow", {whole("batch,9", 0, 3), whole("9", 0, 4)}},
      {"pow", {whole("batch,9", -3, 4), i("1,1,9", 0, 4)}},
      {"pow", {f("batch,1"), f("")}},
      {"pow", {single("batch,3"), f("1,1,3")}},
      {"pow", {f("batch,3,1"), single("1,1,2")}},
      {"pow", {f(""), f("batch,1,3")}},
      {"clamp", {whole("batch,9", -2, 4)}, {{"min", -1.0}, {"max", Dim(2)}}},
      {"clamp", {whole("batch,9", -2, 4)}, {{"max", 1.0}}},
      {"clamp", {f("batch,3")}, {{"min", 1.0}, {"max", 0.5}}},
      {"where", {b("3,1"), f("batch,1,4"), f("4")}},
      {"where", {b(""), f("batch,2"), f("1,1")}},
      {"cast", {f("batch,5")}, {{"dtype", DType::kF64}}},
      {"cast", {single("batch,5")}, {{"dtype", DType::kF64}}},
      {"identity", {f("")}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_folded(std::vector<OpCase>& cases) {
  for (const char* op : {"sum", "mean", "amax", "amin", "prod"}) {
    cases.push_back({op, {whole("batch,3,4", 0, 3)}, {{"axes", dims("1,-1")}}});
    cases.push_back({op, {whole("batch,4,2", 0, 2)}, {{"axes", dims("-2")}, {"keepdim", true}}});
    cases.push_back({op, {whole("3,batch,2", 0, 4)}, {{"axes", dims("0,2")}}});
    cases.push_back({op, {f("batch,1,4")}, {{"axes", dims("1")}}});
    cases.push_back({op, {f("batch,3")}, {{"axes", Shape{}}}});
    cases.push_back({op, {f("")}});
    cases.push_back({op, {f("batch,0,2")}, {{"axes", dims("2")}}});
  }
  for (const char* op : {"sum", "mean"}) {
    cases.push_back({op, {f("batch,3,4")}, {{"axes", dims("0,2")}}});
    cases.push_back({op, {f("5,4*batch,3")}, {{"axes", dims("1")}, {"keepdim", true}}});
    cases.push_back({op, {f("batch,3")}});
    cases.push_back({op, {f("batch,0")}, {{"axes", dims("1")}}});
    cases.push_back({op, {in_the_middle("6*batch,2", 3)}});
    cases.push_back({op, {in_the_middle("6*batch,2", 3)}, {{"axes", dims("0")}}});
  }
  for (const char* op : {"softmax", "log_softmax"}) {
    cases.push_back({op, {f("3,batch,4")}, {{"axis", Dim(-3)}}});
    cases.push_back({op, {f("batch,1")}, {{"axis", Dim(1)}}});
    cases.push_back({op, {f("batch,0")}, {{"axis", Dim(1)}}});
  }
}

void add_rearranged(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"reshape", {f("")}, {{"shape", dims("1,1")}}},
      {"reshape", {f("batch,0,3")}, {{"shape", dims("batch,3,0")}}},
      {"permute", {f("batch,3,4")}, {{"dims", dims("-1,0,-2")}}},
      {"permute", {f("")}, {{"dims", Shape{}}}},
      {"expand", {f("")}, {{"shape", dims("batch,3")}}},
      {"expand", {f("3,1")}, {{"shape", dims("batch,1,4")}}},
      {"expand", {f("batch,1")}, {{"shape", dims("batch,0")}}},
      {"tile", {f("batch,3,2")}, {{"repeats", dims("2,1,3")}}},
      {"tile", {f("4")}, {{"repeats", dims("batch")}}},
      {"tile", {f("batch,3")}, {{"repeats", dims("1,0")}}},
      {"tile", {f("batch,3")}, {{"repeats", dims("1,1")}}},
      {"unsqueeze", {f("")}, {{"axes", dims("0,1")}}},
      {"unsqueeze", {f("batch,0")}, {{"axes", dims("-2")}}},
      {"squeeze", {f("batch,1,0")}, {{"axes", dims("1")}}},
      {"squeeze", {f("batch,1,4,1")}, {{"axes", dims("-1")}}},
      {"concat", {f("batch,3"), f("batch,0"), f("batch,1")}, {{"axis", Dim(1)}}},
      {"concat", {f("2,batch")}, {{"axis", Dim(0)}}},
      {"split", {f("batch,3")}, {{"axis", Dim(1)}, {"sizes", dims("3")}}},
      {"split", {f("batch,4,2")}, {{"axis", Dim(-2)}, {"sizes", dims("1,0,3")}}, 3},
      {"split", {f("7,batch")}, {{"sizes", dims("2,4,1")}}, 3},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_cut(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"slice",
       {f("batch,7,5")},
       {{"axes", dims("-1,1")}, {"starts", dims("-1,1")}, {"ends", dims("-6,6")}, {"steps", dims("-1,3")}}},
      {"slice", {f("batch,7,5")}, {{"starts", dims("0,2,-2")}, {"ends", dims("batch,-1,9")}}},
      {"slice", {f("batch,1")}, {{"axes", dims("1")}, {"starts", dims("0")}, {"ends", dims("1")}}},
      {"slice", {f("batch,0")}, {{"axes", dims("1")}, {"starts", dims("0")}, {"ends", dims("3")}}},
      {"slice", {f("batch,4"), list("-1"), list("-5"), list("1"), list("-3")}},
      {"pad", {f("batch,3"), list("0,2,0,1")}},
      {"pad", {f("batch,3,4")}, {{"pads", dims("0,-1,2,0,-1,-3")}}},
      {"pad", {f("batch,4")}, {{"pads", dims("0,2,0,3")}, {"mode", text("reflect")}}},
      {"pad", {f("batch,2,4,5"), list("0,0,1,-2,0,0,2,1")}, {{"mode", text("reflect")}}},
      {"pad", {f("batch,2,3,4,5")}, {{"pads", dims("0,0,1,2,0,0,0,1,1,3")}, {"mode", text("reflect")}}},
      {"pad", {f("batch,2,3,4,5")}, {{"pads", dims("0,0,1,2,0,0,0,1,5,-3")}, {"mode", text("edge")}}},
      {"pad", {f("batch,2,4,5")}, {{"pads", dims("0,0,-1,2,0,0,6,-1")}, {"mode", text("edge")}}},
      {"pad", {f("batch,4")}, {{"pads", dims("0,2,0,3")}, {"mode", text("wrap")}}},
      {"pad", {f("batch,2,4,5")}, {{"pads", dims("0,0,4,2,0,0,3,1")}, {"mode", text("wrap")}}},
      {"pad", {f("batch,2,4,5")}, {{"pads", dims("0,0,-1,2,0,0,3,-2")}, {"mode", text("wrap")}}},
      {"pad", {f("batch,2,3,4,5")}, {{"pads", dims("0,0,1,0,2,0,0,0,3,1")}, {"mode", text("wrap")}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

void add_grad_elementwise(std::vector<OpCase>& cases) {
  add_backward(cases);
  add_numbers(cases);
  add_folded(cases);
  add_rearranged(cases);
  add_cut(cases);
}

}  // namespace rannc::ir::testing
