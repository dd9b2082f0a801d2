// D3: data-parallel, straight and hybrid plans compete, with gradient sums beside the backward pass and after it.
#include <gtest/gtest.h>

#include <string>

#include "partition/stages/registry.h"

namespace rannc::partition {
namespace {

/// A layer of a published network: multiplications, parameters and outputs of one image, in millions.
struct Layer {
  double products, parameters, outputs;
};

/// ResNet-50 of 224 x 224 images by residual blocks: stem, 3 + 4 + 6 + 3 blocks, classifier.
std::vector<Layer> resnet_50() {
  std::vector<Layer> layers = {{118, 0.01, 0.2}};
  const auto add = [&](int count, const Layer& layer) { layers.insert(layers.end(), count, layer); };
  add(3, {230, 0.07, 0.8});
  add(4, {260, 0.3, 0.4});
  add(6, {240, 1.18, 0.2});
  add(3, {270, 5, 0.1});
  add(1, {2, 2.05, 0.001});
  return layers;
}

/// VGG-19: sixteen convolutions and three dense layers, which hold most parameters.
std::vector<Layer> vgg_19() {
  return {{87, 0.002, 3.2},   {1850, 0.037, 0.8},  {925, 0.074, 1.6}, {1850, 0.148, 0.4}, {925, 0.295, 0.8},
          {1850, 0.59, 0.8},  {1850, 0.59, 0.8},   {1850, 0.59, 0.2}, {925, 1.18, 0.4},   {1850, 2.36, 0.4},
          {1850, 2.36, 0.4},  {1850, 2.36, 0.1},   {462, 2.36, 0.1},  {462, 2.36, 0.1},   {462, 2.36, 0.1},
          {462, 2.36, 0.025}, {103, 102.8, 0.004}, {17, 16.8, 0.004}, {4, 4.1, 0.001}};
}

/// Training in 32 bits on sixteen devices that multiply 13e12 times a second.
StageProblem problem_of(const std::vector<Layer>& layers, const char* cluster, bool overlap) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(layers.size());
  TimeTable& times = problem.times.emplace_back();
  times.sizes = {1};
  times.forward.emplace_back();
  times.backward.emplace_back();
  for (uint32_t b = 0; b < layers.size(); ++b) {
    times.forward[0].push_back(layers[b].products * 1e6 / 13e3);
    times.backward[0].push_back(2 * layers[b].products * 1e6 / 13e3);
    problem.parameter_bytes.push_back(4e6 * layers[b].parameters);
    problem.stashed_bytes_per_sample.push_back(4e6 * layers[b].outputs);
    if (b + 1 < layers.size()) problem.values.push_back({b, {b + 1}, 4e6 * layers[b].outputs, 0, true});
  }
  problem.cluster = preset_cluster(cluster).value();
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = 1ull << 45;
  problem.mini_batch = 2048;
  problem.overlap_sums = overlap;
  return problem;
}

StagePlan chosen(const StageProblem& problem) { return std::get<StagePlan>(*make_planner("auto")->plan(problem)); }

/// The best data-parallel plan, simulated like any other.
StagePlan data_parallel(const StageProblem& problem) {
  StageProblem one = problem;
  one.constraints.stages = 1;
  return chosen(one);
}

// As in DAPPLE's Table 4. Priced after the backward pass, the sum would not be worth while where links inside a machine
// are fast: two halves on a machine each would win.
TEST(Decisions, ResNetIsDataParallel) {
  for (const char* cluster : {"dapple-a", "dapple-b", "dapple-c"}) {
    const StagePlan early = chosen(problem_of(resnet_50(), cluster, true));
    const StagePlan late = chosen(problem_of(resnet_50(), cluster, false));
    EXPECT_EQ(brief(early), "16") << cluster;
    EXPECT_LT(early.stages[0].exposed_ns, 0.5 * early.stages[0].all_reduce_ns) << cluster;
    EXPECT_EQ(late.stages.size(), std::string(cluster) == "dapple-c" ? 1u : 2u) << brief(late);
    EXPECT_EQ(late.stages[0].exposed_ns, late.stages[0].all_reduce_ns) << cluster;
    EXPECT_LT(early.step_ns, late.step_ns) << cluster;
  }
}

TEST(Decisions, DenseLayersOfVggAreNotReplicatedOverASlowNetwork) {
  for (const bool overlap : {false, true}) {
    const StageProblem problem = problem_of(vgg_19(), "dapple-c", overlap);
    const StagePlan plan = chosen(problem), parallel = data_parallel(problem);
    ASSERT_GE(plan.stages.size(), 2u) << overlap;
    EXPECT_EQ(plan.stages.back().devices.size(), 1u) << overlap;
    EXPECT_LE(plan.stages.back().first, 16u) << overlap;
    EXPECT_LT(plan.step_ns, parallel.step_ns) << overlap;
  }
}

}  // namespace
}  // namespace rannc::partition
