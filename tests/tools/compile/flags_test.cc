// Flags become typed options: what each one sets, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/tools/common/captured_program.h"
#include "tools/common/programs.h"
#include "tools/compile/compile_command.h"
#include "tools/compiler/check_plan_options.h"
#include "tools/compiler/requested_model.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {
namespace {

using Words = std::vector<std::string>;

/// The options of a command line.
struct Parsed {
  compiler::ReadOptions read;
  compiler::PlanOptions plan;
  PassFlags passes;
};

Parsed parse(Words words) {
  CLI::App app;
  FlagTable table(app);
  Parsed parsed;
  add_read_flags(table, parsed.read, parsed.passes);
  add_plan_flags(table, parsed.plan);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return parsed;
}

/// The usage error of a command line.
std::string wrong(const Words& words) {
  try {
    parse(words);
  } catch (const CLI::ParseError& failure) {
    return failure.what();
  }
  return "";
}

RequestedPlan planned(const Words& words) { return requested_plan(parse(words).plan).value(); }

std::string refused(const Words& words) {
  const auto result = checked(parse(words).plan);
  return result.ok() ? "" : result.diagnostic().message;
}

TEST(PlanFlags, BecomeARequest) {
  const RequestedPlan request =
      planned({"--cluster",   "local:3", "--memory",    "1MiB",  "--optimizer",  "sgd", "--momentum",      "0.5",
               "--stages",    "2",       "--pin",       "a=b=1", "--together",   "x,y", "--schedule",      "gpipe",
               "--objective", "memory",  "--recompute", "never", "--step-limit", "7ns", "--search-budget", "9"});
  const partition::PlanOptions& planning = request.planning;
  EXPECT_TRUE(request.on_this_machine);
  EXPECT_EQ(planning.cluster.size(), 3U);
  EXPECT_EQ(planning.cluster.kinds.front().memory_bytes, 1U << 20);
  EXPECT_EQ(planning.constraints.stages, 2U);
  EXPECT_EQ(planning.optimizer.states(), 1U) << "momentum keeps a state";
  EXPECT_EQ(planning.schedule, "gpipe");
  EXPECT_EQ(planning.search.schedules, (Words{"gpipe"}));
  EXPECT_EQ(planning.search.simulated_actions, 9U);
  EXPECT_EQ(planning.objective, partition::Objective::kPeakMemory);
  EXPECT_EQ(planning.recompute, partition::RecomputeRule::kNever);
  EXPECT_EQ(planning.step_limit_ns, 7);
  EXPECT_FALSE(request.options.mini_batch);
  EXPECT_EQ(request.options.pins, (std::vector<compiler::Pin>{{"a=b", 1}}));
  EXPECT_EQ(request.options.together, (std::vector<compiler::Together>{{"x", "y"}}));
}

TEST(PlanFlags, LimitsOfTheSearchAndOfTheStepDiffer) {
  const RequestedPlan request = planned({"--time-limit", "2s"});
  EXPECT_FALSE(request.planning.step_limit_ns);
  EXPECT_EQ(request.options.time_limit_ns, 2e9);
}

TEST(PlanFlags, NameTheKindsThatAreThisProcessor) {
  EXPECT_TRUE(planned({"--cluster", "local:2"}).on_processor());
  for (const char* elsewhere : {"h100-8", "2x-h100-8", "v100-2", "flat:2", "rannc-4x8", "dapple-c"}) {
    EXPECT_FALSE(planned({"--cluster", elsewhere}).on_processor()) << elsewhere;
  }
  const auto gpus = [] { return partition::cluster_of_gpus("NVIDIA H100 80GB HBM3", uint64_t{80} << 30, 2); };
  const RequestedPlan request = requested_plan({.cluster = "local:cuda"}, {}, gpus).value();
  EXPECT_FALSE(request.on_processor());
  EXPECT_FALSE(request.on_this_machine) << "links between threads are not links between GPUs";
}

TEST(PlanFlags, BucketsAreLargerOnGpus) {
  const auto bucket = [](const Words& words) { return planned(words).planning.bucket_bytes; };
  EXPECT_EQ(bucket({"--cluster", "local:2"}), 4 << 20);
  EXPECT_EQ(bucket({"--cluster", "h100-8"}), 32 << 20);
  EXPECT_EQ(bucket({"--cluster", "h100-8", "--bucket", "1MiB"}), 1 << 20);
  EXPECT_EQ(bucket({"--cluster", "local:2", "--bucket", "0"}), 0);
}

TEST(PlanFlags, CostsAreThoseOfTheCluster) {
  using compiler::Costs;
  const auto costs = [](const Words& words) { return planned(words).options.costs; };
  EXPECT_EQ(costs({"--cluster", "local:2"}), Costs::kMeasured);
  EXPECT_EQ(costs({"--cluster", "h100-8"}), Costs::kAnalytic);
  EXPECT_EQ(costs({"--cluster", "local:2", "--costs", "analytic"}), Costs::kAnalytic);
  EXPECT_EQ(costs({"--cluster", "h100-8", "--costs", "measured"}), Costs::kMeasured) << "which is refused";
  EXPECT_EQ(costs({"--cluster", "h100-8", "--costs", "p.json"}), Costs::kDatabase);
  EXPECT_EQ(planned({"--costs", "p.json"}).options.cost_database, "p.json");
  EXPECT_EQ(costs({"--cluster", "local:2", "--costs", "measured:p.json"}), Costs::kMeasured);
  EXPECT_EQ(planned({"--costs", "measured:p.json"}).options.cost_database, "p.json");
}

TEST(PlanFlags, ChoicesBecomeEnumerators) {
  const compiler::PlanOptions plan = parse({"--matmul-precision", "high", "--kernels", "default", "--shard-optimizer",
                                            "off", "--no-refine", "--seed", "18446744073709551615"})
                                         .plan;
  EXPECT_EQ(plan.matmul_precision, compiler::MatmulPrecision::kHigh);
  EXPECT_EQ(plan.kernels, compiler::Kernels::kDefault);
  EXPECT_EQ(plan.shard_optimizer, compiler::ShardOptimizer::kOff);
  EXPECT_FALSE(plan.refine);
  EXPECT_EQ(plan.seed, UINT64_MAX);
}

TEST(PlanFlags, NamedTasksAreChecked) {
  for (const char* pin : {"a", "a=", "=1", "a=-1", "a=1x", "a=99999999999"}) {
    EXPECT_EQ(wrong({"--pin", pin}),
              fmt::format("--pin: expected TASK=STAGE with a whole number from 0 to 4294967295, found '{}'", pin));
  }
  for (const char* pair : {"a", "a,", ",b"})
    EXPECT_EQ(wrong({"--together", pair}), fmt::format("--together {}: expected TASK,TASK", pair));
}

TEST(PlanFlags, RecomputeModes) {
  using partition::RecomputeRule;
  using Which = ir::RecomputedMicroBatches;
  const auto planning = [](Words words) {
    words.insert(words.begin(), "--recompute");
    return planned(words).planning;
  };
  EXPECT_EQ(planning({"auto"}).recompute, RecomputeRule::kChoose);
  EXPECT_FALSE(planning({"auto"}).recompute_budget);
  EXPECT_EQ(planning({"always"}).recompute, RecomputeRule::kAlways);
  EXPECT_EQ(planning({"always"}).recomputed, Which::kAll);
  EXPECT_EQ(planning({"except-last"}).recompute, RecomputeRule::kAlways);
  EXPECT_EQ(planning({"except-last"}).recomputed, Which::kAllButLast);
  EXPECT_EQ(planning({"selective"}).recompute, RecomputeRule::kChoose);
  EXPECT_DOUBLE_EQ(*planning({"selective"}).recompute_budget, 0.05);
  EXPECT_DOUBLE_EQ(*planning({"selective", "--recompute-budget", "12.5"}).recompute_budget, 0.125);
  EXPECT_EQ(refused({"--recompute-budget", "3"}), "--recompute-budget needs --recompute selective");
}

TEST(PlanFlags, SeveralSchedulesAreCandidates) {
  const partition::PlanOptions planning = planned({"--schedule", "gpipe,1f1b"}).planning;
  EXPECT_EQ(planning.schedule, "");
  EXPECT_EQ(planning.search.schedules, (Words{"gpipe", "1f1b"}));
}

TEST(PlanFlags, SchedulesTakeParameters) {
  const RequestedPlan request =
      planned({"--schedule", "k-periodic,warmup", "--periods", "3", "--period", "5ns", "--warm-up", "4,4,1"});
  EXPECT_EQ(request.options.stages, 3U) << "a depth for each stage";
  EXPECT_EQ(request.planning.schedule_parameters.periods, 3U);
  EXPECT_EQ(request.planning.schedule_parameters.period_ns, 5);
  EXPECT_EQ(request.planning.schedule_parameters.warm_up, (std::vector<uint32_t>{4, 4, 1}));
  EXPECT_EQ(refused({"--schedule", "1f1b", "--periods", "2"}), "--periods needs --schedule k-periodic");
  EXPECT_EQ(refused({"--schedule", "1f1b", "--period", "2ns"}),
            "--period needs --schedule 1f1b-star, k-periodic or periodic");
  EXPECT_EQ(refused({"--schedule", "1f1b", "--warm-up", "1"}), "--warm-up needs --schedule warmup");
  EXPECT_EQ(refused({"--schedule", "warmup", "--warm-up", "1", "--stages", "2"}),
            "--warm-up has 1 depths for 2 stages");
  EXPECT_EQ(refused({"--schedule", "warmup", "--warm-up", "1,2"}),
            "--warm-up 1,2: a stage cannot be deeper than the stage before it, which would wait for ever");
}

TEST(PlanFlags, StagesPerDeviceNeedASchedule) {
  const auto refuse = [](const char* schedules, const char* count) {
    return refused({"--schedule", schedules, "--stages-per-device", count});
  };
  EXPECT_EQ(refuse("1f1b,zb-v", "2"), "");
  EXPECT_EQ(planned({"--schedule", "zb-v", "--stages-per-device", "2"}).planning.constraints.stages_per_device, 2U);
  EXPECT_EQ(refuse("1f1b,zb-v", "3"),
            "--stages-per-device 3: needs --schedule with one of interleaved, periodic, serial, found, table");
  EXPECT_EQ(refuse("interleaved", "3"), "");
  EXPECT_NE(refuse("interleaved", "1"), "");
  EXPECT_EQ(refused({"--stages-per-device", "2"}), "") << "auto chooses among the schedules that interleave";
}

TEST(ReadFlags, BecomeOptionsOfTheModel) {
  const Parsed parsed = parse({"--loss",
                               "mse(output=y,labels=t)",
                               "--loss-graph",
                               "loss.onnx",
                               "--loss-input",
                               "p=y",
                               "--loss-weight",
                               "l=0.5",
                               "--input-value",
                               "use_cache=false",
                               "--input-value",
                               "n=3",
                               "--same-symbol",
                               "a=b",
                               "--assume",
                               "sequence=128",
                               "--size",
                               "height=32*k",
                               "--size",
                               "width=224",
                               "--dtype",
                               "float64",
                               "--freeze",
                               "a",
                               "--train",
                               "b",
                               "--padding-index",
                               "table=-1",
                               "--train-batch-norm",
                               "--train-batch-norm=bn*",
                               "--dropout",
                               "drop=0.25",
                               "--kind",
                               "w=buffer",
                               "--skip-pass",
                               "cse",
                               "--no-fuse",
                               "loops"});
  EXPECT_FALSE(parsed.passes.loops);
  EXPECT_EQ(parsed.read.skipped_passes, (Words{"cse"}));
  const auto requested = requested_model("m.onnx", parsed.read);
  ASSERT_TRUE(requested.ok()) << requested.diagnostic().str();
  const compiler::ReadOptions& options = requested->options;
  EXPECT_EQ(requested->path, "m.onnx");
  EXPECT_EQ(options.loss_graph, (compiler::LossGraph{"loss.onnx", {{"p", "y"}}, {{"l", 0.5}}}));
  EXPECT_EQ(options.assumed_sizes.at("sequence"), 128);
  EXPECT_EQ(options.kinds.at("w"), compiler::StoredKind::kBuffer);
  EXPECT_EQ(requested->import.input_values, (std::map<std::string, double>{{"use_cache", 0}, {"n", 3}}));
  EXPECT_EQ(requested->import.same_symbol.size(), 1U);
  EXPECT_EQ(requested->import.sizes.at("height").str(), "32*k");
  EXPECT_EQ(requested->import.sizes.at("width"), ir::Dim(224));
  const passes::PipelineOptions& pipeline = requested->pipeline;
  EXPECT_EQ(pipeline.losses.size(), 1U);
  EXPECT_EQ(pipeline.precision, ir::DType::kF64);
  ASSERT_EQ(pipeline.stored.patterns.size(), 2U);
  EXPECT_EQ(pipeline.stored.patterns[0].kind, ir::ValueKind::kBuffer);
  EXPECT_EQ(pipeline.stored.patterns[1].kind, ir::ValueKind::kParameter) << "what is trained counts last";
  EXPECT_EQ(pipeline.stored.merged, passes::StoredFacts::Merged::kRefused) << "the model is trained";
  EXPECT_EQ(pipeline.lost.padding.at("table"), -1);
  EXPECT_TRUE(pipeline.training.batch_norm);
  EXPECT_EQ(pipeline.training.batch_norms, (std::set<std::string>{"bn*"}));
  EXPECT_EQ(pipeline.training.dropout.at("drop"), 0.25);
}

TEST(Flags, HaveTheDefaultsOfTheLibrary) {
  EXPECT_EQ(parse({}).read, compiler::ReadOptions{});
  EXPECT_EQ(parse({}).plan, compiler::PlanOptions{});
}

TEST(PlanOptions, AreCheckedWithoutTheCommandLine) {
  const auto refuse = [](const std::string& message, const compiler::PlanOptions& wrong) {
    const auto request = requested_plan(wrong);
    ASSERT_FALSE(request.ok()) << message;
    EXPECT_EQ(request.diagnostic().message, message);
  };
  refuse("--stages 0: expected a whole number from 1 to 16777216", {.stages = 0});
  refuse("--replicas 0: expected a whole number from 1 to 16777216", {.replicas = {1, 0}});
  refuse("--memory 0: expected a positive number", {.memory_bytes = 0});
  refuse("--momentum -1: expected a number from 0 to 0.999999",
         {.optimizer = compiler::Optimizer::kSgd, .momentum = -1});
  refuse("--recompute-budget 101: expected a number from 0 to 100",
         {.recompute = compiler::Recompute::kSelective, .recompute_budget = 101});
  refuse("--costs: the file of the profile database is missing", {.costs = compiler::Costs::kDatabase});
  refuse("--objective load: planner dapple has a fixed objective; use planner auto",
         {.planner = "dapple", .objective = compiler::Objective::kLoad});
  refuse("--stages: the plan of --plan decides; edit its file, or leave out the flag", {.plan = "p.rir", .stages = 2});
  refuse("--recompute: the plan of --plan decides; edit its file, or leave out the flag",
         {.plan = "p.rir", .recompute = compiler::Recompute::kNever});
  EXPECT_TRUE(checked({.plan = "p.rir", .devices = 1, .recompute = compiler::Recompute::kSelective}).ok());
  EXPECT_TRUE(requested_plan({.planner = "none"})
                  .diagnostic()
                  .message.starts_with("--planner: unknown planner 'none'; the planners are auto"));
}

TEST(ReadOptions, AreCheckedWithoutTheCommandLine) {
  const auto refuse = [](const std::string& message, const compiler::ReadOptions& wrong) {
    const auto options = requested_model("m.onnx", wrong);
    ASSERT_FALSE(options.ok()) << message;
    EXPECT_EQ(options.diagnostic().message.substr(0, message.size()), message);
  };
  refuse("--skip-pass: form-atoms cannot be skipped; the optional passes are", {.skipped_passes = {"form-atoms"}});
  refuse("--max-trips 0: expected a whole number from 1", {.max_trips = 0});
  refuse("--assume s=0: expected a positive integer", {.assumed_sizes = {{"s", 0}}});
  refuse("--assume s=4: --size s=3 fixes it", {.sizes = {{"s", "3"}}, .assumed_sizes = {{"s", 4}}});
  refuse("--partial-weights needs --weights", {.partial_weights = true});
  refuse("--loss-graph: the file is missing", {.loss_graph = compiler::LossGraph{.inputs = {{"p", "y"}}}});
  for (const char* size : {"0", "-3", "k*k", "a + b", "floor(k/2)", "2*k - 2", "1.5", "4*"}) {
    refuse(fmt::format("--size s={}: expected a positive integer, or one in terms of a new name, such as 32*k", size),
           {.sizes = {{"s", size}}});
  }
}

TEST(ReadFlags, ErrorsNameTheFlag) {
  EXPECT_EQ(wrong({"--dtype", "float8"}), "--dtype: float8 not in {float32,float64}");
  EXPECT_EQ(wrong({"--kind", "w=weight"}), "--kind w=weight: expected one of parameter, buffer, constant");
  EXPECT_EQ(wrong({"--size", "s=3", "--size", "s=4"}), "--size s=4: 's' is 3 by another --size");
  EXPECT_EQ(wrong({"--size", "s"}), "--size s: expected NAME=VALUE");
  EXPECT_EQ(wrong({"--assume", "s=3", "--assume", "s=4"}), "--assume s=4: 's' is 3 by another --assume");
  EXPECT_EQ(wrong({"--input-value", "x"}),
            "--input-value: expected NAME=VALUE with true, false or a number, found 'x'");
  EXPECT_EQ(wrong({"--padding-index", "t=0.5"}),
            "--padding-index: expected TABLE=ROW with a whole number, found 't=0.5'");
  EXPECT_EQ(wrong({"--dropout", "p=much"}),
            "--dropout: expected PATTERN=RATIO with a number above 0 to 1, found 'p=much'");
}

/// Which flags apply to which inputs follows from their rows.
class Inputs : public testing::Test {
 protected:
  static std::string refused(Words words) {
    words.insert(words.begin(), "rannc-compile");
    const Captured done = run_captured(compile_main, words);
    EXPECT_EQ(done.code, 2) << done.complained;
    return done.complained.substr(0, done.complained.find('\n'));
  }
};

TEST_F(Inputs, RefuseFlagsOfOthers) {
  const std::string error = "rannc-compile: error: ";
  EXPECT_EQ(refused({"m.onnx", "--exact"}), error + "--exact: m.onnx is not a profile");
  EXPECT_EQ(refused({"p.txt", "--loss", "l"}), error + "--loss: p.txt is a profile, not a model");
  EXPECT_EQ(refused({"p.txt", "--exact"}), error + "--exact: p.txt is a profile, not a placement graph (.json)");
  EXPECT_EQ(refused({"p.json", "--stages", "2"}),
            error + "--stages: p.json is a placement graph, which specifies this itself");
  EXPECT_EQ(refused({"p.json", "--verbose"}), error + "--verbose: p.json is a profile, not a model");
  EXPECT_EQ(refused({"m.onnx", "--plan", "/dev/null", "--stages", "2"}),
            error + "--stages: the plan of --plan decides; edit its file, or leave out the flag");
  EXPECT_EQ(refused({"m.onnx", "--rebuild", "b.rannc"}),
            error + "model: --rebuild takes everything but the compiler from the bundle");
  EXPECT_EQ(refused({"--rebuild", "b.rannc", "--stages", "2"}),
            error + "--stages: --rebuild takes everything but the compiler from the bundle");
}

TEST_F(Inputs, EachRowAppliesToSome) {
  CLI::App app;
  FlagTable table(app);
  CompileCommand command;
  add_compile_flags(table, command);
  for (const FlagTable::Entry& entry : table.entries()) {
    EXPECT_NE(entry.row.inputs, 0U) << entry.row.flag;
    EXPECT_FALSE(entry.group.empty()) << entry.row.flag;
  }
  EXPECT_NE(table.markdown().find("| `--stages N` | number of stages | any |\n"), std::string::npos);
}

}  // namespace
}  // namespace rannc::tools
