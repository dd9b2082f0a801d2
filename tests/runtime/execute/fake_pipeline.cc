// A graph for fake programs.
#include "tests/runtime/execute/fake_pipeline.h"

#include "ir/op/op.h"

namespace rannc::testing {

ir::Graph chain_graph() {
  ir::Graph graph;
  graph.set_batch_symbol("batch");
  const ir::Dim batch = ir::Dim::symbol("batch");
  const ir::ValueType samples = {.dtype = ir::DType::kF64, .shape = ir::Shape{batch}, .batch = {.axis = 0}};
  const ir::ValueType scalar = {.dtype = ir::DType::kF64, .shape = ir::Shape{}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", samples);
  graph.add_input(x);
  const ValueId w = graph.add_value(ir::ValueKind::kParameter, "w", scalar);
  const ValueId w0 = graph.add_value(ir::ValueKind::kParameter, "w0", scalar);
  const ValueId w1 = graph.add_value(ir::ValueKind::kParameter, "w1", scalar);
  const ir::OpInfo& op = graph.foreign_op("test_task");
  const ValueId a = graph.add(op, {x, w, w0}, {}, "a");
  const ValueId b = graph.add(op, {a, w1}, {}, "b");
  const ValueId loss = graph.add(op, {b, a, w}, {}, "loss");
  graph.set_type(a, samples);
  graph.set_type(b, samples);
  graph.set_type(loss, scalar);
  graph.add_output(b);
  graph.add_loss({.numerator = loss});
  return graph;
}

}  // namespace rannc::testing
