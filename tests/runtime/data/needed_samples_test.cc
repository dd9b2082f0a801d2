// Processes that read only what they compute train the same model.
#include "runtime/data/needed_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <thread>

#include "codegen/bundle_writer.h"
#include "runtime/data/samples.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transport_local.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges pairs(const std::vector<ir::SampleRange>& ranges) {
  Ranges found;
  for (const ir::SampleRange& range : ranges) found.emplace_back(range.first, range.last);
  return found;
}

TEST(NeededSamples, AReplicaNeedsItsShareOfEveryMicroBatch) {
  ir::PipelineShape shape = ir::chain_shape(2, 3);
  shape.micro_batches = {5, 4, 4};
  shape.stages[1].devices = {DeviceId(1), DeviceId(2)};
  EXPECT_EQ(pairs(replica_ranges(shape, StageId(0), 0)), (Ranges{{0, 13}})) << "one replica computes all samples";
  EXPECT_EQ(pairs(replica_ranges(shape, StageId(1), 0)), (Ranges{{0, 2}, {5, 7}, {9, 11}}));
  EXPECT_EQ(pairs(replica_ranges(shape, StageId(1), 1)), (Ranges{{2, 5}, {7, 9}, {11, 13}}));
}

TEST(NeededSamples, PlacesAreThoseAmongTheNeeded) {
  const NeededSamples needed{.inputs = {"x"}, .ranges = merged({{9, 11}, {0, 2}, {5, 7}, {6, 8}, {3, 3}})};
  EXPECT_EQ(pairs(needed.ranges), (Ranges{{0, 2}, {5, 8}, {9, 11}}));
  EXPECT_EQ(needed.samples(), 7U);
  EXPECT_THAT(needed.numbers(), ElementsAre(0, 1, 5, 6, 7, 9, 10));
  EXPECT_EQ(needed.place_of({6, 8}).first, 3);
  EXPECT_EQ(needed.place_of({9, 10}).first, 5);
}

/// Samples in memory that count how many of them are read.
class RecordedSamples final : public Samples {
 public:
  explicit RecordedSamples(Batch all) : all_(std::move(all)) {}
  uint64_t samples() const override { return static_cast<uint64_t>(to_tensor(all_.begin()->second).size(0)); }
  Result<Batch> read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const override {
    const std::vector<int64_t> rows(numbers.begin(), numbers.end());
    Batch batch;
    for (const auto& [name, value] : all_) {
      if (!inputs.empty() && !inputs.contains(name)) continue;
      batch.emplace(name, to_value(to_tensor(value).index_select(0, at::tensor(rows))));
      read_[name] += numbers.size();
    }
    return batch;
  }
  std::string describe() const override { return "samples"; }
  const std::map<std::string, size_t>& read_samples() const { return read_; }

 private:
  Batch all_;
  mutable std::map<std::string, size_t> read_;
};

class Parts : public ::testing::Test {
 protected:
  static constexpr int kSteps = 3;

  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-parts-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static TrainerOptions options() {
    TrainerOptions options;
    options.optimizer.learning_rate = 0.1;
    return options;
  }
  std::string bundle(ir::Graph (*graph)(ir::DType), const rannc::testing::PlanSpec& spec) {
    const std::string path = (folder_ / std::to_string(bundles_++)).string();
    codegen::write_bundle(rannc::testing::build_plan(graph(ir::DType::kF64), spec), {}, path).value();
    return path;
  }
  /// Losses of a run in one process, which reads whole mini-batches.
  static std::vector<double> whole(const std::string& bundle, const Batch& all) {
    const auto trainer = Trainer::open(bundle, options()).value();
    const auto data = mini_batches(std::make_unique<RecordedSamples>(all), trainer->plan().mini_batch, 7);
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step)
      losses.push_back(trainer->step(data->batch(static_cast<uint64_t>(step)).value()).value().loss);
    return losses;
  }
  /// Losses of each worker of a run. `read`: by worker and input, the number of samples that it read.
  static std::vector<std::vector<double>> parts(const std::string& bundle, const Batch& all,
                                                std::vector<std::map<std::string, size_t>>& read) {
    const size_t devices = open_bundle(bundle).value().plan.devices.size();
    auto ends = make_local_transports(devices, std::chrono::seconds(20));
    std::vector<std::vector<double>> losses(devices);
    read.resize(devices);
    std::vector<std::thread> workers;
    for (size_t device = 0; device < devices; ++device) {
      workers.emplace_back([&, device] {
        const auto trainer = Trainer::open_worker(bundle, options(), std::move(ends[device])).value();
        auto samples = std::make_unique<RecordedSamples>(all);
        const RecordedSamples* recorded = samples.get();
        const auto data =
            part_of(mini_batches(std::move(samples), trainer->plan().mini_batch, 7), trainer->needed_samples());
        for (int step = 0; step < kSteps; ++step)
          losses[device].push_back(trainer->step_part(data->batch(static_cast<uint64_t>(step)).value()).value().loss);
        read[device] = recorded->read_samples();
      });
    }
    for (std::thread& worker : workers) worker.join();
    return losses;
  }
  static Batch tokens(int64_t samples) {
    at::manual_seed(3);
    at::Tensor labels = at::randint(0, 11, {samples, 5}, at::kLong);
    labels.slice(0, 0, 4).slice(1, 0, 3).fill_(-100);  // replicas have different numbers of labels that count
    return {{"tokens", to_value(at::randint(0, 11, {samples, 5}, at::kLong))}, {"labels", to_value(labels)}};
  }

 private:
  fs::path folder_;
  int bundles_ = 0;
};

TEST_F(Parts, EveryWorkerHasTheLossesOfOneProcess) {
  const int64_t count = 13;
  for (const rannc::testing::PlanSpec& spec : std::vector<rannc::testing::PlanSpec>{
           {.cuts = {5}, .micro_batches = {5, 4, 4}},
           {.cuts = {5}, .replicas = {1, 2}, .micro_batches = {5, 4, 4}},
           {.cuts = {5}, .replicas = {2, 1}, .micro_batches = {5, 4, 4}},
           {.replicas = {3}, .micro_batches = {7, 6}},
           {.cuts = {5}, .replicas = {1, 3}, .micro_batches = {2, 2, 1}},
           {.cuts = {5}, .replicas = {3, 1}, .micro_batches = {1, 1}}}) {  // replicas that compute nothing
    const std::string path = bundle(rannc::testing::token_model, spec);
    const std::vector<double> expected = whole(path, tokens(count));
    std::vector<std::map<std::string, size_t>> read;
    for (const std::vector<double>& losses : parts(path, tokens(count), read)) EXPECT_EQ(losses, expected);
    EXPECT_NE(expected[0], expected[2]);
  }
}

TEST_F(Parts, AWorkerReadsNothingElse) {
  std::vector<std::map<std::string, size_t>> read;
  const rannc::testing::PlanSpec spec{.cuts = {3}, .replicas = {2, 1}, .micro_batches = {4, 4}};
  parts(bundle(rannc::testing::dropout_model, spec),
        {{"x", to_value(at::ones({8, 6}, at::kDouble))}, {"target", to_value(at::ones({8, 6}, at::kDouble))}}, read);
  using Read = std::map<std::string, size_t>;
  EXPECT_EQ(read, (std::vector<Read>{{{"x", 4 * kSteps}}, {{"x", 4 * kSteps}}, {{"target", 8 * kSteps}}}));
}

TEST_F(Parts, LabelsOutOfRangeAreNamedByTheirPlaceInTheMiniBatch) {
  const std::string path = bundle(rannc::testing::token_model, {.replicas = {2}, .micro_batches = {4, 4}});
  Batch all = tokens(8);
  to_tensor(all.at("labels"))[7][2] = 11;  // of the second replica, which has samples 2, 3, 6 and 7
  auto ends = make_local_transports(2, std::chrono::seconds(20));
  std::vector<std::string> messages(2);
  std::vector<std::thread> workers;
  for (size_t device = 0; device < 2; ++device) {
    workers.emplace_back([&, device] {
      // The other device may end the run while this one still opens.
      const auto trainer = Trainer::open_worker(path, options(), std::move(ends[device]));
      if (!trainer.ok()) {
        messages[device] = trainer.diagnostic().str();
        return;
      }
      const auto data =
          part_of(mini_batches(std::make_unique<RecordedSamples>(all), 8, std::nullopt), (*trainer)->needed_samples());
      messages[device] = (*trainer)->step_part(data->batch(0).value()).diagnostic().str();
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_THAT(messages, ::testing::Each(HasSubstr("input 'labels' holds 11 in sample 7, but the classes are 0 to 10")));
}

TEST_F(Parts, APartOfAnotherSizeIsRefused) {
  const auto trainer =
      Trainer::open(bundle(rannc::testing::dropout_model, {.micro_batches = {4, 4}}), options()).value();
  const Value x = to_value(at::ones({4, 6}, at::kDouble));
  EXPECT_THAT(trainer->step_part({{"x", x}, {"target", x}}).diagnostic().str(),
              HasSubstr("this process reads a part of the mini-batch, 8 samples"));
  EXPECT_THAT(trainer->step_part({{"x", x}}).diagnostic().str(), HasSubstr("'target' is missing"));
}

}  // namespace
}  // namespace rannc::runtime
