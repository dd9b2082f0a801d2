// Calls of attention and of the operator of its gradient.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

Attributes attention(double scale, std::string_view order) { return {{"scale", scale}, {"order", dims(order)}}; }

Attributes causal(double scale, std::string_view order) {
  Attributes attributes = attention(scale, order);
  attributes.set("causal", true);
  return attributes;
}

/// A mask that hides all: its rows see nothing.
Operand hidden(std::string_view shape) {
  Operand mask = b(shape);
  mask.high = 1;
  return mask;
}

void add_attention_calls(std::vector<OpCase>& cases) {
  const auto same = f("batch,2,3,4");
  const std::vector<OpCase> more = {
      {"attention", {f("batch,2,3,4"), f("batch,2,5,4"), f("batch,2,5,4")}, attention(0.5, "0,1,2,3")},
      {"attention", {f("batch,2,3,4"), f("batch,2,5,4"), f("batch,2,5,4")}, attention(0.5, "0,2,1,3"), 2},
      {"attention", {f("batch,2,3,4"), f("batch,2,5,4"), f("batch,2,5,6")}, attention(0.5, "0,2,1,3")},
      {"attention", {f("batch,1,1,1"), f("batch,1,1,1"), f("batch,1,1,1")}, attention(-1.5, "0,-2,1,-1")},
      {"attention", {same, same, same, f("batch,1,3,3")}, attention(0.7, "0,2,1,3")},
      {"attention", {same, same, same, f("3,3")}, attention(0.7, "3,0,2,1")},
      {"attention", {same, same, same, f("1,2,1,3")}, attention(0.7, "0,1,3,2")},
      {"attention", {same, same, same, b("batch,1,1,3")}, attention(0.7, "0,2,1,3"), 2},
      {"attention", {same, same, same, b("3,1")}, attention(0.7, "0,2,1,3")},
      {"attention", {same, same, same, hidden("batch,2,3,3")}, attention(0.7, "0,2,1,3")},
      {"attention", {f("3,batch,3,4"), f("3,batch,3,4"), f("3,batch,3,4"), f("3,3")}, attention(1.0, "2,1,0,3")},
      {"attention", {f("1,2*batch,3,4"), f("1,2*batch,3,4"), f("1,2*batch,3,4")}, attention(1.0, "2,3,1,0"), 2},
      {"attention", {f("batch,2,33,7"), f("batch,2,70,7"), f("batch,2,70,7")}, attention(0.3, "0,2,1,3")},
      {"attention", {f("batch,2,3,4"), f("batch,2,0,4"), f("batch,2,0,4")}, attention(0.5, "0,1,2,3")},
      {"attention", {same, same, same}, causal(0.7, "0,2,1,3")},
      {"attention", {f("batch,2,70,4"), f("batch,2,70,4"), f("batch,2,70,4")}, causal(0.3, "0,2,1,3"), 2},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_attention_gradients(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"attention_grad",
       {f("batch,3,2,4"), f("batch,2,3,4"), f("batch,2,5,4"), f("batch,2,5,4"), f("batch,3,2,4"), f("batch,2,3")},
       attention(0.5, "0,2,1,3"),
       3},
      {"attention_grad",
       {f("4,3,batch,2"), f("2,batch,3,4"), f("2,batch,3,4"), f("2,batch,3,4"), f("4,3,batch,2"), f("2,batch,3"),
        b("3,3")},
       attention(0.5, "3,2,1,0"),
       3},
      {"attention_grad",
       {f("batch,2,3,4"), f("batch,2,3,4"), f("batch,2,1,4"), f("batch,2,1,4"), f("batch,2,3,4"), f("batch,2,3"),
        f("batch,1,3,1")},
       attention(0.5, "0,1,2,3"),
       3},
      {"attention_grad",
       {f("batch,3,2,4"), f("batch,2,3,4"), f("batch,2,3,4"), f("batch,2,3,4"), f("batch,3,2,4"), f("batch,2,3")},
       causal(0.5, "0,2,1,3"),
       3},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

void add_attention(std::vector<OpCase>& cases) {
  add_attention_calls(cases);
  add_attention_gradients(cases);
}

}  // namespace rannc::ir::testing
