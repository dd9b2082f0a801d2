// Training with sharded optimizer state: the numbers of whole state, divided memory, checkpoints under any sharding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "codegen/bundle_writer.h"
#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/transport/joined_ends.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::PlanSpec;

constexpr uint64_t kSteps = 3;
constexpr int64_t kWidth = 96;

/// Weights of more than two shares' cuts and biases of less than one. Both stages of the cut at task 2 read %w.
ir::Graph layers(ir::DType dtype) {
  std::string text = R"(rannc.graph 1
batch batch
input %x: T[batch,96] samples 0
input %target: T[batch,96] samples 0
parameter %w: T[96,96]
parameter %b: T[96]
parameter %v: T[96,96]
parameter %c: T[96]
parameter %u: T[96,96]
#0 %h: T[batch,96] samples 0 = core.linear(%x, %w, %b)
#1 %a: T[batch,96] samples 0 = core.tanh(%h)
#2 %g: T[batch,96] samples 0 = core.linear(%a, %w, %c)
#3 %d: T[batch,96] samples 0 = core.tanh(%g)
#4 %e: T[batch,96] samples 0 = core.linear(%d, %v)
#5 %y: T[batch,96] samples 0 = core.linear(%e, %u)
#6 %l: T[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)";
  const std::string name(ir::str(dtype));
  for (size_t at = text.find(": T["); at != std::string::npos; at = text.find(": T[")) text.replace(at + 2, 1, name);
  ir::Graph graph = ir::parse_graph(text, "layers.rir").value();
  uint64_t seed = 7;
  for (const char* parameter : {"w", "b", "v", "c", "u"}) {
    at::manual_seed(seed++);
    const bool bias = parameter[0] == 'b' || parameter[0] == 'c';
    const at::Tensor tensor =
        (at::randn(bias ? std::vector<int64_t>{kWidth} : std::vector<int64_t>{kWidth, kWidth}, at::kDouble) * 0.1)
            .to(scalar_type(dtype));
    const auto* const bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    graph.set_data(graph.find(parameter), ir::TensorData::in_memory({bytes, bytes + tensor.nbytes()}));
  }
  return graph;
}

Batch batch_of(int64_t samples, ir::DType dtype, uint64_t seed) {
  at::manual_seed(seed);
  const auto some = [&] { return to_value(at::randn({samples, kWidth}, at::kDouble).to(scalar_type(dtype))); };
  Batch batch{{"x", some()}};
  batch.emplace("target", some());
  return batch;
}

TrainerOptions options_of(OptimizerKind kind, double momentum = 0) {
  TrainerOptions options;
  options.optimizer = {{.kind = kind, .learning_rate = 0.01, .momentum = momentum, .weight_decay = 0.125}};
  return options;
}

PlanSpec sharded(PlanSpec spec) {
  spec.sharded = true;
  return spec;
}

/// One stage, two of unequal replicas whose micro-batches do not divide, three with a tied parameter.
std::vector<PlanSpec> specs() {
  return {{.replicas = {3}, .micro_batches = {4, 3}},
          {.cuts = {2}, .replicas = {2, 3}, .micro_batches = {4, 3}},
          {.cuts = {2, 4}, .replicas = {2, 3, 1}, .micro_batches = {5, 5, 4}}};
}

int64_t samples_of(const PlanSpec& spec) {
  int64_t samples = 0;
  for (const uint32_t each : spec.micro_batches) samples += each;
  return samples;
}

/// Elements [first, last) of a tensor.
struct Slice {
  int64_t first = 0, last = 0;
  std::vector<std::byte> bytes;
};

std::vector<std::byte> joined(std::vector<Slice> slices) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.first < b.first; });
  std::vector<std::byte> whole;
  int64_t done = 0;
  for (const auto& [first, last, bytes] : slices) {
    if (last <= done) continue;
    EXPECT_LE(first, done) << "slices leave nothing out";
    const int64_t size = static_cast<int64_t>(bytes.size()) / (last - first);
    whole.insert(whole.end(), bytes.begin() + (done - first) * size, bytes.end());
    done = last;
  }
  return whole;
}

/// The bytes of a checkpoint's tensors, assembled from slices `slice/<first>-<last>/<key>`.
std::map<std::string, std::vector<std::byte>> contents(const std::string& checkpoint) {
  std::map<std::string, std::vector<std::byte>> found;
  std::map<std::string, std::vector<Slice>> slices;
  for (const auto& [key, stored] : checkpoint_tensors(checkpoint).value()) {
    std::vector<std::byte> bytes = stored.read().value();
    if (!key.starts_with("slice/")) {
      found[key] = std::move(bytes);
      continue;
    }
    const size_t range = key.find('/') + 1, dash = key.find('-', range), name = key.find('/', range) + 1;
    slices[key.substr(name)].push_back({std::stoll(key.substr(range)), std::stoll(key.substr(dash + 1)), bytes});
  }
  for (auto& [key, parts] : slices) found.emplace(key, joined(std::move(parts)));
  return found;
}

class Sharding : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path memory = "/dev/shm";
    folder_ =
        (fs::exists(memory) ? memory : fs::temp_directory_path()) / ("rannc-sharding-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string bundle(const PlanSpec& spec, ir::DType dtype) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(testing::build_plan(layers(dtype), spec), {}, path).value();
    return path;
  }
  std::unique_ptr<Trainer> open(const PlanSpec& spec, const TrainerOptions& options,
                                ir::DType dtype = ir::DType::kF64) {
    return Trainer::open(bundle(spec, dtype), options).value();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  auto saved(Trainer& trainer) {
    const std::string checkpoint = path("saved" + std::to_string(saves_++));
    trainer.save(checkpoint).value();
    return contents(checkpoint);
  }

 private:
  fs::path folder_;
  int bundles_ = 0, saves_ = 0;
};

/// Trains both and expects equal losses, gradients, parameters and states.
void expect_equal_steps(Trainer& a, Trainer& b, int64_t samples, ir::DType dtype, uint64_t steps = kSteps) {
  for (uint64_t step = 0; step < steps; ++step) {
    const Batch batch = batch_of(samples, dtype, step);
    const StepResult found = a.step(batch).value(), expected = b.step(batch).value();
    EXPECT_EQ(found.loss, expected.loss) << "step " << step;
    EXPECT_EQ(found.skipped, expected.skipped) << "step " << step;
  }
  const auto found = a.gradients().value(), expected = b.gradients().value();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected)
    EXPECT_TRUE(at::equal(to_tensor(found.at(name)), to_tensor(gradient))) << name;
}

struct Rule {
  const char* name;
  OptimizerKind kind;
  double momentum;
  std::vector<const char*> groups = {};
  double average = 0;
};
class ShardedSteps : public Sharding, public ::testing::WithParamInterface<Rule> {};
INSTANTIATE_TEST_SUITE_P(
    Optimizers, ShardedSteps,
    ::testing::Values(Rule{"sgd", OptimizerKind::kSgd, 0}, Rule{"momentum", OptimizerKind::kSgd, 0.75},
                      Rule{"adam", OptimizerKind::kAdam, 0}, Rule{"adamw", OptimizerKind::kAdamW, 0},
                      Rule{"lion", OptimizerKind::kLion, 0}, Rule{"muon", OptimizerKind::kMuon, 0.75, {}, 0.5},
                      Rule{"adafactor", OptimizerKind::kAdafactor, 0},
                      Rule{"groups",
                           OptimizerKind::kAdam,
                           0,
                           {"w: optimizer=muon", "v: rate=0.1x, weight_decay=0", "b: optimizer=sgd, momentum=0.5",
                            "u: optimizer=adafactor"},
                           0.5}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(ShardedSteps, HaveTheBitsOfWholeState) {
  TrainerOptions options = options_of(GetParam().kind, GetParam().momentum);
  for (const char* group : GetParam().groups)
    options.optimizer.grouping.groups.push_back(ir::parse_group(group).value());
  options.optimizer.grouping.average = GetParam().average;
  for (const ir::DType dtype : {ir::DType::kF64, ir::DType::kF32}) {
    for (const PlanSpec& spec : specs()) {
      SCOPED_TRACE(::testing::Message() << ir::str(dtype) << ", " << spec.cuts.size() + 1 << " stages");
      const auto shares = open(sharded(spec), options, dtype), whole = open(spec, options, dtype);
      expect_equal_steps(*shares, *whole, samples_of(spec), dtype);
      EXPECT_EQ(saved(*shares), saved(*whole));
    }
  }
}

TEST_F(Sharding, NarrowParametersHaveTheBitsOfWholeState) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 3}, .micro_batches = {4, 3}};
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kMuon, OptimizerKind::kAdafactor}) {
    const auto shares = open(sharded(spec), options_of(kind), ir::DType::kBF16),
               whole = open(spec, options_of(kind), ir::DType::kBF16);
    expect_equal_steps(*shares, *whole, 7, ir::DType::kBF16);
    EXPECT_EQ(saved(*shares), saved(*whole));
  }
}

// An evaluation with averages sees those that other replicas hold, and leaves no trace.
TEST_F(Sharding, AveragesAreExchangedAndRestored) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 3}, .micro_batches = {4, 3}};
  TrainerOptions options = options_of(OptimizerKind::kMuon, 0.75);
  options.optimizer.grouping.average = 0.5;
  const Batch batch = batch_of(7, ir::DType::kF64, 9);
  std::vector<double> averaged;
  for (const bool shards : {false, true}) {
    const auto trainer = open(shards ? sharded(spec) : spec, options);
    EXPECT_EQ(trainer->swap_averages().ok(), true) << "before the first update they are the parameters";
    const double first = trainer->evaluate(batch).value().loss;
    trainer->swap_averages().value();
    EXPECT_EQ(trainer->evaluate(batch).value().loss, first);
    for (uint64_t step = 0; step < kSteps; ++step) trainer->step(batch_of(7, ir::DType::kF64, step)).value();
    const auto before = saved(*trainer);
    const double own = trainer->evaluate(batch).value().loss;
    trainer->swap_averages().value();
    averaged.push_back(trainer->evaluate(batch).value().loss);
    EXPECT_NE(averaged.back(), own);
    EXPECT_THAT(trainer->step(batch).diagnostic().message, HasSubstr("a step needs them back"));
    EXPECT_THAT(trainer->save(path("none")).diagnostic().message, HasSubstr("a checkpoint needs them back"));
    trainer->swap_averages().value();
    EXPECT_EQ(trainer->evaluate(batch).value().loss, own);
    EXPECT_EQ(saved(*trainer), before);
  }
  EXPECT_EQ(averaged[0], averaged[1]);
  const auto without = open(spec, options_of(OptimizerKind::kAdam));
  EXPECT_THAT(without->swap_averages().diagnostic().message, HasSubstr("keeps no averages"));
}

// A trainer that loads takes over the checkpoint's schedule and average, not its groups and rates alone.
TEST_F(Sharding, SettingsOfCheckpointsAreTakenOver) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 1}, .micro_batches = {4, 3}};
  TrainerOptions options = options_of(OptimizerKind::kAdam);
  options.optimizer.grouping.average = 0.5;
  options.optimizer.warmup_steps = 7;
  const auto before = open(spec, options);
  before->step(batch_of(7, ir::DType::kF64, 20)).value();
  before->save(path("warm")).value();
  options.optimizer.grouping.average = 0.75;
  options.optimizer.warmup_steps = 0;
  const auto after = open(spec, options);
  after->load(path("warm")).value();
  expect_equal_steps(*after, *before, 7, ir::DType::kF64);
  EXPECT_EQ(saved(*after), saved(*before));
}

// Rates change at any time, the state of a parameter only before the first update.
TEST_F(Sharding, GroupsAreReplacedBetweenSteps) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 1}, .micro_batches = {4, 3}};
  const auto groups = [](std::vector<const char*> texts) {
    std::vector<ir::ParameterGroup> parsed;
    for (const char* text : texts) parsed.push_back(ir::parse_group(text).value());
    return parsed;
  };
  TrainerOptions options = options_of(OptimizerKind::kAdam);
  const auto changed = open(sharded(spec), options);
  EXPECT_THAT(changed->set_groups(groups({"w: optimizer=muon", "?: rate=0.5x"})).diagnostic().message,
              HasSubstr("parameter 'w' is in two groups, 'w' and '?'"));
  changed->set_groups(groups({"w: optimizer=muon", "b: rate=0.5x"})).value();
  options.optimizer.grouping.groups = groups({"w: optimizer=muon", "b: rate=0.5x"});
  const auto fresh = open(sharded(spec), options);
  expect_equal_steps(*changed, *fresh, 7, ir::DType::kF64);
  EXPECT_EQ(saved(*changed), saved(*fresh));
  // Others, of the same optimizers.
  changed->set_groups(groups({"w: optimizer=muon, rate=0.25x", "c: rate=2x"})).value();
  const std::string checkpoint = path("between");
  fresh->save(checkpoint).value();
  options.optimizer.grouping.groups = groups({"w: optimizer=muon, rate=0.25x", "c: rate=2x"});
  const auto resumed = open(spec, options);
  resumed->load(checkpoint, Trainer::Settings::kOfOptions).value();
  expect_equal_steps(*changed, *resumed, 7, ir::DType::kF64);
  EXPECT_EQ(saved(*changed), saved(*resumed));
  EXPECT_THAT(changed->set_groups({}).diagnostic().message, HasSubstr("after the first update"));
}

/// Two weights of a million elements with the same gradient, which an engine may compute once.
ir::Graph twins() {
  ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,1024] samples 0
input %target: f32[batch,1024] samples 0
parameter %w: f32[1024,1024]
parameter %v: f32[1024,1024]
#0 %h: f32[batch,1024] samples 0 = core.linear(%x, %w)
#1 %k: f32[batch,1024] samples 0 = core.linear(%x, %v)
#2 %y: f32[batch,1024] samples 0 = core.add(%h, %k)
#3 %l: f32[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)",
                                    "twins.rir")
                        .value();
  for (const char* parameter : {"w", "v"})
    graph.set_data(graph.find(parameter), ir::TensorData::in_memory(std::vector<std::byte>(4 << 20)));
  return graph;
}

// Shares of three replicas take several rounds, in which sums replace terms.
TEST_F(Sharding, EqualGradientsAreSummedApart) {
  at::manual_seed(3);
  const auto some = [] { return to_value(at::randn({3, 1024})); };
  Batch batch{{"x", some()}};
  batch.emplace("target", some());
  std::map<std::string, Value> expected;
  for (const bool sharded : {false, true}) {
    const std::string folder = path(sharded ? "shares" : "whole");
    const PlanSpec spec{.replicas = {3}, .micro_batches = {3}, .sharded = sharded};
    codegen::write_bundle(testing::build_plan(twins(), spec), {}, folder).value();
    const auto trainer = Trainer::open(folder, options_of(OptimizerKind::kSgd)).value();
    trainer->step(batch).value();
    const auto found = trainer->gradients().value();
    if (expected.empty()) expected = found;
    for (const auto& [name, gradient] : expected)
      EXPECT_TRUE(at::equal(to_tensor(found.at(name)), to_tensor(gradient))) << name;
  }
}

/// The sums of a run, and where the last backward pass of each device ends.
class SumTimes final : public Observer {
 public:
  void finished(const ActionRecord& record) override {
    const std::lock_guard lock(mutex_);
    if (record.action.kind == ir::ActionKind::kReduceScatter) sums_.push_back(record);
    if (ir::adds_weight_gradient(record.action.kind)) last_[record.device] = record;
  }
  /// How many sums begin before the end of the last backward pass of their device, and after it.
  std::pair<size_t, size_t> early_and_late() const {
    std::pair<size_t, size_t> found;
    for (const ActionRecord& sum : sums_) ++(sum.start_ns <= last_.at(sum.device).end_ns ? found.first : found.second);
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<ActionRecord> sums_;
  std::map<DeviceId, ActionRecord> last_;
};

// Shares are cut within buckets, so that each bucket is summed once its gradients are final.
TEST_F(Sharding, SumsOfSharesBeginAtTheMarksOfTheirBuckets) {
  const PlanSpec spec{.replicas = {3}, .micro_batches = {4, 3}, .sharded = true, .bucket_bytes = 0};
  std::map<std::string, std::vector<std::byte>> expected;
  for (const bool overlaps : {true, false}) {
    SumTimes times;
    TrainerOptions options = options_of(OptimizerKind::kAdam);
    options.observer = &times;
    options.overlaps_sums = overlaps;
    const auto trainer = open(spec, options);
    trainer->step(batch_of(7, ir::DType::kF64, 0)).value();
    const size_t sums = 3 * 5;  // a bucket for each parameter
    EXPECT_EQ(times.early_and_late(), overlaps ? std::pair(sums, size_t{0}) : std::pair(size_t{0}, sums));
    const auto found = saved(*trainer);
    if (overlaps) expected = found;
    EXPECT_EQ(found, expected);
  }
}

TEST_F(Sharding, ClippedStepsAreThoseOfWholeState) {
  for (const PlanSpec& spec : specs()) {
    TrainerOptions options = options_of(OptimizerKind::kAdamW);
    options.clip_norm = 0.01;
    const auto shares = open(sharded(spec), options), whole = open(spec, options);
    for (uint64_t step = 0; step < kSteps; ++step) {
      const Batch batch = batch_of(samples_of(spec), ir::DType::kF64, step);
      const StepResult found = shares->step(batch).value(), expected = whole->step(batch).value();
      EXPECT_GT(expected.gradient_norm, options.clip_norm) << "a norm that is clipped";
      EXPECT_NEAR(found.gradient_norm / expected.gradient_norm, 1, 1e-12);
      EXPECT_NEAR(found.loss / expected.loss, 1, 1e-12);
    }
    shares->save(path("shares")).value();
    whole->save(path("whole")).value();
    const auto found = checkpoint_tensors(path("shares")).value(), expected = checkpoint_tensors(path("whole")).value();
    for (const auto& [key, stored] : expected) {
      if (!key.starts_with("parameter/")) continue;
      const auto numbers = [](const CheckpointEntry& tensor) {
        const std::vector<std::byte> bytes = tensor.read().value();
        const auto* const first = reinterpret_cast<const double*>(bytes.data());
        return at::tensor(std::vector<double>(first, first + bytes.size() / sizeof(double)), at::kDouble);
      };
      const at::Tensor wanted = numbers(stored);
      EXPECT_LT(((numbers(found.at(key)) - wanted).norm() / wanted.norm()).item<double>(), 1e-12) << key;
    }
  }
}

TEST_F(Sharding, AccumulatedMiniBatchesHaveTheBitsOfWholeState) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 3}, .micro_batches = {4, 3}};
  const TrainerOptions options = options_of(OptimizerKind::kAdam);
  const auto shares = open(sharded(spec), options), whole = open(spec, options);
  for (const uint64_t seed : {20, 21}) {
    const Batch batch = batch_of(7, ir::DType::kF64, seed);
    shares->accumulate(batch).value();
    whole->accumulate(batch).value();
  }
  expect_equal_steps(*shares, *whole, 7, ir::DType::kF64);
  EXPECT_EQ(saved(*shares), saved(*whole));
}

TEST_F(Sharding, NumbersAreEqualOverGloo) {
  const PlanSpec spec{.cuts = {2}, .replicas = {2, 1}, .micro_batches = {4, 3}};
  for (const double clip : {0.0, 0.01}) {
    TrainerOptions options = options_of(OptimizerKind::kAdam);
    options.clip_norm = clip;
    const std::string path = bundle(sharded(spec), ir::DType::kF32);
    const auto local = Trainer::open(path, options).value();
    std::vector<double> expected;
    for (uint64_t step = 0; step < kSteps; ++step)
      expected.push_back(local->step(batch_of(7, ir::DType::kF32, step)).value().loss);
    std::vector<Batch> batches;
    for (uint64_t step = 0; step < kSteps; ++step) batches.push_back(batch_of(7, ir::DType::kF32, step));
    testing::Ends ends = testing::gloo_ends(3);
    testing::on_each(3, [&](uint32_t rank) {
      const auto trainer = Trainer::open_worker(path, options, std::move(ends[rank])).value();
      std::vector<double> losses;
      for (uint64_t step = 0; step < kSteps; ++step) losses.push_back(trainer->step(batches[step]).value().loss);
      EXPECT_EQ(losses, expected) << rank;
      const auto gradients = trainer->gradients();
      EXPECT_EQ(gradients.ok(), rank == 2);
      if (!gradients.ok()) {
        EXPECT_THAT(gradients.diagnostic().message, HasSubstr("sharded over processes"));
      }
    });
  }
}

int version_of(const std::string& checkpoint) {
  std::ifstream file(checkpoint + "/manifest.json");
  return nlohmann::json::parse(file).at("version");
}

// Every sharding loads the checkpoint of every other one.
TEST_F(Sharding, CheckpointsLoadUnderAnyOtherSharding) {
  const TrainerOptions options = options_of(OptimizerKind::kAdam);
  std::vector<PlanSpec> all = {{.micro_batches = {4, 3}}, {.cuts = {2}, .micro_batches = {4, 3}}};
  for (const PlanSpec& spec : specs()) all.push_back(sharded(spec));
  all.push_back(sharded({.replicas = {2}, .micro_batches = {4, 3}}));
  for (size_t from = 0; from < all.size(); ++from) {
    const auto first = open(all[from], options);
    first->step(batch_of(samples_of(all[from]), ir::DType::kF64, 1)).value();
    const std::string checkpoint = path("from" + std::to_string(from));
    first->save(checkpoint).value();
    EXPECT_EQ(version_of(checkpoint), all[from].sharded ? 5 : 4);
    const auto expected = contents(checkpoint);
    for (size_t to = 0; to < all.size(); ++to) {
      SCOPED_TRACE(::testing::Message() << from << " to " << to);
      const auto second = open(all[to], options);
      second->load(checkpoint).value();
      EXPECT_EQ(saved(*second), expected);
      EXPECT_EQ(second->steps_done(), 1U);
    }
  }
}

TEST_F(Sharding, StepsChangeNothingInACheckpointThatIsBeingWritten) {
  const PlanSpec spec = sharded({.replicas = {2}, .micro_batches = {4}});
  for (const double clip : {0.0, 0.01}) {
    TrainerOptions options = options_of(OptimizerKind::kAdam);
    options.clip_norm = clip;
    const auto trainer = open(spec, options);
    const Batch batch = batch_of(4, ir::DType::kF64, 1);
    for (int round = 0; round < 3; ++round) {
      trainer->step(batch).value();
      trainer->save(path("waiting")).value();
      trainer->start_save(path("meanwhile")).value();
      trainer->step(batch).value();
      trainer->finish_save().value();
      EXPECT_EQ(contents(path("meanwhile")), contents(path("waiting"))) << round;
    }
  }
}

TEST_F(Sharding, ACheckpointThatLacksASliceIsNotLoaded) {
  const PlanSpec spec = sharded({.replicas = {2}, .micro_batches = {4}});
  const auto trainer = open(spec, options_of(OptimizerKind::kAdam));
  trainer->save(path("whole")).value();
  fs::remove(path("whole/device1.safetensors"));
  const auto other = open({.micro_batches = {4}}, options_of(OptimizerKind::kAdam));
  const auto loaded = other->load(path("whole"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.diagnostic().message, HasSubstr("device1.safetensors is not in this folder"));
  EXPECT_THAT(loaded.diagnostic().message, HasSubstr("optimizer/exp_avg/"));
}

TEST_F(Sharding, ReschedulingKeepsShares) {
  const PlanSpec spec{.replicas = {2}, .micro_batches = {4}};
  const auto trainer = open(sharded(spec), options_of(OptimizerKind::kAdam));
  EXPECT_TRUE(trainer->reschedule(trainer->plan().clone()).ok());
  const auto other = trainer->reschedule(testing::build_plan(layers(ir::DType::kF64), spec));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.diagnostic().message, HasSubstr("sharded stages"));
}

}  // namespace
}  // namespace rannc::runtime
