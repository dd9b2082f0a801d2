// Blocks of a range, against a list of what is taken, and LibTorch's tensors in the heap of the process.
#include "runtime/train/internal/tensor_heap.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "runtime/engine/allocation_meter.h"
#include "runtime/train/process.h"

namespace rannc::runtime {
namespace {

constexpr size_t kRange = size_t{64} << 20;

struct Taken {
  char* at;
  size_t bytes;
  char mark;
};

// Each block is filled with its mark. A block that overlaps another one spoils its marks.
TEST(BlockRange, BlocksNeverOverlap) {
  BlockRange range(kRange);
  std::mt19937_64 random(7);
  std::vector<Taken> taken;
  const auto give_back = [&](size_t i) {
    const Taken block = taken[i];
    EXPECT_TRUE(std::all_of(block.at, block.at + block.bytes, [&](char byte) { return byte == block.mark; }));
    range.give_back(block.at);
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int i = 0; i < 20'000; ++i) {
    if (!taken.empty() && random() % 2 == 0) {
      give_back(random() % taken.size());
      continue;
    }
    const size_t bytes = 1 + random() % (random() % 8 == 0 ? 400'000 : 4'000);
    auto* at = static_cast<char*>(range.take(bytes));
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0U);
    EXPECT_TRUE(range.contains(at));
    taken.push_back({at, bytes, static_cast<char>(i)});
    std::memset(at, taken.back().mark, bytes);
  }
  while (!taken.empty()) give_back(taken.size() - 1);
  EXPECT_EQ(range.free_blocks(), 1U) << "neighbors are merged";
}

TEST(BlockRange, TakesTheSmallestBlockThatFits) {
  BlockRange range(kRange);
  void* large = range.take(4096);
  void* wall = range.take(64);
  void* fitting = range.take(1024);
  void* other_wall = range.take(64);
  range.give_back(large);
  range.give_back(fitting);
  const size_t used = range.used_bytes();
  EXPECT_EQ(range.take(1000), fitting);
  EXPECT_EQ(range.take(4096), large);
  EXPECT_EQ(range.used_bytes(), used);
  EXPECT_NE(wall, other_wall);
}

TEST(BlockRange, AFreeBlockAtTheEndGrows) {
  BlockRange range(kRange);
  void* first = range.take(1024);
  range.give_back(first);
  EXPECT_EQ(range.take(4096), first);
  EXPECT_EQ(range.used_bytes(), 4096U);
}

TEST(BlockRange, HasNoRoomBeyondItsEnd) {
  BlockRange range(4096), none(0);
  EXPECT_EQ(none.take(64), nullptr);
  void* all = range.take(4096);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(range.take(1), nullptr);
  range.give_back(all);
  EXPECT_EQ(range.take(4097), nullptr);
  EXPECT_EQ(range.take(64), all);
}

TEST(SmallBlocks, FreedBlocksAreTakenAgain) {
  SmallBlocks blocks(1 << 20);
  void* const first = blocks.take(65);
  void* const second = blocks.take(128);  // of the same size class
  EXPECT_NE(first, second);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 64, 0U);
  blocks.give_back(first);
  EXPECT_NE(blocks.take(64), first);
  EXPECT_EQ(blocks.take(100), first);
}

TEST(SmallBlocks, BlocksOfAllSizesLieApart) {
  SmallBlocks blocks(size_t{16} << 20);
  std::map<char*, size_t> held;
  for (size_t bytes = 1; bytes <= SmallBlocks::kMostBytes; bytes += 31) {
    for (int i = 0; i < 5; ++i) held[static_cast<char*>(blocks.take(bytes))] = bytes;
  }
  char* end = nullptr;
  for (const auto& [block, bytes] : held) {
    EXPECT_TRUE(blocks.contains(block));
    EXPECT_GE(block, end);
    end = block + bytes;
  }
  EXPECT_EQ(held.size(), 5U * 133);
}

TEST(SmallBlocks, AFullRangeHasNoBlock) {
  SmallBlocks blocks(64 << 10);
  std::vector<void*> held;
  while (void* const block = blocks.take(SmallBlocks::kMostBytes)) held.push_back(block);
  EXPECT_EQ(held.size(), 16U);
  EXPECT_EQ(blocks.take(64), nullptr);
  blocks.give_back(held[3]);
  EXPECT_EQ(blocks.take(SmallBlocks::kMostBytes), held[3]);
  EXPECT_EQ(blocks.take(SmallBlocks::kMostBytes + 1), nullptr);
  EXPECT_EQ(blocks.take(0), nullptr);
}

class TensorHeapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&TensorHeap::instance());
  }
  void TearDown() override { c10::SetCPUAllocator(before_); }

  static bool in_range(const at::Tensor& tensor) { return TensorHeap::instance().range().contains(tensor.data_ptr()); }

 private:
  at::Allocator* before_ = nullptr;
};

TEST_F(TensorHeapTest, LargeTensorsLieInTheRange) {
  const at::Tensor large = at::zeros({128, 128}), small = at::zeros({16});
  EXPECT_TRUE(in_range(large));
  EXPECT_FALSE(in_range(small));
  EXPECT_TRUE(at::equal(large + 1, at::ones({128, 128})));
}

TEST_F(TensorHeapTest, SmallTensorsHaveSmallBlocks) {
  const at::Tensor small = at::zeros({16}), medium = at::zeros({2048});
  EXPECT_TRUE(TensorHeap::instance().small().contains(small.data_ptr()));
  EXPECT_FALSE(TensorHeap::instance().small().contains(medium.data_ptr()));
  EXPECT_FALSE(in_range(medium));
}

// A tensor that shrinks or grows keeps its numbers, whichever side of the limit it comes to lie on.
TEST_F(TensorHeapTest, TensorsAreResized) {
  at::Tensor tensor = at::arange(100);
  tensor.resize_({100'000});
  EXPECT_TRUE(in_range(tensor));
  EXPECT_TRUE(at::equal(tensor.narrow(0, 0, 100), at::arange(100)));
}

TEST_F(TensorHeapTest, RawBlocksOfEitherKindAreFreed) {
  c10::Allocator& heap = TensorHeap::instance();
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5000}, size_t{1} << 20})
    heap.raw_deallocate(heap.raw_allocate(bytes));
}

TEST_F(TensorHeapTest, BytesAreMetered) {
  const AllocationMeter meter;
  {
    const at::Tensor large = at::empty({1 << 20}, at::kByte);
    EXPECT_EQ(meter.live_bytes(), 1 << 20);
  }
  EXPECT_EQ(meter.live_bytes(), 0);
  EXPECT_EQ(meter.peak_bytes(), 1 << 20);
}

TEST_F(TensorHeapTest, ThreadsShareTheHeap) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      std::vector<at::Tensor> held(8);
      for (int i = 0; i < 400; ++i) {
        at::Tensor& tensor = held[i % 8];
        if (tensor.defined() && !tensor.eq(t).all().item<bool>()) ++wrong[t];
        tensor = at::full({1000 * (20 + i % 13)}, t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

/// Threads that take and return blocks of every kind until the end of the object's lifetime.
class BusyThreads {
 public:
  BusyThreads() {
    for (int t = 0; t < 2; ++t) {
      threads_.emplace_back([this, t] {
        std::vector<at::Tensor> held(16);
        for (uint64_t i = 0; !stop_; ++i) {
          held[i % 16] = at::empty({kSizes[(i + i / 16) % kSizes.size()] + t}, at::kByte);
          rounds_.fetch_add(1, std::memory_order_relaxed);
          if (i % 8 == 0) std::this_thread::yield();  // a thread that forks has to enter the heap, too
        }
      });
    }
    while (rounds_ < 1000) std::this_thread::yield();
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  static constexpr std::array<int64_t, 5> kSizes = {64, 3000, 20'000, 70'000, 300'000};

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::vector<std::thread> threads_;
};

/// Ends a forked process: 0 if its copy of the heap hands out blocks that do not overlap, also those of `inherited`.
[[noreturn]] void use_heap_and_exit(std::vector<at::Tensor>& inherited) {
  ::alarm(30);  // a deadlock ends with SIGALRM
  int wrong = 0;
  std::vector<at::Tensor> held;
  for (int round = 0; round < 2; ++round) {
    for (const int64_t size : BusyThreads::kSizes) {
      for (int i = 0; i < 2; ++i) {
        held.push_back(at::empty({size}, at::kByte));
        std::memset(held.back().data_ptr(), static_cast<int>(held.size()), static_cast<size_t>(size));
      }
    }
    inherited.clear();
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto* const data = held[i].const_data_ptr<uint8_t>();
    if (!std::all_of(data, data + held[i].numel(), [&](uint8_t byte) { return byte == i + 1; })) ++wrong;
  }
  held.clear();
  ::_exit(wrong == 0 ? 0 : 1);
}

TEST_F(TensorHeapTest, ProcessesForkedWhileThreadsAllocateHaveAHeap) {
  const BusyThreads threads;
  for (int i = 0; i < 300; ++i) {
    std::vector<at::Tensor> own;
    for (const int64_t size : BusyThreads::kSizes) own.push_back(at::zeros({size}, at::kByte));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) use_heap_and_exit(own);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "process " << i;
  }
}

// The heap alone leaves the C library's as it was.
TEST(UseTensorHeap, IsUsedByNewTensorsOnly) {
  at::Allocator* const before = c10::GetCPUAllocator();
  const at::Tensor older = at::ones({100'000});
  use_tensor_heap();
  const at::Tensor newer = at::ones({100'000});
  EXPECT_TRUE(TensorHeap::instance().range().contains(newer.data_ptr()));
  EXPECT_FALSE(TensorHeap::instance().range().contains(older.data_ptr()));
  void* volatile const large = std::malloc(size_t{64} << 20);
#if defined(__GLIBC__)
  EXPECT_GE(::mallinfo2().hblkhd, size_t{64} << 20) << "large blocks of the C library are still mappings";
#endif
  std::free(large);
  c10::SetCPUAllocator(before);
  EXPECT_TRUE(at::equal(older, newer));
}

}  // namespace
}  // namespace rannc::runtime
