// Flags become typed options: what each one sets, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tools/compile/compile_flags.h"
#include "tools/compiler/requested_model.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {
namespace {

TEST(PlanFlags, BecomeARequest) {
  PlanFlags flags;
  flags.cluster = "local:3";
  flags.memory_bytes = 1 << 20;
  flags.optimizer = "sgd";
  flags.momentum = 0.5;
  flags.stages = 2;
  flags.pins = {"a=b=1"};
  flags.together = {"x,y"};
  flags.schedules = {"gpipe"};
  flags.objective = "memory";
  flags.recompute = "never";
  flags.step_limit_ns = 7;
  flags.search_budget = 9;
  const auto request = plan_request(flags);
  ASSERT_TRUE(request.ok()) << request.diagnostic().str();
  const partition::PlanOptions& options = request->options;
  EXPECT_TRUE(request->on_this_machine);
  EXPECT_EQ(options.cluster.size(), 3U);
  EXPECT_EQ(options.cluster.kinds.front().memory_bytes, 1U << 20);
  EXPECT_EQ(options.constraints.stages, 2U);
  EXPECT_EQ(options.optimizer_states, 1U) << "momentum keeps a state";
  EXPECT_EQ(options.schedule, "gpipe");
  EXPECT_EQ(options.search.schedules, (std::vector<std::string>{"gpipe"}));
  EXPECT_EQ(options.search.simulated_actions, 9U);
  EXPECT_EQ(options.objective, partition::Objective::kPeakMemory);
  EXPECT_EQ(options.recompute, partition::RecomputeRule::kNever);
  EXPECT_EQ(options.time_limit_ns, 7);
  EXPECT_FALSE(request->mini_batch);
  ASSERT_EQ(request->pins.size(), 1U);
  EXPECT_EQ(request->pins[0].task, "a=b");
  EXPECT_EQ(request->pins[0].stage, 1U);
  EXPECT_EQ(request->pins[0].source, "--pin a=b=1");
  ASSERT_EQ(request->together.size(), 1U);
  EXPECT_EQ(request->together[0].second, "y");
}

TEST(PlanFlags, NameTheKindsThatAreThisProcessor) {
  PlanFlags flags;
  flags.cluster = "local:2";
  EXPECT_TRUE(plan_request(flags)->on_processor());
  for (const char* elsewhere : {"h100-8", "2x-h100-8", "v100-2", "flat:2", "rannc-4x8", "dapple-c"}) {
    flags.cluster = elsewhere;
    EXPECT_FALSE(plan_request(flags)->on_processor()) << elsewhere;
  }
  const auto gpus = [] { return partition::cluster_of_gpus("NVIDIA H100 80GB HBM3", uint64_t{80} << 30, 2); };
  const PlanRequest request = plan_request(compiler::PlanOptions{.cluster = "local:cuda"}, gpus).value();
  EXPECT_FALSE(request.on_processor());
  EXPECT_FALSE(request.on_this_machine) << "links between threads are not links between GPUs";
}

TEST(PlanFlags, CostsAreThoseOfTheCluster) {
  using Costs = PlanRequest::Costs;
  CompileFlags flags;
  const auto costs = [&](const char* cluster, const char* requested) {
    flags.cluster = cluster;
    flags.costs = requested;
    return model_plan_request(flags)->costs;
  };
  EXPECT_EQ(costs("local:2", ""), Costs::kMeasured);
  EXPECT_EQ(costs("h100-8", ""), Costs::kAnalytic);
  EXPECT_EQ(costs("local:2", "analytic"), Costs::kAnalytic);
  EXPECT_EQ(costs("h100-8", "measured"), Costs::kMeasured) << "which is refused";
  EXPECT_EQ(costs("h100-8", "p.json"), Costs::kDatabase);
}

TEST(PlanFlags, EstimatesKnowThePrecisionOfProducts) {
  CompileFlags flags;
  flags.cluster = "h100-8";
  EXPECT_EQ(model_plan_request(flags)->estimates.products, partition::Tf32::kNever);
  flags.matmul_precision = "high";
  EXPECT_EQ(model_plan_request(flags)->estimates.products, partition::Tf32::kAllowed);
}

TEST(PlanFlags, NamedTasksAreChecked) {
  const auto refuse = [](const std::string& message, auto&& set) {
    PlanFlags flags;
    flags.stages = 2;
    set(flags);
    for (const Diagnostic& found : {check_plan_flags(flags).diagnostic(), plan_request(flags).diagnostic()})
      EXPECT_EQ(found.message, message);
  };
  for (const char* pin : {"a", "a=", "=1", "a=-1", "a=1x", "a=99999999999"}) {
    refuse("--pin " + std::string(pin) + ": expected TASK=STAGE, with stages counted from 0",
           [&](PlanFlags& flags) { flags.pins = {pin}; });
  }
  for (const char* pair : {"a", "a,", ",b"}) {
    refuse("--together " + std::string(pair) + ": expected TASK,TASK",
           [&](PlanFlags& flags) { flags.together = {pair}; });
  }
}

TEST(PlanFlags, RecomputeModes) {
  using partition::RecomputeRule;
  using Which = ir::RecomputedMicroBatches;
  const auto options = [](const std::string& mode, std::optional<double> budget = {}) {
    PlanFlags flags;
    flags.recompute = mode;
    flags.recompute_budget = budget;
    return plan_request(flags)->options;
  };
  EXPECT_EQ(options("auto").recompute, RecomputeRule::kChoose);
  EXPECT_FALSE(options("auto").recompute_budget);
  EXPECT_EQ(options("always").recompute, RecomputeRule::kAlways);
  EXPECT_EQ(options("always").recomputed, Which::kAll);
  EXPECT_EQ(options("except-last").recompute, RecomputeRule::kAlways);
  EXPECT_EQ(options("except-last").recomputed, Which::kAllButLast);
  EXPECT_EQ(options("selective").recompute, RecomputeRule::kChoose);
  EXPECT_DOUBLE_EQ(*options("selective").recompute_budget, 0.05);
  EXPECT_DOUBLE_EQ(*options("selective", 12.5).recompute_budget, 0.125);
  PlanFlags flags;
  flags.recompute_budget = 3;
  EXPECT_EQ(check_plan_flags(flags).diagnostic().message, "--recompute-budget needs --recompute selective");
}

TEST(PlanFlags, SeveralSchedulesAreCandidates) {
  PlanFlags flags;
  flags.schedules = {"gpipe", "1f1b"};
  const auto request = plan_request(flags);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->options.schedule, "");
  EXPECT_EQ(request->options.search.schedules, flags.schedules);
}

TEST(PlanFlags, SchedulesTakeParameters) {
  PlanFlags flags;
  flags.schedules = {"k-periodic", "warmup"};
  flags.periods = 3;
  flags.period_ns = 5;
  flags.warm_up = {4, 4, 1};
  ASSERT_TRUE(check_plan_flags(flags).ok()) << check_plan_flags(flags).diagnostic().str();
  EXPECT_EQ(flags.stages, 3U) << "a depth for each stage";
  const partition::PlanOptions options = plan_request(flags)->options;
  EXPECT_EQ(options.schedule_parameters.periods, 3U);
  EXPECT_EQ(options.schedule_parameters.period_ns, 5);
  EXPECT_EQ(options.schedule_parameters.warm_up, flags.warm_up);
  const auto refuse = [](const std::string& message, auto&& set) {
    PlanFlags wrong;
    wrong.schedules = {"1f1b"};
    set(wrong);
    EXPECT_EQ(check_plan_flags(wrong).diagnostic().message, message);
  };
  refuse("--periods needs --schedule k-periodic", [](PlanFlags& wrong) { wrong.periods = 2; });
  refuse("--period needs --schedule 1f1b-star, k-periodic or periodic", [](PlanFlags& wrong) { wrong.period_ns = 2; });
  refuse("--warm-up needs --schedule warmup", [](PlanFlags& wrong) { wrong.warm_up = {1}; });
  refuse("--warm-up has 1 depths for 2 stages", [](PlanFlags& wrong) {
    wrong.schedules = {"warmup"};
    wrong.warm_up = {1};
    wrong.stages = 2;
  });
  refuse("--warm-up 1,2: a stage cannot be deeper than the stage before it, which would wait for ever",
         [](PlanFlags& wrong) {
           wrong.schedules = {"warmup"};
           wrong.warm_up = {1, 2};
         });
}

TEST(PlanFlags, StagesPerDeviceNeedASchedule) {
  PlanFlags flags;
  flags.schedules = {"1f1b", "zb-v"};
  flags.stages_per_device = 2;
  ASSERT_TRUE(check_plan_flags(flags).ok());
  EXPECT_EQ(plan_request(flags)->options.constraints.stages_per_device, 2U);
  flags.stages_per_device = 3;
  EXPECT_EQ(check_plan_flags(flags).diagnostic().message,
            "--stages-per-device 3: needs --schedule with one of interleaved, periodic, table");
  flags.schedules = {"interleaved"};
  EXPECT_TRUE(check_plan_flags(flags).ok());
  flags.stages_per_device = 1;
  EXPECT_FALSE(check_plan_flags(flags).ok());
  flags.schedules.clear();
  flags.stages_per_device = 2;
  EXPECT_TRUE(check_plan_flags(flags).ok()) << "auto chooses among the schedules that interleave";
}

TEST(CompileFlags, BecomeOptionsOfTheModel) {
  CompileFlags flags;
  flags.model = "m.onnx";
  flags.loss = "mse(output=y,labels=t)";
  flags.loss_graph = "loss.onnx";
  flags.loss_inputs = {"p=y"};
  flags.loss_weights = {"l=0.5"};
  flags.input_values = {"use_cache=false", "n=3"};
  flags.same_symbol = {"a=b"};
  flags.assume = {"sequence=128"};
  flags.sizes = {"height=32*k", "width=224"};
  flags.dtype = "float64";
  flags.frozen = {"a"};
  flags.trained = {"b"};
  flags.padding = {"table=0"};
  flags.training.batch_norms = {std::string(kEveryBatchNorm), "bn*"};
  flags.training.dropout = {"drop=0.25"};
  flags.mini_batch = 6;
  const auto options = model_options(flags);
  ASSERT_TRUE(options.ok()) << options.diagnostic().str();
  EXPECT_EQ(options->path, "m.onnx");
  ASSERT_TRUE(options->loss);
  EXPECT_EQ(options->loss->inputs.at("p"), "y");
  EXPECT_EQ(options->loss->weights.at("l"), 0.5);
  EXPECT_EQ(options->import.input_values, (std::map<std::string, double>{{"use_cache", 0}, {"n", 3}}));
  EXPECT_EQ(options->import.same_symbol.size(), 1U);
  EXPECT_EQ(options->assume.at("sequence"), 128);
  EXPECT_EQ(options->import.sizes.at("height").str(), "32*k");
  EXPECT_EQ(options->import.sizes.at("width"), ir::Dim(224));
  EXPECT_EQ(options->whole_mini_batch, 6U);
  const passes::PipelineOptions& pipeline = options->pipeline;
  EXPECT_EQ(pipeline.losses.size(), 1U);
  EXPECT_EQ(pipeline.precision, ir::DType::kF64);
  ASSERT_EQ(pipeline.stored.patterns.size(), 2U);
  EXPECT_EQ(pipeline.stored.patterns[0].kind, ir::ValueKind::kBuffer);
  EXPECT_EQ(pipeline.stored.patterns[1].kind, ir::ValueKind::kParameter) << "what is trained counts last";
  EXPECT_EQ(pipeline.stored.merged, passes::StoredFacts::Merged::kRefused) << "the model is trained";
  EXPECT_EQ(pipeline.lost.padding.at("table"), 0);
  EXPECT_TRUE(pipeline.training.batch_norm);
  EXPECT_EQ(pipeline.training.dropout.at("drop"), 0.25);
}

TEST(CompileFlags, HaveTheDefaultsOfTheLibrary) {
  auto reading = read_options({}).value();
  EXPECT_EQ(reading.reproducer, "rannc-reproducer.rir");
  reading.reproducer.clear();
  EXPECT_EQ(reading, compiler::ReadOptions{});
  EXPECT_EQ(model_plan_options({}).value(), compiler::PlanOptions{});
}

TEST(PlanOptions, AreCheckedWithoutTheCommandLine) {
  const auto refuse = [](const std::string& message, const compiler::PlanOptions& wrong) {
    const auto request = plan_request(wrong);
    ASSERT_FALSE(request.ok()) << message;
    EXPECT_EQ(request.diagnostic().message, message);
  };
  refuse("--stages: must be positive", {.stages = 0});
  refuse("--replicas: must be positive", {.replicas = {1, 0}});
  refuse("--momentum -1: must be at least 0 and below 1", {.optimizer = compiler::Optimizer::kSgd, .momentum = -1});
  refuse("--recompute-budget 101: must be a percentage",
         {.recompute = compiler::Recompute::kSelective, .recompute_budget = 101});
  refuse("--costs: the file of the profile database is missing", {.costs = compiler::Costs::kDatabase});
  refuse("--objective load: planner dapple has a fixed objective; use planner auto",
         {.planner = "dapple", .objective = compiler::Objective::kLoad});
  EXPECT_TRUE(plan_request(compiler::PlanOptions{.planner = "none"})
                  .diagnostic()
                  .message.starts_with("--planner: unknown planner 'none'; the planners are auto"));
}

TEST(ReadOptions, AreCheckedWithoutTheCommandLine) {
  const auto refuse = [](const std::string& message, const compiler::ReadOptions& wrong) {
    const auto options = model_options("m.onnx", wrong);
    ASSERT_FALSE(options.ok()) << message;
    EXPECT_EQ(options.diagnostic().message.substr(0, message.size()), message);
  };
  refuse("--skip-pass: form-atoms cannot be skipped; the optional passes are", {.skipped_passes = {"form-atoms"}});
  refuse("--max-trips: must be positive", {.max_trips = 0});
  refuse("--assume s=0: expected a positive integer", {.assumed_sizes = {{"s", 0}}});
  refuse("--partial-weights needs --weights", {.partial_weights = true});
}

TEST(CompileFlags, ErrorsNameTheFlag) {
  const auto refuse = [](const std::string& message, auto&& set) {
    CompileFlags flags;
    set(flags);
    const auto options = model_options(flags);
    ASSERT_FALSE(options.ok()) << message;
    EXPECT_EQ(options.diagnostic().message, message);
  };
  refuse("--dtype float8: expected float32 or float64", [](CompileFlags& flags) { flags.dtype = "float8"; });
  refuse("--kind w=weight: expected parameter, buffer or constant",
         [](CompileFlags& flags) { flags.kinds = {"w=weight"}; });
  refuse("--assume s=0: expected a positive integer", [](CompileFlags& flags) { flags.assume = {"s=0"}; });
  for (const char* wrong : {"0", "-3", "k*k", "a + b", "floor(k/2)", "2*k - 2", "1.5", "4*"}) {
    refuse(fmt::format("--size s={}: expected a positive integer, or one in terms of a new name, such as 32*k", wrong),
           [&](CompileFlags& flags) { flags.sizes = {fmt::format("s={}", wrong)}; });
  }
  refuse("--size s=4: 's' is 3 by another --size", [](CompileFlags& flags) { flags.sizes = {"s=3", "s=4"}; });
  refuse("--size s: expected NAME=VALUE", [](CompileFlags& flags) { flags.sizes = {"s"}; });
  refuse("--assume s=4: --size s=3 fixes it", [](CompileFlags& flags) {
    flags.sizes = {"s=3"};
    flags.assume = {"s=4"};
  });
  refuse("--assume s=4: 's' is 3 by another --assume", [](CompileFlags& flags) { flags.assume = {"s=3", "s=4"}; });
  refuse("--input-value x: expected NAME=VALUE", [](CompileFlags& flags) { flags.input_values = {"x"}; });
  refuse("--padding-index t=0.5: expected an integer", [](CompileFlags& flags) { flags.padding = {"t=0.5"}; });
  refuse("--dropout p=much: expected a number", [](CompileFlags& flags) { flags.training.dropout = {"p=much"}; });
  refuse("--loss-weight l=x: expected a number", [](CompileFlags& flags) {
    flags.loss_graph = "loss.onnx";
    flags.loss_weights = {"l=x"};
  });
}

}  // namespace
}  // namespace rannc::tools
