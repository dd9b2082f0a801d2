// Weights of trained bundles under the names of state_dict: written, and taken in.
#include "runtime/bundle/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "codegen/bundle_writer.h"
#include "ir/graph/constant.h"
#include "ir/state/state.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/export_weights.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlanSpec;
using Tensors = std::map<std::string, at::Tensor>;

class StateDicts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-state-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string bundle(ir::Graph graph, const PlanSpec& spec) {
    const std::string to = path(std::to_string(bundles_++) + ".rannc");
    codegen::write_bundle(testing::build_plan(std::move(graph), spec), {}, to).value();
    return to;
  }
  StateWritten written(const std::string& bundle, const std::string& checkpoint, const std::string& name) const {
    return export_weights(open_bundle(bundle).value(), checkpoint, path(name)).value();
  }
  Tensors tensors(const std::string& name) const {
    const SafetensorsFile file = SafetensorsFile::open(path(name)).value();
    Tensors found;
    for (const auto& entry : file.entries()) {
      at::Tensor tensor = at::empty(entry.spec.shape, scalar_type(entry.spec.dtype));
      const auto bytes = file.data(entry).read().value();
      std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
      found.emplace(entry.name, tensor);
    }
    return found;
  }
  std::string put(const std::string& name, const Tensors& tensors) const {
    std::vector<SafetensorsTensor> list;
    for (const auto& [key, tensor] : tensors) {
      list.push_back({key, to_value(tensor)->spec(), [&tensor]() -> Result<std::span<const std::byte>> {
                        return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
                      }});
    }
    write_safetensors(path(name), std::move(list)).value();
    return path(name);
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

/// The toy model under names of its own: a transposed layer, one whose rows are two stored values, a tied one.
ir::Graph named() {
  ir::Graph graph = testing::skip_and_tie(ir::DType::kF64);
  graph.add_state(ir::state_of(graph, "in.weight", graph.find("w0"), {1, 0}));
  graph.add_state(ir::state_of(graph, "embed.weight", graph.find("w1"), {0, 1}));
  graph.add_state(ir::state_of(graph, "head.weight", graph.find("w1"), {1, 0}));
  graph.add_state({"biases", {2, 6}, {ir::whole(graph, graph.find("b2")), ir::whole(graph, graph.find("b1"))}});
  return graph;
}

at::Tensor stored(const ir::Graph& graph, const char* name, std::vector<int64_t> sizes) {
  const auto bytes = graph.value(graph.find(name)).data.read().value();
  at::Tensor tensor = at::empty(sizes, at::kDouble);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Batch batch_of(int64_t samples) {
  at::manual_seed(5);
  return {{"x", to_value(at::randn({samples, 6}, at::kDouble))},
          {"target", to_value(at::randn({samples, 6}, at::kDouble))}};
}

at::Tensor output(Trainer& trainer, const Batch& batch) {
  return to_tensor(trainer.evaluate(batch).value().outputs.begin()->second);
}

TEST_F(StateDicts, OfAFreshBundleAreWhatTheModelHas) {
  const ir::Graph graph = named();
  const StateWritten report = written(bundle(named(), {.cuts = {3}}), "", "w");
  Tensors found = tensors("w");
  EXPECT_EQ(report.tensors, 7U);
  EXPECT_EQ(found.size(), 7U);
  EXPECT_TRUE(found.at("in.weight").equal(stored(graph, "w0", {6, 6}).t()));
  EXPECT_TRUE(found.at("head.weight").equal(found.at("embed.weight").t()));
  EXPECT_TRUE(found.at("biases")[0].equal(stored(graph, "b2", {6})));
  EXPECT_TRUE(found.at("biases")[1].equal(stored(graph, "b1", {6})));
  EXPECT_TRUE(found.at("w2").equal(stored(graph, "w2", {6, 6})));
  EXPECT_THAT(report.warnings, ElementsAre());
  EXPECT_EQ(SafetensorsFile::open(path("w")).value().metadata().at("format"), "pt");
}

TEST_F(StateDicts, SayWhatTheyLack) {
  ir::Graph graph = named();
  const ir::ValueType type = {.dtype = ir::DType::kF64, .shape = ir::Shape{2}};
  const ir::TensorData data = ir::encode_numbers(ir::DType::kF64, std::vector<double>{1, 2});
  for (const char* name : {"onnx::MatMul_7", "val_12", "slice_1", "half", "val_x", "block_1"})
    graph.add_value(ir::ValueKind::kBuffer, name, type, data);
  graph.add_value(ir::ValueKind::kBuffer, "numberless", type);
  graph.add_state({"first", {1}, {{graph.find("half"), {0}, {1}, {0}}}});
  const StateWritten report = written(bundle(std::move(graph), {}), "", "w");
  ASSERT_EQ(report.warnings.size(), 3U);
  EXPECT_THAT(report.warnings[0], HasSubstr("1 tensors have no stored data and are skipped: numberless"));
  EXPECT_THAT(report.warnings[1], HasSubstr("3 tensors have exporter-made names"));
  EXPECT_THAT(report.warnings[1], HasSubstr("onnx::MatMul_7, val_12, slice_1"));
  EXPECT_THAT(report.warnings[2], HasSubstr("only a part of half"));
  EXPECT_EQ(tensors("w").count("numberless"), 0U);
}

TEST_F(StateDicts, GoFromOneCutToAnother) {
  const std::string from = bundle(named(), {.cuts = {3}, .replicas = {2, 1}, .micro_batches = {4}});
  const auto trainer = Trainer::open(from, {}).value();
  for (int step = 0; step < 3; ++step) trainer->step(batch_of(4)).value();
  trainer->save(path("checkpoint")).value();
  written(from, path("checkpoint"), "w");
  const at::Tensor expected = output(*trainer, batch_of(4));
  std::vector<at::Tensor> outputs;  // of other cuts: the same bits, as all run two samples at a time
  for (const std::vector<uint32_t>& cuts : std::vector<std::vector<uint32_t>>{{}, {3}, {2, 5}}) {
    const std::string to = bundle(named(), {.cuts = cuts, .micro_batches = {2, 2}});
    const auto other = Trainer::open(to, {}).value();
    EXPECT_GT((output(*other, batch_of(4)) - expected).abs().max().item<double>(), 1e-3);
    const WeightsLoaded loaded = other->load_weights(path("w")).value();
    EXPECT_TRUE(loaded.missing.empty() && loaded.unexpected.empty());
    EXPECT_EQ(other->steps_done(), 0U);
    outputs.push_back(output(*other, batch_of(4)));
    EXPECT_TRUE(outputs.back().equal(outputs.front()));
    EXPECT_LT((outputs.back() - expected).abs().max().item<double>(), 1e-12) << "four samples at a time";
    other->save(path("other")).value();
    written(to, path("other"), "again");
    const Tensors weights = tensors("w"), again = tensors("again");
    EXPECT_EQ(again.size(), weights.size());
    for (const auto& [name, tensor] : weights) EXPECT_TRUE(again.at(name).equal(tensor)) << name;
    fs::remove_all(path("other"));
  }
}

TEST_F(StateDicts, TakeBuffersToo) {
  const auto trainer = Trainer::open(bundle(testing::norm_model(ir::DType::kF64), {.cuts = {2}}), {}).value();
  at::manual_seed(3);
  const Batch batch = {{"x", to_value(at::randn({1, 3, 4}, at::kDouble))},
                       {"target", to_value(at::zeros({1, 3, 4}, at::kDouble))}};
  const at::Tensor before = output(*trainer, batch);
  written(bundle(testing::norm_model(ir::DType::kF64), {}), "", "w");
  Tensors changed = tensors("w");
  changed.at("variance1").mul_(4);
  changed["bn.num_batches_tracked"] = at::zeros({}, at::kLong);
  trainer->load_weights(put("changed", changed)).value();
  EXPECT_FALSE(output(*trainer, batch).equal(before));
  trainer->load_weights(path("w")).value();
  EXPECT_TRUE(output(*trainer, batch).equal(before));
}

TEST_F(StateDicts, ThatDoNotFitChangeNothing) {
  const std::string of = bundle(named(), {.cuts = {3}});
  const auto trainer = Trainer::open(of, {}).value();
  const at::Tensor before = output(*trainer, batch_of(1));
  written(of, "", "w");
  const Tensors good = tensors("w");
  const auto refused = [&](const Tensors& tensors, const std::string& message) {
    const auto loaded = trainer->load_weights(put("bad", tensors));
    ASSERT_FALSE(loaded.ok()) << message;
    EXPECT_THAT(loaded.diagnostic().str(), HasSubstr(message));
    EXPECT_THAT(loaded.diagnostic().str(), HasSubstr(path("bad")));
    EXPECT_TRUE(output(*trainer, batch_of(1)).equal(before));
  };
  Tensors bad = good;
  bad.erase("in.weight");
  bad.at("w2").zero_();
  refused(bad, "missing: in.weight");
  bad = good;
  bad.at("w2") = at::ones({6, 6}, at::kDouble);
  bad.at("head.weight") = at::ones({6, 6}, at::kDouble);
  refused(bad, "\"embed.weight\" and \"head.weight\" are one in this model");
  bad = good;
  bad.at("biases") = at::ones({12}, at::kDouble);
  refused(bad, "biases is f64[12], expected f64[2,6]");
  bad.at("biases") = at::ones({2, 6}, at::kFloat);
  refused(bad, "biases is f32[2,6], expected f64[2,6]");
  EXPECT_FALSE(trainer->load_weights(path("absent")).ok());
}

TEST_F(StateDicts, MayLackNamesOnDemand) {
  const std::string of = bundle(named(), {.cuts = {3}});
  const auto trainer = Trainer::open(of, {}).value();
  const at::Tensor before = output(*trainer, batch_of(1));
  const at::Tensor bias = at::full({6}, 7, at::kDouble);
  const auto loaded =
      trainer->load_weights(put("w", {{"b3", bias}, {"other", bias}}), WeightNames::kThoseGiven).value();
  EXPECT_THAT(loaded.unexpected, ElementsAre("other"));
  EXPECT_EQ(loaded.missing.size(), 6U);
  const at::Tensor added = output(*trainer, batch_of(1)) - before;
  const at::Tensor expected = bias - stored(named(), "b3", {6});
  EXPECT_LT((added - expected).abs().max().item<double>(), 1e-12);
}

/// A constant that only the state names beside one that the loss's graph reads.
ir::Graph with_constants() {
  ir::Graph graph = named();
  const ir::ValueType type = {.dtype = ir::DType::kF64, .shape = ir::Shape{2}};
  graph.add_value(ir::ValueKind::kConstant, "mask", type,
                  ir::encode_numbers(ir::DType::kF64, std::vector<double>{1, 2}));
  graph.add_state(ir::state_of(graph, "attn.mask", graph.find("mask"), {0}));
  return graph;
}

TEST_F(StateDicts, HaveConstantsThatNoStageReads) {
  const std::string of = bundle(with_constants(), {.cuts = {3}});
  EXPECT_TRUE(fs::exists(of + "/state.safetensors"));
  written(of, "", "w");
  Tensors state = tensors("w");
  EXPECT_TRUE(state.at("attn.mask").equal(at::tensor({1.0, 2.0}, at::kDouble)));
  const auto trainer = Trainer::open(of, {}).value();
  EXPECT_TRUE(trainer->load_weights(path("w")).ok());
  state.at("attn.mask")[1] = 3;
  const auto refused = trainer->load_weights(put("other", state));
  ASSERT_FALSE(refused.ok()) << "what was computed from it is in the programs";
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("constants of the compiled programs"));
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("attn.mask"));
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("rannc-compile --weights"));
}

// Device i runs stage i. Each worker has a folder with the files that it needs.
TEST_F(StateDicts, ConstantsAreComparedByTheProcessThatHasThem) {
  const std::string of = bundle(with_constants(), {.cuts = {3}});
  written(of, "", "w");
  Tensors state = tensors("w");
  state.at("attn.mask")[1] = 3;
  const std::string changed = put("changed", state);
  auto ends = make_local_transports(2, std::chrono::seconds(20));
  const auto worker_without = [&](size_t device, const std::vector<std::string>& files) {
    const std::string host = path("host" + std::to_string(device));
    fs::copy(of, host);
    for (const std::string& file : files) fs::remove(host + "/" + file);
    return Trainer::open_worker(host, {}, std::move(ends[device])).value();
  };
  auto opened = std::async(std::launch::async, worker_without, 0, std::vector<std::string>{"stage1.safetensors"});
  const auto second = worker_without(1, {"stage0.safetensors", "state.safetensors"});
  const auto first = opened.get();
  const auto refused = first->load_weights(changed);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("attn.mask"));
  const auto loaded = second->load_weights(changed);
  EXPECT_TRUE(loaded.ok()) << loaded.diagnostic().str();
}

// Averages that are exported, and loaded into another trainer, are those with which an evaluation computes:
// once-per-step tasks, tied tensors and shares that other replicas hold included.
TEST_F(StateDicts, OfAveragesAreThoseOfEvaluations) {
  const Batch batch = batch_of(7);
  TrainerOptions options;
  options.optimizer.kind = OptimizerKind::kAdam;
  options.optimizer.grouping.average = 0.5;
  const std::pair<std::string, PlanSpec> plans[] = {
      {"whole", {.cuts = {3}, .micro_batches = {4, 3}}},
      {"shared", {.cuts = {3}, .replicas = {2, 2}, .micro_batches = {4, 3}, .sharded = true}}};
  for (const auto& [name, spec] : plans) {
    const std::string of = bundle(named(), spec);
    const auto trainer = Trainer::open(of, options).value();
    for (int step = 0; step < 3; ++step) trainer->step(batch).value();
    trainer->save(path(name + "-checkpoint")).value();
    const Bundle opened = open_bundle(of).value();
    export_weights(opened, path(name + "-checkpoint"), path(name), ExportedWeights::kAverages).value();
    const at::Tensor own = output(*trainer, batch);
    trainer->swap_averages().value();
    const at::Tensor averaged = output(*trainer, batch);
    EXPECT_FALSE(at::equal(own, averaged));
    const auto other = Trainer::open(of, {}).value();
    other->load_weights(path(name)).value();
    EXPECT_TRUE(at::equal(output(*other, batch), averaged)) << name;
    EXPECT_FALSE(export_weights(opened, "", path("none"), ExportedWeights::kAverages).ok()) << "there are none yet";
  }
}

TEST_F(StateDicts, OfOtherCheckpointsAreRefused) {
  const std::string of = bundle(named(), {.cuts = {3}});
  const auto trainer = Trainer::open(of, {}).value();
  trainer->save(path("checkpoint")).value();
  const Bundle opened = open_bundle(of).value();
  const size_t before = entries();
  Bundle other = open_bundle(of).value();
  other.plan.model_digest = "another";
  const auto refused = [&](const Bundle& bundle, const std::string& checkpoint, const std::string& message) {
    const auto found = export_weights(bundle, checkpoint, path("w"));
    ASSERT_FALSE(found.ok()) << message;
    EXPECT_THAT(found.diagnostic().str(), HasSubstr(message));
    EXPECT_EQ(entries(), before) << "nothing is left";
  };
  refused(other, path("checkpoint"), "checkpoint belongs to another model");
  refused(opened, path("no such"), "the checkpoint does not exist or is incomplete");
  // One whose parts lack a stage.
  std::ifstream in(path("checkpoint/manifest.json"));
  auto manifest = nlohmann::json::parse(in);
  manifest["files"][1] = manifest["files"][0];
  manifest["version"] = 2;  // without digests
  std::ofstream(path("checkpoint/manifest.json")) << manifest;
  refused(opened, path("checkpoint"), "checkpoint has no tensor 'parameter/");
  EXPECT_FALSE(export_weights(opened, "", path("no/such/folder/w")).ok());
  EXPECT_EQ(entries(), before);
}

}  // namespace
}  // namespace rannc::runtime
