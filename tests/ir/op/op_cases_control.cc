// Calls of operators that run bodies.
#include "ir/text/text.h"
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {

namespace {

Body body(const std::string& statements) {
  return Body(parse_graph("rannc.graph 1\nbatch batch\n" + statements, "body").value());
}

/// The part of a body's text that all loops begin with.
const std::string kTrip = "input %trip: i64[]\ninput %go: bool[]\n";

Body product(bool transposed) {
  return body(
      std::string("input %x: f64[batch,4] samples 0\ninput %w: f64[4,4]\n") +
      (transposed ? "#0 %t: f64[4,4] = core.permute(%w) {dims = [1,0]}\n" : "#0 %t: f64[4,4] = core.identity(%w)\n") +
      "#1 %y: f64[batch,4] samples 0 = core.matmul(%x, %t)\ninputs [%x, %w]\noutputs [%y]\n");
}

/// s' = tanh(s * w + row), and the product beside it.
Body recurrence() {
  return body(kTrip +
              "input %s: f64[batch,4] samples 0\ninput %row: f64[batch,4] samples 0\ninput %w: f64[4,4]\n"
              "#0 %p: f64[batch,4] samples 0 = core.matmul(%s, %w)\n"
              "#1 %t: f64[batch,4] samples 0 = core.add(%p, %row)\n"
              "#2 %n: f64[batch,4] samples 0 = core.tanh(%t)\n"
              "inputs [%trip, %go, %s, %row, %w]\noutputs [%n, %p]\n");
}

/// Adds to the state until the limit is passed.
Body growth() {
  return body(kTrip +
              "input %s: f64[4]\ninput %by: f64[4]\ninput %limit: f64[]\n"
              "#0 %more: f64[4] = core.abs(%by)\n"
              "#1 %n: f64[4] = core.add(%s, %more)\n"
              "#2 %most: f64[] = core.amax(%n)\n"
              "#3 %small: bool[] = core.lt(%most, %limit)\n"
              "inputs [%trip, %go, %s, %by, %limit]\noutputs [%small, %n]\n");
}

/// On each trip but one, something is added.
Body all_but_one() {
  return body(kTrip +
              "input %s: f64[4]\ninput %by: f64[4]\ninput %one: i64[]\n"
              "#0 %usual: bool[] = core.ne(%trip, %one)\n"
              "#1 %more: f64[4] = core.where(%usual, %by, %s)\n"
              "#2 %n: f64[4] = core.add(%s, %more)\n"
              "inputs [%trip, %go, %s, %by, %one]\noutputs [%n]\n");
}

Operand yes() {
  Operand operand = b("");
  operand.type.contents = dims("1");
  return operand;
}

}  // namespace

OpCase fitted(OpCase c) {
  const OpInfo& op = core(c.op);
  if (op.fit == nullptr) return c;
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : c.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
  Attributes fit = op.fit({op, inputs, c.attributes, "batch", c.outputs}).value();
  c.attributes = std::move(fit);
  return c;
}

void add_control(std::vector<OpCase>& cases) {
  const Attributes branches = {{"then", product(false)}, {"else", product(true)}};
  const Attributes rows = {{"body", recurrence()}, {"states", Dim(1)}, {"scanned", Dim(1)}};
  Attributes grows = {{"body", growth()}, {"states", Dim(1)}, {"max_trips", Dim(4000)}};
  cases.push_back({"if", {b(""), f("batch,4"), f("4,4")}, branches});
  cases.push_back({"loop", {none(), none(), f("batch,4"), f("3,batch,4"), f("4,4")}, rows, 2});
  cases.push_back({"loop", {scalar("1"), none(), f("batch,4"), f("1,batch,4"), f("4,4")}, rows, 2});
  cases.push_back({"loop", {none(), yes(), f("4"), f("4"), f("")}, grows});
  grows.set("trips", Dim(2));
  cases.push_back({"loop", {none(), yes(), f("4"), f("4"), f("")}, grows});
  cases.push_back({"loop",
                   {none(), none(), f("4"), f("4"), i("", 0, 2)},
                   {{"body", all_but_one()}, {"states", Dim(1)}, {"trips", Dim(1)}}});
}

}  // namespace rannc::ir::testing
