// Properties of constant marks and atoms over random graphs.
#include "passes/planning/form_atoms.h"

#include <gtest/gtest.h>

#include "ir/graph/execution_frequency.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "passes/planning/mark_constants.h"
#include "tests/support/random_graph.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ir::ValueKind;

constexpr uint64_t kGraphs = 1000;

// Tasks below the inputs, found by walking down from these: the opposite way of the pass.
std::vector<bool> reached_from_inputs(const Graph& graph) {
  std::vector<bool> reached(graph.task_count());
  std::vector<ValueId> open(graph.inputs());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    for (const Graph::Use use : graph.uses(value)) {
      if (reached[use.task.index()]) continue;
      reached[use.task.index()] = true;
      for (const ValueId output : graph.outputs(use.task)) open.push_back(output);
    }
  }
  return reached;
}

TEST(MarkConstants, ConstantIsWhatNoInputReaches) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed, .constant_share = static_cast<uint32_t>(seed % 60)});
    std::vector<bool> expected = reached_from_inputs(graph);
    expected.flip();
    EXPECT_EQ(constant_tasks(graph), expected);
  }
}

TEST(MarkConstants, TasksThatKeepStatisticsAreNotConstant) {
  Graph graph;
  const ir::ValueType table{ir::DType::kF32, ir::Shape{2, 3, 4, 4}, {}, {}},
      vector{ir::DType::kF32, ir::Shape{3}, {}, {}};
  std::vector<ValueId> operands = {graph.add_value(ValueKind::kParameter, "x", table)};
  for (const char* name : {"scale", "bias"}) operands.push_back(graph.add_value(ValueKind::kParameter, name, vector));
  for (const char* name : {"mean", "variance"}) operands.push_back(graph.add_value(ValueKind::kBuffer, name, vector));
  const std::string names[] = {"y", "new_mean", "new_variance"};
  const TaskId task = graph.add_task(ir::core("batch_norm"), operands, {{"training", true}}, names);
  EXPECT_TRUE(constant_tasks(graph)[0]);
  EXPECT_EQ(ir::execution_frequency(graph)[0], ir::Frequency::kStep);
  graph.add_statistics({graph.outputs(task)[1], graph.outputs(task)[2], operands[3], operands[4]});
  EXPECT_FALSE(constant_tasks(graph)[0]);
  EXPECT_EQ(ir::execution_frequency(graph)[0], ir::Frequency::kMicroBatch);
}

TEST(MarkConstants, DrawsOfSamplesVaryAndOthersDoNot) {
  Graph graph;
  graph.set_batch_symbol("batch");
  const ir::ValueType vector{ir::DType::kF32, ir::Shape{3}, {}, {}};
  const ir::ValueType samples{ir::DType::kF32, ir::Shape{ir::Dim::symbol("batch"), 3}, {.axis = 0}, {}};
  const ValueId w = graph.add_value(ValueKind::kParameter, "w", vector);
  graph.add(ir::core("mul"), {w, graph.add_random_input("one", vector, {.key = 1})});
  graph.add(ir::core("mul"), {w, graph.add_random_input("each", samples, {.key = 2})});
  EXPECT_EQ(constant_tasks(graph), (std::vector<bool>{true, false}));
  EXPECT_EQ(ir::execution_frequency(graph), (std::vector<ir::Frequency>(2, ir::Frequency::kMicroBatch)));
}

TEST(FormAtoms, OneTaskThatIsNotConstantEach) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    const ir::Atoms atoms = form_atoms(graph, constant_tasks(graph));
    EXPECT_TRUE(std::is_sorted(atoms.tasks.begin(), atoms.tasks.end()));
    for (const TaskId task : graph.tasks()) {
      const AtomId atom = atoms.atom_of[task.index()];
      EXPECT_EQ(atom.valid(), !atoms.constant[task.index()]);
      if (atom.valid()) {
        EXPECT_EQ(atoms.tasks[atom.index()], task);
      }
    }
  }
}

// With its clones, each atom holds all constant tasks it reads, so nothing enters it but activations and leaves.
TEST(FormAtoms, AtomsWithTheirClonesCoverEveryLiveTask) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = testing::random_graph({.seed = seed, .constant_share = 40});
    ir::remove_dead(graph);
    const ir::Atoms atoms = form_atoms(graph, constant_tasks(graph));
    ASSERT_FALSE(atoms.tasks.empty());
    std::vector<bool> covered(graph.task_count());
    for (const TaskId task : atoms.tasks) {
      const std::vector<TaskId> members = ir::close_over_constants(graph, atoms, {task});
      EXPECT_EQ(std::count_if(members.begin(), members.end(), [&](TaskId t) { return !atoms.constant[t.index()]; }), 1);
      for (const TaskId member : members) {
        covered[member.index()] = true;
        for (const ValueId input : graph.inputs(member)) {
          const TaskId producer = graph.value(input).producer;
          const bool inside = std::binary_search(members.begin(), members.end(), producer);
          EXPECT_TRUE(!producer.valid() || inside || !atoms.constant[producer.index()]);
        }
      }
    }
    EXPECT_EQ(std::count(covered.begin(), covered.end(), false), 0);
  }
}

// Atoms in their order are a topological order of the quotient: with private clones, one task each makes them convex.
TEST(FormAtoms, ValuesFlowFromEarlierToLaterAtoms) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph({.seed = seed});
    const ir::Atoms atoms = form_atoms(graph, constant_tasks(graph));
    for (const TaskId task : atoms.tasks) {
      for (const TaskId member : ir::close_over_constants(graph, atoms, {task})) {
        for (const ValueId input : graph.inputs(member)) {
          const TaskId producer = graph.value(input).producer;
          if (!producer.valid() || atoms.constant[producer.index()]) continue;
          EXPECT_EQ(member, task) << "a clone reads an activation";
          EXPECT_LT(atoms.atom_of[producer.index()], atoms.atom_of[task.index()]);
        }
      }
    }
  }
}

TEST(FormAtoms, NeitherPassChangesTheGraph) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = testing::random_graph({.seed = seed});
    const std::string before = ir::print(graph);
    PassContext context;
    EXPECT_FALSE(MarkConstants().run(graph, context).value().changed);
    EXPECT_FALSE(FormAtoms().run(graph, context).value().changed);
    const ir::Atoms first = *context.atoms;
    EXPECT_FALSE(FormAtoms().run(graph, context).value().changed);
    EXPECT_EQ(*context.atoms, first);
    EXPECT_EQ(ir::print(graph), before);
  }
}

TEST(FormAtoms, ConstantOutputsGoWithTheLastAtom) {
  Graph graph = ir::parse_graph(R"(rannc.graph 1
input %x: f32[4]
parameter %p: f32[4]
#0 %c: f32[4] = core.neg(%p)
#1 %y: f32[4] = core.relu(%x)
#2 %z: f32[4] = core.relu(%y)
#3 %d: f32[4] = core.abs(%c)
inputs [%x]
outputs [%z, %d]
)",
                                "t.rir")
                    .value();
  const ir::Atoms atoms = form_atoms(graph, constant_tasks(graph));
  EXPECT_EQ(ir::close_over_constants(graph, atoms, {TaskId(1)}), (std::vector{TaskId(1)}));
  EXPECT_EQ(ir::close_over_constants(graph, atoms, {TaskId(2)}), (std::vector{TaskId(0), TaskId(2), TaskId(3)}));
}

TEST(FormAtoms, AModelOfConstantsIsAnError) {
  Graph graph =
      ir::parse_graph("rannc.graph 1\nparameter %p: f32[4]\n#0 %c: f32[4] = core.neg(%p)\noutputs [%c]\n", "t.rir")
          .value();
  PassContext context;
  const auto outcome = FormAtoms().run(graph, context);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.diagnostic().message.find("no task depends on an input"), std::string::npos);
}

}  // namespace
}  // namespace rannc::passes
