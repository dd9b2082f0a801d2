// Buckets are in the order in which gradients become final, and programs mark them there.
#include "ir/plan/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/program/lower_program.h"
#include "ir/program/stage_programs.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::ir {
namespace {

struct Model {
  const char* name;
  Graph (*graph)(DType);
  uint32_t cut;           ///< first task of a second stage
  bool step_end = false;  ///< a gradient is completed by E
};

Graph chain_of_five(DType dtype) { return testing::chain(dtype, 5); }

const Model kModels[] = {{"skips and a tied parameter", testing::skip_and_tie, 4},
                         {"chain", chain_of_five, 3},
                         {"tokens", testing::token_model, 5, true},
                         {"table", testing::large_table, 1},
                         {"dropout", testing::dropout_model, 2},
                         {"normalization", testing::norm_model, 2},
                         {"permuted", testing::permuted_joint_model, 3, true},
                         {"sums over samples", testing::sums_model, 4}};
// One gradient per bucket; a few; all of these small models.
constexpr uint64_t kLimits[] = {0, 200, kBucketBytes};

void PrintTo(const Model& model, std::ostream* to) { *to << model.name; }

class Buckets : public ::testing::TestWithParam<Model> {
 protected:
  /// Calls `check` for all stages of plans of the model whose replicas sum gradients.
  template <class Check>
  static void each_stage(const Check& check) {
    size_t stages = 0;
    for (const uint64_t limit : kLimits) {
      for (const bool cut : {false, true}) {
        testing::PlanSpec spec{.replicas = {2}, .micro_batches = {4, 4}, .bucket_bytes = limit};
        if (cut) spec.cuts = {GetParam().cut}, spec.replicas = {2, 2};
        const Plan plan = testing::build_plan(GetParam().graph(DType::kF32), spec);
        for (size_t s = 0; s < plan.stages.size(); ++s) {
          SCOPED_TRACE(::testing::Message() << "limit " << limit << ", stage " << s << " of " << plan.stages.size());
          stages += plan.stages[s].buckets.empty() ? 0 : 1;
          check(plan, StageId::from(s), limit);
        }
      }
    }
    EXPECT_GT(stages, 0U);
  }
};

/// What the joint graph of a stage says of its gradients.
class Gradients {
 public:
  Gradients(const Plan& plan, StageId stage) : functions_(*plan.functions[stage.index()]) {
    const Joint& joint = functions_.joint;
    const std::vector<ValueId> end = function_table(functions_)[FunctionKind::kStepEnd].results;
    for (const Joint::ParameterGradient& part : joint.gradients) {
      Made& made = made_[plan.graph.find(joint.graph.value(part.parameter).name)];
      const TaskId maker = joint.graph.producer(part.gradient);
      made.last = std::max(made.last, maker.valid() ? maker.index() + 1 : 0);
      made.late = made.late || std::find(end.begin(), end.end(), part.gradient) != end.end();
    }
  }
  /// E completes it.
  bool late(ValueId parameter) const { return made_.contains(parameter) && made_.at(parameter).late; }
  /// Order in which parts are made: E last.
  std::pair<bool, uint32_t> order(ValueId parameter) const {
    const auto found = made_.find(parameter);
    return found == made_.end() ? std::pair(false, 0U) : std::pair(found->second.late, found->second.last);
  }
  const StageFunctions& functions() const { return functions_; }

 private:
  struct Made {
    bool late = false;
    uint32_t last = 0;
  };
  const StageFunctions& functions_;
  std::map<ValueId, Made> made_;
};

TEST_P(Buckets, HoldEachSummedParameterOnceWithinTheLimit) {
  bool joins = false;
  each_stage([&](const Plan& plan, StageId stage, uint64_t limit) {
    const auto& buckets = plan.stages[stage.index()].buckets;
    std::vector<ValueId> held;
    for (const auto& bucket : buckets) held.insert(held.end(), bucket.begin(), bucket.end());
    std::sort(held.begin(), held.end());
    EXPECT_EQ(held, summed_parameters(plan, stage));
    const std::vector<int64_t> bytes = bytes_of_buckets(plan, stage);
    ASSERT_EQ(bytes.size(), buckets.size());
    for (size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_FALSE(buckets[b].empty());
      if (buckets[b].size() > 1) EXPECT_LE(static_cast<uint64_t>(bytes[b]), limit);
      joins = joins || buckets[b].size() > 1;
    }
  });
  EXPECT_TRUE(joins);
}

TEST_P(Buckets, AreInTheOrderInWhichGradientsBecomeFinal) {
  bool late = false;
  each_stage([&](const Plan& plan, StageId stage, uint64_t) {
    const Gradients gradients(plan, stage);
    std::vector<std::pair<bool, uint32_t>> order;
    const auto& buckets = plan.stages[stage.index()].buckets;
    for (const auto& bucket : buckets) {
      for (const ValueId parameter : bucket) {
        order.push_back(gradients.order(parameter));
        EXPECT_EQ(gradients.late(parameter), gradients.late(bucket[0])) << "buckets of E are apart";
      }
    }
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    const std::vector<std::optional<TaskId>> final = final_tasks(plan, stage);
    ASSERT_EQ(final.size(), buckets.size());
    for (size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_EQ(final[b].has_value(), !gradients.late(buckets[b][0]));
      if (final[b]) EXPECT_EQ(final[b]->index() + 1, std::max(1U, gradients.order(buckets[b].back()).second));
      late = late || !final[b];
    }
  });
  EXPECT_EQ(late, GetParam().step_end);
}

/// Positions of adds to the sums of each bucket, and of its mark.
struct Marked {
  std::vector<std::vector<size_t>> adds;
  std::vector<size_t> marks;
  size_t last_add = 0;  ///< also to sums that have no bucket, or that E reads
};

Marked marked(const Program& program, const StagePorts& ports) {
  std::map<uint32_t, size_t> bucket_of;
  for (size_t b = 0; b < ports.buckets.size(); ++b) {
    for (const uint32_t part : ports.buckets[b]) bucket_of[ports.sums[part]] = b;
  }
  Marked found{std::vector<std::vector<size_t>>(ports.buckets.size()), {}, 0};
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& each = program.instructions[i];
    if (each.adds()) found.last_add = i;
    if (each.adds() && bucket_of.contains(each.number)) found.adds[bucket_of.at(each.number)].push_back(i);
    if (each.kind != Instruction::Kind::kMark) continue;
    EXPECT_EQ(each.number, found.marks.size());
    found.marks.push_back(i);
  }
  return found;
}

TEST_P(Buckets, AreMarkedBehindTheirLastAdd) {
  size_t early = 0;
  each_stage([&](const Plan& plan, StageId stage, uint64_t) {
    const Gradients gradients(plan, stage);
    const auto& buckets = plan.stages[stage.index()].buckets;
    const auto marks = static_cast<size_t>(
        std::count_if(buckets.begin(), buckets.end(), [&](const auto& each) { return !gradients.late(each[0]); }));
    StagePorts ports = own_ports(gradients.functions().joint);
    ports.buckets = parts_of_buckets(plan, stage);
    const FunctionTable table = function_table(gradients.functions());
    const Graph& graph = gradients.functions().joint.graph;
    ProgramLowering lowering(
        graph, {.origins = gradients.functions().joint.origins, .resident = resident_values(graph, table)});
    const StageSpecs specs = stage_specs(gradients.functions().joint, false, table, ports);
    for (const ProgramKind kind : {ProgramKind::kBackward, ProgramKind::kWeight}) {
      const Program program = lowering.lower(*specs.programs[kind]).value();
      const Marked found = marked(program, ports);
      ASSERT_EQ(found.marks.size(), marks);
      for (size_t b = 0; b < marks; ++b) {
        for (const size_t add : found.adds[b]) EXPECT_LT(add, found.marks[b]) << "bucket " << b;
      }
      if (kind == ProgramKind::kBackward && marks > 0 && found.marks[0] < found.last_add) ++early;
    }
    for (const ProgramKind kind : {ProgramKind::kForward, ProgramKind::kInput}) {
      const auto& spec = specs.programs[kind];
      if (spec) EXPECT_TRUE(marked(lowering.lower(*spec).value(), ports).marks.empty());
    }
  });
  EXPECT_GT(early, 0U) << "no sum would run beside a backward pass";
}

INSTANTIATE_TEST_SUITE_P(ToyGraphs, Buckets, ::testing::ValuesIn(kModels));

}  // namespace
}  // namespace rannc::ir
