// Measured stages decide between plans that the prices of tasks rank wrongly.
#include "partition/model/measured_search.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/text/text.h"
#include "partition/model/finish_plan.h"
#include "partition/model/fitted_times.h"
#include "partition/model/program_key.h"
#include "partition/stages/judge/judge.h"
#include "tests/partition/model/planned_models.h"
#include "tests/support/planning.h"

namespace rannc::test {
namespace {

using partition::MeasuredStages;
using partition::PlannedModel;
using partition::StageProblem;
using partition::TaskCost;
using partition::TaskFacts;

/// The same time for every task and sample.
class EvenCosts final : public partition::CostModel {
 public:
  Result<TaskCost> price(const TaskFacts& /*facts*/, uint64_t samples,
                         const partition::DeviceKind& /*device*/) const override {
    TaskCost cost;
    cost.forward_ns = cost.input_gradient_ns = cost.recompute_ns = 1000.0 * static_cast<double>(samples);
    return cost;
  }
  std::string fingerprint() const override { return "e7e7"; }
};

/// How many times as long as priced a stage runs.
using Slowness = std::function<double(const ir::Plan&, const ir::StageTime&)>;

/// Stands for a machine. Counts its runs, and the programs that it ran for the first time.
class Machine {
 public:
  explicit Machine(Slowness slowness) : slowness_(std::move(slowness)) {}

  std::vector<ir::StageTime> times(const ir::Plan& plan) const {
    std::vector<ir::StageTime> times = plan.stage_times;
    for (ir::StageTime& time : times) {
      const double factor = slowness_(plan, time);
      for (int64_t* ns : {&time.forward_ns, &time.backward_ns, &time.weight_ns})
        *ns = static_cast<int64_t>(static_cast<double>(*ns) * factor);
    }
    return times;
  }

  std::optional<std::vector<ir::StageTime>> measure(const ir::Plan& plan) {
    EXPECT_EQ(plan.planner, "auto") << "the plan can be written [P12]";
    const auto roles = ir::gradient_roles(plan.graph, ir::needs_gradient(plan.graph));
    const size_t before = programs_.size();
    for (const ir::StageTime& time : plan.stage_times)
      programs_.emplace(partition::stage_key(plan, time.stage, roles), time.samples);
    repeats_ += programs_.size() == before ? 1 : 0;
    ++runs_;
    return times(plan);
  }

  /// Simulated step of a plan with the machine's times.
  int64_t step_of(const ir::Plan& plan, const partition::Cluster& cluster) const {
    ir::Plan measured = plan.clone();
    measured.stage_times = times(plan);
    EXPECT_TRUE(partition::predict(measured, cluster).ok());
    return measured.step_ns;
  }

  int runs() const { return runs_; }
  int repeats() const { return repeats_; }  ///< runs without a new program

 private:
  Slowness slowness_;
  std::set<std::pair<std::string, uint32_t>> programs_;
  int runs_ = 0, repeats_ = 0;
};

partition::PlanOptions measured_by(Machine& machine) {
  partition::PlanOptions options = options_for("flat:2", 8);
  options.costs = std::make_shared<EvenCosts>();
  options.planner = "auto";
  options.constraints.stages = 2;
  options.measure = [&machine](const ir::Plan& plan) { return machine.measure(plan); };
  return options;
}

/// The first third of the tasks takes four times as long as priced.
double slow_begin(const ir::Plan& plan, const ir::StageTime& time) {
  const std::vector<TaskId>& tasks = plan.stages[time.stage.index()].tasks;
  const auto slow = std::count_if(tasks.begin(), tasks.end(),
                                  [&](TaskId task) { return task.index() < plan.graph.task_count() / 3; });
  return 1 + 3 * static_cast<double>(slow) / static_cast<double>(tasks.size());
}

/// Between 0.7 and 1.3, by the tasks and samples of a stage.
double noise(const ir::Plan& plan, const ir::StageTime& time) {
  const std::vector<TaskId>& tasks = plan.stages[time.stage.index()].tasks;
  const uint64_t mixed = (tasks.size() * 7919 + tasks.front().index() * 104729 + time.samples * 31) % 61;
  return 0.7 + static_cast<double>(mixed) / 100;
}

bool has_note(const PlannedModel& planned, const std::string& text) {
  return std::any_of(planned.stages.notes.begin(), planned.stages.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

// Even prices cut the model in the middle. Measured stages move the cut to the front.
TEST(MeasuredSearch, MovesTheCutThatPricesOfTasksMisplace) {
  const Prepared model = small_bert();
  Machine machine(slow_begin);
  const auto options = measured_by(machine);
  auto without = options;
  without.measure = {};
  const PlannedModel by_tasks = planned(model, without), by_stages = planned(model, options);
  const auto before = machine.step_of(by_tasks.plan, options.cluster);
  const auto after = machine.step_of(by_stages.plan, options.cluster);
  EXPECT_LT(static_cast<double>(after), 0.85 * static_cast<double>(before));
  EXPECT_LT(by_stages.plan.stages[0].tasks.size(), by_tasks.plan.stages[0].tasks.size());
  EXPECT_TRUE(has_note(by_stages, "measured stages: this plan takes"));
  EXPECT_TRUE(has_note(by_stages, "after which the ranking stands"));
  EXPECT_EQ(machine.repeats(), 0);
}

// The plan's numbers stay at the prices of tasks, to which its bound belongs.
TEST(MeasuredSearch, KeepsAllNumbersAtThePricesOfTasks) {
  const Prepared model = small_bert();
  Machine machine(slow_begin);
  const PlannedModel found = planned(model, measured_by(machine));
  EXPECT_TRUE(found.problem.measured.empty());
  partition::PlanJudge judge(found.problem);
  const auto judged = judge.judge(found.stages);
  ASSERT_TRUE(judged) << judged.why();
  EXPECT_DOUBLE_EQ(judge.judge_by_device(*judged)->objective, found.stages.objective);
  EXPECT_NEAR(static_cast<double>(found.plan.step_ns), found.stages.objective, 0.01 * found.stages.objective);
  EXPECT_LE(found.stages.lower_bound, found.stages.objective);
  EXPECT_LE(found.plan.lower_bound_ns, found.plan.step_ns);
  EXPECT_EQ(found.plan.searched_ns, 0);
}

TEST(MeasuredSearch, RightPricesLeaveThePlan) {
  const Prepared model = small_bert();
  Machine machine([](const auto&, const auto&) { return 1.0; });
  const auto options = measured_by(machine);
  auto without = options;
  without.measure = {};
  const PlannedModel by_tasks = planned(model, without), by_stages = planned(model, options);
  EXPECT_EQ(ir::print(by_stages.plan), ir::print(by_tasks.plan));
  EXPECT_TRUE(has_note(by_stages, "in 1 round of the search, after which the ranking stands"));
  EXPECT_GE(machine.runs(), 1);
}

// Times that contradict each other: the search ends, is never worse than without, and no program runs twice alone.
TEST(MeasuredSearch, EndsWithNoise) {
  const Prepared model = small_bert();
  for (const uint32_t devices : {2U, 4U}) {
    SCOPED_TRACE(devices);
    Machine machine(noise);
    auto options = measured_by(machine);
    options.cluster = partition::preset_cluster("flat:" + std::to_string(devices)).value();
    options.constraints = {};
    auto without = options;
    without.measure = {};
    const PlannedModel by_tasks = planned(model, without), by_stages = planned(model, options);
    EXPECT_LE(machine.runs(), 15) << "three plans before each of four rounds and after the last";
    EXPECT_EQ(machine.repeats(), 0);
    EXPECT_LE(machine.step_of(by_stages.plan, options.cluster), machine.step_of(by_tasks.plan, options.cluster));
    Machine again(noise);
    options.measure = [&again](const ir::Plan& plan) { return again.measure(plan); };
    EXPECT_EQ(ir::print(planned(model, options).plan), ir::print(by_stages.plan)) << "deterministic";
  }
}

TEST(MeasuredSearch, APlanThatCannotRunStays) {
  const Prepared model = small_bert();
  Machine machine(slow_begin);
  auto options = measured_by(machine);
  options.measure = [](const ir::Plan&) { return std::optional<std::vector<ir::StageTime>>(); };
  auto without = options;
  without.measure = {};
  EXPECT_EQ(ir::print(planned(model, options).plan), ir::print(planned(model, without).plan));
  options.measure = [](const ir::Plan&) -> Result<std::optional<std::vector<ir::StageTime>>> {
    return error("broken");
  };
  const auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, options));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.diagnostic().message, "broken");
}

// Four blocks on one kind of device, priced 10 a sample.
StageProblem four_blocks() {
  StageProblem problem;
  problem.blocks = 4;
  problem.cluster = partition::preset_cluster("flat:2").value();
  problem.mini_batch = 8;
  partition::TimeTable table;
  table.sizes = {1, 8};
  table.forward = {{10, 10, 10, 10}, {80, 80, 80, 80}};
  table.backward = {{20, 20, 20, 20}, {160, 160, 160, 160}};
  table.weight_gradient = {{10, 10, 10, 10}, {80, 80, 80, 80}};
  problem.times = {table};
  problem.parameter_bytes.assign(4, 0);
  problem.stashed_bytes_per_sample.assign(4, 0);
  return problem;
}

TEST(FittedTimes, MeetsStagesThatAgree) {
  StageProblem problem = four_blocks();
  // Blocks of 10, 20, 40 and 10, backward passes as priced.
  problem.measured = {{{0, 1, 0, 1, false, false}, {10, 20, 0}},
                      {{1, 4, 0, 1, false, false}, {70, 60, 0}},
                      {{0, 2, 0, 1, false, false}, {30, 40, 0}},
                      {{2, 4, 0, 1, false, false}, {50, 40, 0}},
                      {{3, 4, 0, 1, false, false}, {10, 20, 0}}};
  ASSERT_TRUE(partition::validate(problem).ok());
  const partition::TimeTable table = partition::fitted_times(problem).front();
  const std::vector<double> expected = {10, 20, 40, 10};
  for (size_t b = 0; b < 4; ++b) {
    EXPECT_NEAR(table.forward[0][b], expected[b], 0.01 * expected[b]) << b;
    EXPECT_NEAR(table.forward[1][b], 8 * expected[b], 0.08 * expected[b]) << "the factor holds beyond the sizes";
    EXPECT_DOUBLE_EQ(table.backward[0][b], 20);
    EXPECT_LE(table.weight_gradient[0][b], table.backward[0][b]);
  }
}

TEST(FittedTimes, BlocksWithoutAMeasurementTakeTheMean) {
  StageProblem problem = four_blocks();
  problem.measured = {{{0, 2, 0, 1, false, false}, {60, 40, 0}}, {{0, 2, 0, 8, false, false}, {160, 320, 0}}};
  const partition::TimeTable table = partition::fitted_times(problem).front();
  EXPECT_NEAR(table.forward[0][3], 30, 1e-6);
  EXPECT_NEAR(table.forward[1][3], 80, 1e-6);
}

TEST(MeasuredStages, ReplaceTheSumsOfTheirBlocksInTheJudge) {
  StageProblem problem = four_blocks();
  problem.measured = {{{0, 1, 0, 4, false, false}, {7, 9, 0}}, {{0, 1, 0, 4, false, true}, {6, 11, 5}}};
  partition::StagePlan plan;
  plan.micro_batches = 2;
  plan.stages = {{0, 1, {DeviceId(0)}, false}, {1, 4, {DeviceId(1)}, false}};
  for (const auto& [schedule, forward, backward] : {std::tuple{"1f1b", 7.0, 9.0}, std::tuple{"zb-h1", 6.0, 11.0}}) {
    partition::PlanJudge judge(problem);
    plan.schedule = schedule;
    const auto judged = judge.judge(plan);
    ASSERT_TRUE(judged) << judged.why();
    EXPECT_DOUBLE_EQ(judged->stages[0].forward_ns, forward);
    EXPECT_DOUBLE_EQ(judged->stages[0].backward_ns, backward);
    EXPECT_DOUBLE_EQ(judged->stages[1].forward_ns, 3 * 40);
  }
  plan.micro_batches = 4;
  partition::PlanJudge judge(problem);
  EXPECT_DOUBLE_EQ(judge.judge(plan)->stages[0].forward_ns, 20) << "not measured for 2 samples";
}

// [C1] [C2]
TEST(MeasuredStages, AreChecked) {
  StageProblem problem = four_blocks();
  problem.measured = {{{2, 5, 0, 1, false, false}, {1, 1, 0}}};
  EXPECT_FALSE(partition::validate(problem).ok());
  problem.measured = {{{2, 4, 0, 1, false, true}, {1, 1, 2}}};
  EXPECT_FALSE(partition::validate(problem).ok());
}

}  // namespace
}  // namespace rannc::test
