// Calls of recurrent layers: one direction and both, with and without biases and states, of one step and several.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

/// An operand of a type that a rule makes. Integers are zeros.
Operand of_type(ValueType type) {
  Operand operand;
  operand.type = std::move(type);
  return operand;
}

/// The call of the gradient's operator for a call with workspaces. Bit k of `read`: a gradient reaches result k.
OpCase gradient_of(const OpCase& c, uint32_t read) {
  std::vector<const ValueType*> types;
  for (const Operand& operand : c.operands) types.push_back(operand.absent ? nullptr : &operand.type);
  const auto results = types_of({core(c.op), types, c.attributes, "batch", c.outputs}).value();
  std::vector<Operand> operands(c.operands.begin(), c.operands.begin() + 3);
  for (size_t k = 0; k < 4; ++k) operands.push_back(of_type(results[k]));
  for (size_t k = 0; k < 3; ++k) operands.push_back((read >> k & 1) != 0 ? of_type(results[k]) : none());
  for (size_t k = 3; k < 7; ++k) operands.push_back(k < c.operands.size() ? c.operands[k] : none());
  if (results.size() > 4) operands.push_back(of_type(results[4]));
  return {c.op + "_grad", operands, {}, 6};
}

/// Calls of f32, which oneDNN runs, and of the operator of their gradients.
void add_one_dnn_lstm(std::vector<OpCase>& cases) {
  const auto s = single;
  const std::vector<OpCase> more = {
      {"lstm", {s("4,batch,3"), s("1,8,3"), s("1,8,2"), s("1,8"), s("1,8"), s("1,batch,2"), s("1,batch,2")}, {}, 4},
      {"lstm", {s("3,2*batch,70"), s("2,256,70"), s("2,256,64")}, {}, 5},
      {"lstm", {s("2,batch,5"), s("2,4,5"), s("2,4,1"), s("2,4"), s("2,4"), none(), s("2,batch,1")}, {}, 5},
  };
  uint32_t read = 7;
  for (OpCase c : more) {
    cases.push_back(gradient_of(c, read--));
    c.parts_make_whole = false;  // the workspaces
    cases.push_back(std::move(c));
  }
}

}  // namespace

void add_recurrent(std::vector<OpCase>& cases) {
  const Attributes relu = {{"activation", std::string("relu")}};
  const std::vector<OpCase> more = {
      {"lstm", {f("4,batch,3"), f("1,8,3"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,2*batch,3"), f("1,16,3"), f("1,16,4")}, {}, 3},
      {"lstm", {f("3,batch,2"), f("1,8,2"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,batch,2"), f("1,8,2"), f("1,8,2"), f("1,8"), f("1,8"), none(), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,batch,3"), f("2,8,3"), f("2,8,2"), f("2,8"), f("2,8"), f("2,batch,2"), f("2,batch,2")}, {}, 3},
      {"lstm", {f("2,batch,5"), f("2,4,5"), f("2,4,1")}, {}, 3},
      {"lstm", {f("1,batch,3"), f("1,8,3"), f("1,8,2"), f("1,8"), f("1,8"), f("1,batch,2"), f("1,batch,2")}, {}, 3},
      {"lstm", {f("3,2,3"), f("1,8,3"), f("1,8,2")}, {}, 3},
      {"gru", {f("4,batch,3"), f("1,6,3"), f("1,6,2"), f("1,6"), f("1,6"), f("1,batch,2")}, {}, 2},
      {"gru", {f("3,2*batch,3"), f("1,12,3"), f("1,12,4")}, {}, 2},
      {"gru", {f("3,batch,3"), f("2,6,3"), f("2,6,2"), f("2,6"), f("2,6"), f("2,batch,2")}, {}, 2},
      {"gru", {f("1,batch,3"), f("1,6,3"), f("1,6,2"), f("1,6"), f("1,6")}, {}, 2},
      {"rnn", {f("4,batch,3"), f("1,2,3"), f("1,2,2"), f("1,2"), f("1,2"), f("1,batch,2")}, {}, 2},
      {"rnn", {f("3,2*batch,3"), f("1,4,3"), f("1,4,4")}, relu, 2},
      {"rnn", {f("3,batch,3"), f("2,2,3"), f("2,2,2"), f("2,2"), f("2,2"), f("2,batch,2")}, {}, 2},
      {"rnn", {f("1,batch,3"), f("2,2,3"), f("2,2,2")}, {}, 2},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  add_one_dnn_lstm(cases);
}

}  // namespace rannc::ir::testing
