// Running statistics of many normalizations, with the bits of updating one after the other.
#include "runtime/engine/internal/running_statistics.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/internal/torch_value.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

/// A normalization with a running mean and variance.
struct Norm {
  int64_t channels = 0, count = 0;
  at::ScalarType type = at::kFloat;
  double momentum = 0.1;
  std::optional<size_t> shares;  ///< the buffers of this earlier norm
};

/// The stage's statistics and what they refer to.
class Stage {
 public:
  explicit Stage(const std::vector<Norm>& norms, c10::Device device = at::kCPU) : norms_(norms) {
    for (size_t i = 0; i < norms.size(); ++i) {
      const Norm& norm = norms[i];
      Statistics entry{.momentum = norm.momentum, .count = ir::Dim(norm.count)};
      if (norm.shares) {
        entry.mean = signature_.statistics[*norm.shares].mean;
        entry.variance = signature_.statistics[*norm.shares].variance;
      } else {
        entry.mean = static_cast<uint32_t>(buffers_.size());
        entry.variance = entry.mean + 1;
        for (int k = 0; k < 2; ++k)
          buffers_.push_back(to_value(at::rand({norm.channels}, generator_, norm.type).to(device)));
      }
      signature_.statistics.push_back(entry);
    }
    statistics_.prepare();
  }

  /// Means and variances of one call. The variance of one element is not a number.
  std::vector<at::Tensor> moments(c10::Device device = at::kCPU) {
    std::vector<at::Tensor> made;
    for (const Norm& norm : norms_) {
      made.push_back(at::randn({norm.channels}, generator_, at::kDouble).to(norm.type).to(device));
      const at::Tensor variance = at::rand({norm.channels}, generator_, at::kDouble).to(norm.type);
      made.push_back((norm.count > 1 ? variance : variance * NAN).to(device));
    }
    return made;
  }

  StageStatistics& statistics() { return statistics_; }
  const std::vector<Statistics>& entries() const { return signature_.statistics; }
  std::vector<at::Tensor> buffers() const {
    std::vector<at::Tensor> found;
    for (const Value& buffer : buffers_) found.push_back(to_tensor(buffer).cpu());
    return found;
  }

 private:
  at::Generator generator_ = at::detail::createCPUGenerator(3);
  const std::vector<Norm> norms_;
  Signature signature_;
  Values buffers_;
  StageStatistics statistics_{signature_, buffers_};
};

/// Sums of one norm: count, sums of x, sums of x².
at::Tensor sums_of(const at::Tensor& mean, const at::Tensor& variance, int64_t count) {
  const auto n = static_cast<double>(count);
  const at::Tensor m = mean.to(at::kDouble);
  at::Tensor squares = m * m * n;
  if (count > 1) squares = squares + variance.to(at::kDouble) * (n - 1);
  return at::cat({at::full({1}, n, at::kDouble), m * n, squares});
}

void mix(const at::Tensor& running, const at::Tensor& value, double momentum, const at::Tensor& holds) {
  const at::Tensor mixed = (running * (1 - momentum)).add_(value.to(running.scalar_type()), momentum);
  running.copy_(at::where(holds, mixed, running));
}

/// Updates the buffers of one norm by the sums of all calls.
void update(const at::Tensor& mean, const at::Tensor& variance, double momentum, const at::Tensor& sums) {
  const int64_t channels = mean.numel();
  const at::Tensor count = sums.narrow(0, 0, 1), m = sums.narrow(0, 1, channels) / count;
  mix(mean, m, momentum, count.ge(1));
  const at::Tensor v = (sums.narrow(0, 1 + channels, channels) - m * m * count).clamp_min(0) / (count - 1);
  mix(variance, v, momentum, count.ge(2));
}

const std::vector<Norm> kNorms = {
    {.channels = 3, .count = 20},
    {.channels = 64, .count = 4, .momentum = 0.3},
    {.channels = 17, .count = 1},
    {.channels = 5, .count = 12, .type = at::kDouble},
    {.channels = 64, .count = 4, .type = at::kBFloat16, .momentum = 0.3},
    {.channels = 3, .count = 7, .shares = 0},
    {.channels = 130, .count = 9},
};

/// Steps of `calls` calls. Returns the buffers after `update_all` has updated copies of them, one norm after the other.
std::vector<at::Tensor> one_by_one(Stage& stage, const std::vector<std::vector<at::Tensor>>& calls) {
  std::vector<at::Tensor> buffers = stage.buffers();
  for (at::Tensor& buffer : buffers) buffer = buffer.clone();
  for (size_t i = 0; i < stage.entries().size(); ++i) {
    const Statistics& entry = stage.entries()[i];
    at::Tensor sums;
    for (const auto& moments : calls) {
      const at::Tensor call = sums_of(moments[2 * i], moments[2 * i + 1], entry.count.constant());
      sums = sums.defined() ? sums + call : call;
    }
    update(buffers[entry.mean], buffers[entry.variance], entry.momentum, sums);
  }
  return buffers;
}

void expect_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << "buffer " << i;
}

TEST(RunningStatistics, HaveTheBitsOfOneNormAfterTheOther) {
  for (const size_t calls : {1, 2, 5}) {
    Stage stage(kNorms);
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<at::Tensor>> moments;
      for (size_t i = 0; i < calls; ++i) moments.push_back(stage.moments());
      const std::vector<at::Tensor> expected = one_by_one(stage, moments);
      stage.statistics().begin_step();
      for (const auto& of_call : moments) stage.statistics().add(of_call, {}).value();
      stage.statistics().commit(stage.statistics().place());
      expect_same(stage.buffers(), expected);
    }
  }
}

// As over two replicas, of which the second may have no samples.
TEST(RunningStatistics, AddOverReplicas) {
  for (const bool idle : {false, true}) {
    Stage first(kNorms), second(kNorms);
    const auto of_first = first.moments(), of_second = second.moments();
    std::vector<std::vector<at::Tensor>> calls = {of_first};
    if (!idle) calls.push_back(of_second);
    const std::vector<at::Tensor> expected = one_by_one(first, calls);
    first.statistics().add(of_first, {}).value();
    if (!idle) second.statistics().add(of_second, {}).value();
    const Values own = first.statistics().sums(), other = second.statistics().sums();
    ASSERT_EQ(own.size(), 1U);
    Values total;
    total.push_back(own[0]->plus(*other[0]));
    first.statistics().set_sums(total);
    first.statistics().commit(first.statistics().place());
    expect_same(first.buffers(), expected);
  }
}

TEST(RunningStatistics, OneElementChangesTheMeanAlone) {
  Stage stage({{.channels = 4, .count = 1}});
  const auto before = stage.buffers();
  const std::vector<at::Tensor> kept = {before[0].clone(), before[1].clone()};
  stage.statistics().add(stage.moments(), {}).value();
  stage.statistics().commit(stage.statistics().place());
  EXPECT_FALSE(stage.buffers()[0].equal(kept[0]));
  EXPECT_TRUE(stage.buffers()[1].equal(kept[1]));
}

TEST(RunningStatistics, SumsWithoutACallChangeNothing) {
  Stage stage(kNorms);
  std::vector<at::Tensor> kept;
  for (const at::Tensor& buffer : stage.buffers()) kept.push_back(buffer.clone());
  stage.statistics().commit(to_tensor(stage.statistics().sums()[0]));
  expect_same(stage.buffers(), kept);
}

TEST(RunningStatistics, AStageWithoutNormsHasNoSums) {
  Stage stage({});
  EXPECT_TRUE(stage.statistics().empty());
  EXPECT_TRUE(stage.statistics().sums().empty());
  EXPECT_TRUE(stage.statistics().add({}, {}).ok());
}

/// Work items of a call and of an update.
std::pair<uint64_t, uint64_t> items_on_a_device(size_t norms) {
  rannc::testing::reset_test_device();
  const c10::Device device = rannc::testing::test_device();
  Stage stage(std::vector<Norm>(norms, {.channels = 8, .count = 20}), device);
  const auto moments = stage.moments(device);
  stage.statistics().add(moments, {}).value();
  const uint64_t before = rannc::testing::enqueued_by_host();
  stage.statistics().add(moments, {}).value();
  const uint64_t added = rannc::testing::enqueued_by_host();
  stage.statistics().commit(stage.statistics().place());
  const uint64_t committed = rannc::testing::enqueued_by_host();
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  return {added - before, committed - added};
}

TEST(RunningStatistics, EnqueueAsMuchForOneNormAsForMany) {
  const auto one = items_on_a_device(1), many = items_on_a_device(53);
  EXPECT_EQ(one, many);
  EXPECT_LE(many.first, 32U);
  EXPECT_LE(many.second, 40U);
}

}  // namespace
}  // namespace rannc::runtime
