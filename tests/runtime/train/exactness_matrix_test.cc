// Training under every pair of schedule, stages, replicas, micro-batches, recompute, transport, type, loss, reading and
// time of the sums against one process.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "codegen/bundle_writer.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/loss_sums.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/support/exactness_case.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/support/tier.h"

namespace rannc::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSteps = 4;
constexpr size_t kSampled = 2000;  // in tier full

/// What a run computes.
struct Trained {
  std::map<std::string, at::Tensor> gradients;  ///< of the first step
  std::vector<double> losses;                   ///< by step, then those of validations, then their metrics
  std::string failure;
};

/// Differences from one process, relative to the largest element of a gradient, and to a loss.
struct Differences {
  double gradients = 0, losses = 0;
};

/// bfloat16 rounds to 2^-9. Without replicas, each gradient is a float32 sum of the same terms as in one process. A
/// replica rounds the sum over its own samples of a micro-batch, which one process rounds as a whole: the bound allows
/// for terms that cancel to a quarter. Updates round parameters, so that differences of later losses are those of
/// rounded values.
Differences allowed(const ExactnessCase& of) {
  if (of.dtype == ir::DType::kF64) return {1e-10, 1e-10};
  if (of.dtype == ir::DType::kF32) return {1e-5, 1e-5};
  const double rounded = std::ldexp(1, -7);
  return {of.replicas.size() == 1 && of.replicas[0] == 1 ? 1e-5 : rounded, rounded};
}

runtime::Batch batch_of(const ExactnessCase& of, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  int64_t samples = 0;
  for (const uint32_t size : of.micro_batches) samples += size;
  const at::ScalarType type = runtime::scalar_type(of.dtype);
  return {{"x", runtime::to_value(at::randn({samples, 6}, generator, at::kDouble).to(type))},
          {"target", runtime::to_value(at::randn({samples, 6}, generator, at::kDouble).to(type))}};
}

/// Momentum and clipping make each loss depend on all gradients of the steps before.
runtime::TrainerOptions options_of(const ExactnessCase& of) {
  runtime::TrainerOptions options;
  options.optimizer = {{.kind = runtime::OptimizerKind::kSgd, .learning_rate = 0.1, .momentum = 0.9}};
  options.clip_norm = 0.5;
  options.seed = 3;
  options.overlaps_sums = !of.late_sums;
  if (!runtime::find_transport(of.transport)->between_processes()) options.transport = of.transport;
  return options;
}

/// What a process needs of a mini-batch.
runtime::Batch part_of(const runtime::Batch& all, const runtime::NeededSamples& needed) {
  runtime::Batch part;
  for (const std::string& name : needed.inputs) {
    std::vector<at::Tensor> rows;
    for (const ir::SampleRange& range : needed.ranges) {
      rows.push_back(runtime::to_tensor(all.at(name)).narrow(0, range.first, range.last - range.first));
    }
    part.emplace(name, runtime::to_value(at::cat(rows)));
  }
  return part;
}

Trained train(runtime::Trainer& trainer, const ExactnessCase& of) {
  Trained trained;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step == 2) trained.losses.push_back(trainer.accumulate(batch_of(of, kSteps)).value().loss);
    const runtime::Batch batch = batch_of(of, step);
    const runtime::StepResult result =
        (of.reads_part ? trainer.step_part(part_of(batch, trainer.needed_samples())) : trainer.step(batch)).value();
    trained.losses.push_back(result.loss);
    if (step > 0) continue;
    for (const auto& [name, gradient] : trainer.gradients().value()) {
      trained.gradients[name] = runtime::to_tensor(gradient).clone();
    }
  }
  runtime::LossSums validation;
  for (const uint64_t seed : {kSteps + 1, kSteps + 2}) validation.add(trainer.evaluate(batch_of(of, seed)).value());
  trained.losses.push_back(validation.loss(trainer.plan().graph).value().value());
  const auto metrics = runtime::scalar_metrics(validation.metrics(trainer.plan().graph).value());
  EXPECT_EQ(metrics.size(), of.counts ? 1U : 0U);
  for (const auto& [name, number] : metrics) trained.losses.push_back(number);
  return trained;
}

/// What the workers of one run computed together.
Trained join(const std::vector<Trained>& workers) {
  Trained all = workers.front();
  for (const Trained& worker : workers) {
    if (all.failure.empty()) all.failure = worker.failure;
    EXPECT_EQ(worker.losses, all.losses);
    all.gradients.insert(worker.gradients.begin(), worker.gradients.end());
  }
  return all;
}

/// One thread per worker, each with a transport of its own.
Trained train_workers(const std::string& bundle, const ir::Plan& plan, const ExactnessCase& of) {
  runtime::Rendezvous common;
  common.workers = static_cast<uint32_t>(plan.devices.size());
  common.pairs = ir::message_pairs(plan);
  const auto connect = runtime::find_transport(of.transport)->join;
  auto joined = join_each(common, [&](const auto& where) { return connect(where, runtime::cpu()); });
  std::vector<Trained> workers(common.workers);
  on_each(common.workers, [&](uint32_t rank) {
    workers[rank].failure = joined.failures[rank];
    if (!workers[rank].failure.empty()) return;
    try {
      const auto trainer = runtime::Trainer::open_worker(bundle, options_of(of), std::move(joined.ends[rank])).value();
      workers[rank] = train(*trainer, of);
    } catch (const std::exception& failed) {
      workers[rank].failure = failed.what();
    }
  });
  return join(workers);
}

double difference(const at::Tensor& found, const at::Tensor& expected) {
  const double scale = std::max(expected.abs().max().item<double>(), 1e-30);
  return (found.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>() / scale;
}

/// The largest differences.
Differences differences(const Trained& found, const Trained& expected) {
  Differences largest;
  EXPECT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
    const double different = difference(found.gradients.at(name), gradient);
    EXPECT_TRUE(std::isfinite(different)) << name;
    largest.gradients = std::max(largest.gradients, different);
  }
  EXPECT_EQ(found.losses.size(), expected.losses.size());
  for (size_t step = 0; step < std::min(found.losses.size(), expected.losses.size()); ++step) {
    const double loss = expected.losses[step];
    EXPECT_TRUE(std::isfinite(found.losses[step])) << "step " << step;
    largest.losses = std::max(largest.losses, std::abs(found.losses[step] - loss) / std::abs(loss));
  }
  return largest;
}

void expect_same_bits(const Trained& found, const Trained& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(found.gradients.at(name).equal(gradient)) << "gradient of " << name;
  }
}

class ExactnessMatrix : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path memory = "/dev/shm";
    folder_ = (fs::exists(memory) ? memory : fs::temp_directory_path()) / fmt::format("rannc-matrix-{}", ::getpid());
    fs::create_directory(folder_);
    for (const Combination& values : all_combinations(exactness_sizes())) {
      if (!why_impossible(case_of(values))) possible_.push_back(values);
    }
  }
  void TearDown() override {
    fs::remove_all(folder_);
    for (const auto& [type, largest] : largest_) {
      fmt::print("{}: gradients differ by {:.1e}, losses by {:.1e}\n", type, largest.gradients, largest.losses);
    }
  }

  /// Trains the case, or returns what it gave before.
  const Trained& trained(const ExactnessCase& of) {
    const std::string key =
        fmt::format("{} {} {} {} {} {} {} {} {} {}", of.schedule, of.stages, ::testing::PrintToString(of.replicas),
                    ::testing::PrintToString(of.micro_batches), of.recompute ? static_cast<int>(*of.recompute) : -1,
                    of.transport, ir::str(of.dtype), of.counts, of.reads_part, of.late_sums);
    const auto [found, fresh] = trained_.try_emplace(key);
    if (!fresh) return found->second;
    try {
      found->second = train_plan(plan_of(of), of);
    } catch (const std::exception& failed) {
      found->second.failure = failed.what();
    }
    return found->second;
  }

  /// The numbers of one process within the rule, and the bits of the same schedule over `local` without recompute and
  /// overlap of sums.
  void check(const Combination& values) {
    SCOPED_TRACE(describe(values));
    const ExactnessCase of = case_of(values);
    const Trained& found = trained(of);
    ASSERT_EQ(found.failure, "");
    const Differences different = differences(found, trained(undivided(of)));
    EXPECT_LE(different.gradients, allowed(of).gradients);
    EXPECT_LE(different.losses, allowed(of).losses);
    Differences& largest = largest_[fmt::format("{}{}", ir::str(of.dtype), of.replicas[0] > 1 ? ", replicas" : "")];
    largest.gradients = std::max(largest.gradients, different.gradients);
    largest.losses = std::max(largest.losses, different.losses);
    ExactnessCase plain = of;
    plain.recompute.reset();
    plain.transport = "local";
    plain.reads_part = false;
    plain.late_sums = true;
    expect_same_bits(found, trained(plain));
  }

  const std::vector<uint32_t> sizes_ = exactness_sizes();
  std::vector<Combination> possible_;

 private:
  Trained train_plan(const ir::Plan& plan, const ExactnessCase& of) const {
    const std::string bundle = (folder_ / "bundle.rannc").string();
    codegen::write_bundle(plan, {.replace = true}, bundle).value();
    if (runtime::find_transport(of.transport)->between_processes()) return train_workers(bundle, plan, of);
    return train(*runtime::Trainer::open(bundle, options_of(of)).value(), of);
  }

  fs::path folder_;
  std::map<std::string, Trained> trained_;
  std::map<std::string, Differences> largest_;
};

/// Why the first combination with these values is impossible.
std::string why_absent(const ValuePair& pair) {
  for (const Combination& values : all_combinations(exactness_sizes())) {
    if (values[pair.first] == pair.first_value && values[pair.second] == pair.second_value) {
      return why_impossible(case_of(values)).value_or("");
    }
  }
  return {};
}

TEST_F(ExactnessMatrix, NamesThePairsThatNoPlanHas) {
  std::vector<std::string> absent;
  for (const ValuePair& pair : absent_pairs(sizes_, possible_)) {
    absent.push_back(describe(pair));
    fmt::print("impossible: {}: {}\n", absent.back(), why_absent(pair));
  }
  std::vector<std::string> expected = {"stages=1 replicas=2-3-1"};
  for (const char* schedule : {"interleaved", "zb-v", "v-half", "v-min"}) {
    for (const int stages : {1, 3}) expected.push_back(fmt::format("schedule={} stages={}", schedule, stages));
  }
  EXPECT_THAT(absent, ::testing::UnorderedElementsAreArray(expected));
}

TEST_F(ExactnessMatrix, EveryPairOfValuesHasTheNumbersOfOneProcess) {
  const std::vector<Combination> chosen = cover_pairs(sizes_, possible_);
  EXPECT_EQ(absent_pairs(sizes_, chosen), absent_pairs(sizes_, possible_));
  fmt::print("{} of {} combinations\n", chosen.size(), possible_.size());
  for (const Combination& values : chosen) check(values);
}

TEST_F(ExactnessMatrix, ASampleOfAllCombinationsHasTheNumbersOfOneProcess) {
  if (!tests_everything()) GTEST_SKIP() << "tier full";
  const char* const given = std::getenv("RANNC_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  fmt::print("RANNC_SEED={}\n", seed);
  std::mt19937_64 random(seed);
  std::shuffle(possible_.begin(), possible_.end(), random);
  possible_.resize(std::min(possible_.size(), kSampled));
  for (const Combination& values : possible_) check(values);
}

}  // namespace
}  // namespace rannc::testing
