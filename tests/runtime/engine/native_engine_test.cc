// Compiled stages against the explicit engine, and what is refused.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "codegen/bundle_writer.h"
#include "codegen/native_compiler.h"
#include "codegen/native_source.h"
#include "ir/op/loop.h"
#include "ir/op/op.h"
#include "ir/plan/functions.h"
#include "ir/text/text.h"
#include "runtime/engine/engine.h"
#include "tests/runtime/support/loop_calls.h"
#include "tests/runtime/support/numbers_of_models.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  ir::Graph (*model)(ir::DType);
  PlanSpec spec;
  bool commit = false;
};

// Skips and ties over two stages; a loss over labels, R of a whole stage, constant tasks; random inputs, I and W apart;
// running statistics; sums over replicas, which are no calls of LibTorch; sums of partial results, with an E.
const Case kCases[] = {
    {"skip_and_tie", skip_and_tie, {.cuts = {3}, .micro_batches = {3, 2}}},
    {"token_model", token_model, {.micro_batches = {3, 2}, .recompute = true}},
    {"dropout", dropout_model, {.cuts = {3}, .micro_batches = {3, 2}, .split_backward = true}},
    {"norm", norm_model, {.micro_batches = {3, 2}}, true},
    {"joint_norm", permuted_joint_model, {.replicas = {2}, .micro_batches = {4}}},
    {"sums", sums_model, {.micro_batches = {3, 2}}},
};

class NativeEngine : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Toys, NativeEngine, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(NativeEngine, HasTheBitsOfTheExplicitOne) {
  const Case& given = GetParam();
  at::manual_seed(5);
  const ir::Plan plan = build_plan(given.model(ir::DType::kF64), given.spec);
  const auto batch = batch_for(plan.graph, 5 - (given.spec.micro_batches.size() == 1 ? 1 : 0));
  const std::vector<double> denominators(plan.graph.losses().size(), 60.0);
  RunOptions options{.step = 3, .seed = 7, .steps = 2, .engine = "explicit", .commit = given.commit};
  const Numbers expected = run_locally(plan, batch, denominators, options);
  options.engine = "native";
  expect_same_bits(run_locally(plan, batch, denominators, options), expected);
  options.training = false;
  const Numbers evaluated = run_locally(plan, batch, denominators, options);
  options.engine = "explicit";
  EXPECT_EQ(run_locally(plan, batch, denominators, options).loss, evaluated.loss);
}

// Compiled functions pass the marks of buckets: sums of replicas begin in the middle of the last backward pass.
TEST(NativeMarks, ChangeNoBit) {
  for (const auto& [model, split] : {std::pair(&skip_and_tie, false), std::pair(&token_model, true)}) {
    const ir::Plan plan = build_plan(
        model(ir::DType::kF64), {.replicas = {2}, .micro_batches = {3, 2}, .split_backward = split, .bucket_bytes = 0});
    EXPECT_NE(codegen::native_source(plan, StageId(0)).value().find("run.mark(run.context, 1)"), std::string::npos);
    at::manual_seed(5);
    const auto batch = batch_for(plan.graph, 5);
    const auto run = [&](const char* engine, bool overlaps) {
      return run_locally(plan, batch, {60.0}, {.steps = 2, .engine = engine, .overlaps_sums = overlaps});
    };
    const Numbers found = run("native", true);
    expect_same_bits(found, run("native", false));
    expect_same_bits(found, run("explicit", true));
  }
}

double off(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-3)).item<double>();
}

void give_weights(ir::Graph& graph, at::ScalarType type) {
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    const at::Tensor made = at::randn(sizes_of(graph.type(value), 1), at::kDouble).mul(0.5).to(type);
    const auto* first = static_cast<const std::byte*>(made.const_data_ptr());
    graph.set_data(value, ir::TensorData::in_memory({first, first + made.nbytes()}));
  }
}

/// x f[batch, 5, 24] -> linear, gelu, a skip, layer_norm, softmax times x, silu, a mask, and the sum of squares. 24
/// columns are a vector and a half of floats. `approximate`: of gelu.
ir::Graph row_model(const std::string& type, const std::string& approximate, bool has_product = true) {
  const auto numbered = [&](std::string text) {
    for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at + 1)) text.replace(at, 1, type);
    return text;
  };
  ir::Graph graph = ir::parse_graph(numbered(R"(rannc.graph 1
batch batch
input %x: T[batch,5,24] samples 0
input %target: T[batch,5,24] samples 0
)" + std::string(has_product ? "parameter %w: T[24,24]\n" : "") +
                                             R"(parameter %c: T[24]
parameter %s: T[24]
parameter %t: T[24]
#0 %a: T[batch,5,24] samples 0 = )" + (has_product ? "core.linear(%x, %w, %c) {layout = \"oi\"}" : "core.mul(%x, %c)") +
                                             R"(
#1 %b: T[batch,5,24] samples 0 = core.gelu(%a) {approximate = ")" +
                                             approximate + R"("}
#2 %d: T[batch,5,24] samples 0 = core.add(%b, %x)
#3 %e: T[batch,5,24] samples 0 = core.layer_norm(%d, %s, %t)
#4 %f: T[batch,5,24] samples 0 = core.softmax(%e)
#5 %g: T[batch,5,24] samples 0 = core.mul(%f, %d)
#6 %h: T[batch,5,24] samples 0 = core.silu(%g)
#7 %i: bool[batch,5,24] samples 0 = core.gt(%h, %c)
#8 %j: T[batch,5,24] samples 0 = core.where(%i, %h, %e)
#9 %k: T[batch,5,24] samples 0 = core.tanh(%j)
#10 %l: T[] partial = core.mse_sum(%k, %target)
inputs [%x, %target]
outputs [%k]
loss %l weight 0x1p+0
)"),
                                    "rows.rir")
                        .value();
  give_weights(graph, type == "f64" ? at::kDouble : at::kFloat);
  return graph;
}

struct Rows {
  std::map<std::string, at::Tensor> batch;
  Numbers run(ir::Graph graph, PlanSpec spec, const std::string& engine) const {
    spec.micro_batches = {3, 2};
    return run_locally(build_plan(std::move(graph), spec), batch, {60.0}, {.engine = engine, .loops = true});
  }
};

Rows rows_for(const ir::Graph& graph, at::ScalarType type) {
  Rows rows{batch_for(graph, 5)};
  for (auto& [name, tensor] : rows.batch) tensor = tensor.to(type);
  return rows;
}

struct Kind {
  const char* name;
  const char* type;
  const char* approximate;
  at::ScalarType scalar;
  double limit;
};
class NativeLoops : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Types, NativeLoops,
                         ::testing::Values(Kind{"float_none", "f32", "none", at::kFloat, 1e-5},
                                           Kind{"float_tanh", "f32", "tanh", at::kFloat, 1e-5},
                                           Kind{"double_none", "f64", "none", at::kDouble, 1e-12},
                                           Kind{"double_tanh", "f64", "tanh", at::kDouble, 1e-12}),
                         [](const auto& info) { return info.param.name; });

TEST_P(NativeLoops, AreNearLibTorchsOperators) {
  const Kind& kind = GetParam();
  at::manual_seed(4);
  const ir::Graph graph = row_model(kind.type, kind.approximate);
  const Rows rows = rows_for(graph, kind.scalar);
  const Numbers expected = rows.run(graph.clone(), {}, "explicit"), found = rows.run(graph.clone(), {}, "native");
  EXPECT_NEAR(found.loss, expected.loss, kind.limit * std::abs(expected.loss));
  EXPECT_LT(off(found.outputs.at("k"), expected.outputs.at("k")), kind.limit);
  ASSERT_EQ(found.gradients.size(), 4U);
  for (const auto& [name, tensor] : expected.gradients) {
    EXPECT_LT(off(found.gradients.at(name), tensor), kind.limit) << name;
  }
  // Loops of our own round differently somewhere.
  EXPECT_FALSE(found.gradients.at("w").equal(expected.gradients.at("w")));
}

ir::Graph every_rule(const std::string& type) {
  std::string text = R"(rannc.graph 1
batch batch
input %x: T[batch,5,136] samples 0
input %y: T[batch,5,136] samples 0
input %m: T[batch,5,1] samples 0
input %r: T[batch,5,1] samples 0
input %n: i64[batch,5,136] samples 0
input %k: T[batch,3,5,136] samples 0
input %l: T[batch,1,5,136] samples 0
input %v: T[batch,1,5,1] samples 0
parameter %c: T[136]
parameter %d: T[136]
parameter %e: T[300,136]
parameter %f: T[300,136]
parameter %p: T[300,1]
parameter %q: T[300,1]
#0 %z: T[batch,5,136] samples 0 = core.sub(%x, %y)
#1 %g: bool[batch,5,136] samples 0 = core.gt(%z, %m)
#2 %h: T[batch,5,136] samples 0 = core.relu(%z)
#3 %i: T[batch,5,136] samples 0 = core.maximum(%y, %m)
#4 %j: T[batch,5,136] samples 0 = core.log(%z)
#5 %o: bool[batch,5,136] samples 0 = core.gt(%x, %m)
#6 %w: T[batch,5,136] samples 0 = core.div(%z, %m)
#7 %u: i64[300] = core.argmax(%f) {axis = 1, keepdim = false}
#8 %s: T[] = core.sum(%p)
#9 %t: bool[batch,5,1] samples 0 = core.gt(%m, %r)
#10 %zeros: T[batch,5,136] samples 0 = core.sub(%x, %x)
#11 %lowest: T[batch,5,136] samples 0 = core.log(%zeros)
#12 %hidden: T[batch,5,136] samples 0 = core.where(%t, %lowest, %x)
)";
  std::string outputs = "outputs [";
  size_t count = 13;
  const auto add = [&](const char* call, const std::string& result) {
    text += fmt::format("#{0} %o{0}: {1} = {2}\n", count, result, call);
    if (result == "T[]") {  // outputs of micro-batches are joined, scalars cannot be
      ++count;
      text += fmt::format("#{0} %o{0}: T[1] = core.reshape(%o{1}) {{shape = [1]}}\n", count, count - 1);
    }
    outputs += fmt::format("{}%o{}", outputs.back() == '[' ? "" : ", ", count);
    ++count;
  };
  for (const char* call : kElementCalls) add(call, "T[batch,5,136] samples 0");
  for (const char* call : kTruthCalls) add(call, "bool[batch,5,136] samples 0");
  for (const RowCall& row : kRowCalls) add(row.call, row.result);
  text += "inputs [%x, %y, %m, %r, %n, %k, %l, %v]\n" + outputs + "]\n";
  for (const std::string_view written : {"T[", "T}"}) {
    for (size_t at = text.find(written); at != std::string::npos; at = text.find(written, at + 1))
      text.replace(at, 1, type);
  }
  ir::Graph graph = ir::parse_graph(text, "rules.rir").value();
  give_weights(graph, type == "f64" ? at::kDouble : at::kFloat);
  return graph;
}

TEST_P(NativeLoops, AllRulesAreNearLibTorchsOperators) {
  const Kind& kind = GetParam();
  if (kind.approximate != std::string_view("none")) return;  // both are in the graph
  at::manual_seed(6);
  const ir::Graph graph = every_rule(kind.type);
  std::map<std::string, at::Tensor> batch = batch_for(graph, 3);
  for (auto& [name, tensor] : batch) {
    if (tensor.is_floating_point()) tensor = tensor.abs().add(0.1).to(kind.scalar);
  }
  const ir::Plan plan = build_plan(graph.clone(), {.micro_batches = {3}, .training = false});
  RunOptions options{.training = false, .engine = "explicit", .loops = true};
  const Numbers expected = run_locally(plan, batch, {}, options);
  options.engine = "native";
  const Numbers found = run_locally(plan, batch, {}, options);
  ASSERT_EQ(found.outputs.size(), std::size(kElementCalls) + std::size(kTruthCalls) + std::size(kRowCalls));
  for (const auto& [name, tensor] : expected.outputs) {
    TaskId task = graph.producer(graph.find(name));
    if (graph.op(task).name == "core.reshape") task = graph.producer(graph.inputs(task)[0]);
    const std::string& op = graph.op(task).name;
    EXPECT_TRUE(ir::loop_task(graph, task)) << op;
    if (tensor.scalar_type() == at::kBool) {
      EXPECT_TRUE(found.outputs.at(name).equal(tensor)) << op;
    } else {
      EXPECT_LT(off(found.outputs.at(name), tensor), kind.limit) << op;
    }
  }
}

/// A product with dropout, and a choice by uniform numbers; 5 x 27 of a sample are no multiple of four.
ir::Graph draw_model(std::string_view type) {
  std::string text = R"(rannc.graph 1
batch batch
input %x: T[batch,5,27] samples 0
input %target: T[batch,5,27] samples 0
parameter %c: T[27]
random %d: T[batch,5,27] samples 0 = bernoulli drop 0x1p-2 key 7
random %u: T[batch,5,27] samples 0 = uniform key 9
#0 %a: T[batch,5,27] samples 0 = core.mul(%x, %c)
#1 %b: T[batch,5,27] samples 0 = core.mul(%a, %d)
#2 %g: bool[batch,5,27] samples 0 = core.gt(%u, %c)
#3 %e: T[batch,5,27] samples 0 = core.where(%g, %b, %x)
#4 %l: T[] partial = core.mse_sum(%e, %target)
inputs [%x, %target]
outputs [%e]
loss %l weight 0x1p+0
)";
  for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at + 1)) text.replace(at, 1, type);
  ir::Graph graph = ir::parse_graph(text, "draws.rir").value();
  give_weights(graph, type == "f64" ? at::kDouble : at::kFloat);
  return graph;
}

TEST_P(NativeLoops, MakeTheRandomNumbersOfOtherEngines) {
  const Kind& kind = GetParam();
  if (kind.approximate != std::string_view("none")) return;
  at::manual_seed(4);
  const ir::Graph graph = draw_model(kind.type);
  const Rows rows = rows_for(graph, kind.scalar);
  const ir::Plan plan = build_plan(graph.clone(), {.micro_batches = {3, 2}});
  const std::string source = codegen::native_source(plan, StageId(0)).value();
  EXPECT_NE(source.find("dropped(0.25)"), std::string::npos);
  EXPECT_NE(source.find("Uniform()"), std::string::npos);
  EXPECT_EQ(source.find("run.random_input("), std::string::npos);
  for (const bool training : {true, false}) {
    RunOptions options{.step = 3, .seed = 7, .training = training, .engine = "explicit", .loops = true};
    const Numbers expected = run_locally(plan, rows.batch, {60.0}, options);
    options.engine = "native";
    const Numbers found = run_locally(plan, rows.batch, {60.0}, options);
    EXPECT_TRUE(found.outputs.at("e").equal(expected.outputs.at("e")));
    if (!training) continue;
    EXPECT_LT(off(found.gradients.at("c"), expected.gradients.at("c")), kind.limit);
  }
}

class NativeCuts : public ::testing::TestWithParam<PlanSpec> {};
INSTANTIATE_TEST_SUITE_P(Specs, NativeCuts,
                         ::testing::Values(PlanSpec{.cuts = {3}}, PlanSpec{.cuts = {2}}, PlanSpec{.cuts = {5}},
                                           PlanSpec{.recompute = true, .split_backward = true}));

TEST_P(NativeCuts, SplitLoopsAndChangeNoBit) {
  at::manual_seed(4);
  const ir::Graph graph = row_model("f32", "none");
  const Rows rows = rows_for(graph, at::kFloat);
  expect_same_bits(rows.run(graph.clone(), GetParam(), "native"), rows.run(graph.clone(), {}, "native"));
}

TEST(NativeThreads, ChangeNoBit) {
  at::manual_seed(4);
  const ir::Graph graph = row_model("f32", "tanh", /*has_product=*/false);  // threads split LibTorch's products
  std::map<std::string, at::Tensor> batch = batch_for(graph, 2000);
  for (auto& [name, tensor] : batch) tensor = tensor.to(at::kFloat);
  const ir::Plan plan = build_plan(graph.clone(), {.micro_batches = {2000}});
  const RunOptions options{.engine = "native", .loops = true};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Numbers expected = run_locally(plan, batch, {60.0}, options);
  at::set_num_threads(3);
  const Numbers found = run_locally(plan, batch, {60.0}, options);
  at::set_num_threads(threads);
  ASSERT_EQ(found.gradients.size(), 3U);
  expect_same_bits(found, expected);
}

/// Bundles in a folder of their own.
class NativeBundles : public ::testing::Test {
 protected:
  NativeBundles() : folder_(fs::temp_directory_path() / ("rannc-native-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~NativeBundles() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  codegen::NativeCompiler compiler(const std::string& cache = "") const {
    return codegen::NativeCompiler::open(RANNC_TEST_CXX, cache).value();
  }

  runtime::Bundle bundle(const std::string& name, const PlanSpec& spec) const {
    codegen::write_bundle(build_plan(skip_and_tie(ir::DType::kF32), spec),
                          {.native = codegen::NativeForm{compiler(compiled_stages())}}, at(name))
        .value();
    return runtime::open_bundle(at(name)).value();
  }

  static Diagnostic failure(const runtime::Bundle& bundle) {
    const auto loaded = runtime::engine_for(bundle, runtime::cpu())
                            .value()
                            ->load(bundle, StageId(0), runtime::Origins::kForgotten, runtime::cpu());
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? error("it loads") : loaded.diagnostic();
  }

  fs::path folder_;
};

TEST_F(NativeBundles, B11AStageOfAnotherPlanIsStale) {
  const runtime::Bundle whole = bundle("whole.rannc", {});
  const runtime::Bundle cut = bundle("cut.rannc", {.cuts = {3}});
  fs::copy_file(whole.compiled_path(StageId(0)), cut.compiled_path(StageId(0)), fs::copy_options::overwrite_existing);
  const Diagnostic found = failure(cut);
  EXPECT_EQ(found.rule, "B10");
  EXPECT_NE(found.message.find("has another function F_evaluate than the plan: fingerprint "), std::string::npos)
      << found.str();
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_EQ(found.notes[0].message, "`rannc-compile --rebuild " + cut.path +
                                        "` compiles the stages again; --engine explicit runs without them");

  // A plan with the same cut that recomputes other values.
  const auto program = runtime::engine_for(whole, runtime::cpu())
                           .value()
                           ->load(whole, StageId(0), runtime::Origins::kForgotten, runtime::cpu())
                           .value();
  const ir::StageFunctions& compiled = *whole.plan.functions[0];
  const auto refused = program->use_functions(*ir::with_kept(compiled, ir::kept_by_whole_recompute(compiled.joint)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.diagnostic().message,
            "the new plan recomputes other values than the compiled stages: write a bundle of it, or open this one "
            "with engine explicit");
  EXPECT_TRUE(program->use_functions(compiled).ok()) << "nothing has changed";
}

TEST_F(NativeBundles, B11AStageOfAnotherInterfaceIsStale) {
  runtime::Bundle made = bundle("other.rannc", {});
  std::ofstream(at("other.cc")) << "#include \"runtime/native/stage.h\"\n"
                                   "const rannc::native::Stage kStage = {999, \"\", \"\", false, \"\", 0, nullptr};\n"
                                   "extern \"C\" __attribute__((visibility(\"default\"))) const void* rannc_stage() "
                                   "{ return &kStage; }\n";
  ASSERT_TRUE(compiler().compile(at("other.cc"), made.compiled_path(StageId(0))).ok());
  EXPECT_EQ(failure(made).rule, "B10");
  EXPECT_NE(failure(made).message.find("was compiled for version 999 of the interface of stages"), std::string::npos);
  fs::remove(made.compiled_path(StageId(0)));
  std::ofstream(made.compiled_path(StageId(0))) << "no library";
  EXPECT_EQ(failure(made).rule, "B10");
}

TEST_F(NativeBundles, TheFormIsPartOfTheManifest) {
  const runtime::Bundle made = bundle("made.rannc", {});
  EXPECT_EQ(made.form, runtime::BundleForm::kNative);
  for (const char* name : {"stage0.cc", "stage0.so"}) EXPECT_TRUE(fs::exists(made.path + "/" + name)) << name;
  std::ofstream(made.path + "/stage0.so", std::ios::app) << "more";
  EXPECT_EQ(runtime::open_bundle(made.path).diagnostic().rule, "B3");
}

TEST_F(NativeBundles, ACompiledStageComesFromTheCache) {
  std::ofstream(at("source.cc")) << "#include \"runtime/native/stage.h\"\nint one() { return 1; }\n";
  ASSERT_TRUE(compiler(at("cache")).compile(at("source.cc"), at("first.so")).ok());
  ASSERT_EQ(std::distance(fs::directory_iterator(at("cache")), fs::directory_iterator()), 1);
  std::ofstream(fs::directory_iterator(at("cache"))->path(), std::ios::trunc) << "kept";
  ASSERT_TRUE(compiler(at("cache")).compile(at("source.cc"), at("second.so")).ok());
  EXPECT_EQ(fs::file_size(at("second.so")), 4U);
  std::ofstream(at("source.cc"), std::ios::app) << "int two() { return 2; }\n";
  ASSERT_TRUE(compiler(at("cache")).compile(at("source.cc"), at("third.so")).ok());
  EXPECT_GT(fs::file_size(at("third.so")), 1000U);
}

TEST_F(NativeBundles, ACompilersMessageIsReported) {
  std::ofstream(at("wrong.cc")) << "int one() { return two; }\n";
  const auto failed = compiler(at("cache")).compile(at("wrong.cc"), at("wrong.so"));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.diagnostic().message.find("two"), std::string::npos) << failed.diagnostic().str();
  EXPECT_TRUE(fs::is_empty(at("cache")));
  EXPECT_EQ(codegen::NativeCompiler::open("/bin/false", "").diagnostic().message,
            "does not report its version: it is no C++ compiler");
  EXPECT_FALSE(codegen::NativeCompiler::open(at("absent"), "").ok());
}

}  // namespace
}  // namespace rannc::testing
