// Mini-batches that are read ahead are those that are requested.
#include "runtime/data/prefetch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

/// Source whose batches are their steps.
class Source {
 public:
  Result<Batch> read(uint64_t step) {
    const std::lock_guard lock(mutex_);
    read_.push_back(step);
    changed_.notify_all();
    if (step == 5) return error("no batch 5");
    if (step == 6) throw std::runtime_error("thrown 6");
    return Batch{{"x", to_value(at::full({1}, static_cast<int64_t>(step)))}};
  }
  /// Waits until `count` batches were read, and returns their steps.
  std::vector<uint64_t> await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_.size() >= count; });
    return read_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> read_;
};

std::unique_ptr<Dataset> ahead_of(Source& source) {
  return prefetched(make_dataset([&source](uint64_t step) { return source.read(step); }, "steps"));
}

int64_t value_at(const Dataset& data, uint64_t step) {
  return to_tensor(data.batch(step).value().at("x")).item<int64_t>();
}

TEST(Prefetch, TheNextBatchIsReadWithoutARequest) {
  Source source;
  const auto data = ahead_of(source);
  EXPECT_EQ(data->describe(), "steps");
  EXPECT_EQ(value_at(*data, 0), 0);
  EXPECT_EQ(source.await(2), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(value_at(*data, 1), 1);
  EXPECT_EQ(source.await(3), (std::vector<uint64_t>{0, 1, 2})) << "step 1 is not read again";
}

TEST(Prefetch, StepsMayBeRequestedInAnyOrder) {
  Source source;
  const auto data = ahead_of(source);
  for (const uint64_t step : {3, 1, 1, 2, 9, 0}) EXPECT_EQ(value_at(*data, step), static_cast<int64_t>(step));
}

TEST(Prefetch, ErrorsBelongToTheirStep) {
  Source source;
  const auto data = ahead_of(source);
  EXPECT_EQ(value_at(*data, 4), 4);
  EXPECT_EQ(source.await(2), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(value_at(*data, 7), 7) << "batch 5 is not requested";
  EXPECT_EQ(data->batch(5).diagnostic().message, "no batch 5");
  EXPECT_THROW((void)data->batch(6), std::runtime_error);
  EXPECT_EQ(value_at(*data, 8), 8);
}

TEST(Prefetch, PreparesWhatItReads) {
  Source source;
  std::mutex mutex;
  std::vector<std::thread::id> threads;
  const auto data = prefetched(make_dataset([&source](uint64_t step) { return source.read(step); }, "steps"),
                               [&](const Value& value) {
                                 const std::lock_guard lock(mutex);
                                 threads.push_back(std::this_thread::get_id());
                                 return to_value(to_tensor(value) + 100);
                               });
  EXPECT_EQ(value_at(*data, 3), 103);
  EXPECT_EQ(value_at(*data, 4), 104);
  EXPECT_FALSE(data->batch(5).ok());
  const std::lock_guard lock(mutex);
  EXPECT_EQ(threads.at(0), std::this_thread::get_id()) << "batch 3 was not read ahead";
  EXPECT_NE(threads.at(1), std::this_thread::get_id());
}

}  // namespace
}  // namespace rannc::runtime
