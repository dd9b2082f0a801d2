// Several devices of one process may join over Gloo, each in a thread of its own, as rannc-profile's exchanges do.
#include "runtime/transport/transport_gloo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <semaphore>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/measure/measure_links.h"
#include "runtime/transport/internal/send_queue.h"
#include "tests/runtime/transport/gloo_ends.h"
#include "tools/common/launcher.h"

namespace rannc::runtime {
namespace {

// A worker writes to a peer that was killed before it hears of its end.
TEST(TransportGloo, ABrokenConnectionRaisesNoSignal) {
  std::signal(SIGPIPE, SIG_DFL);
  rannc::testing::Ends ends = rannc::testing::gloo_ends(2);
  struct sigaction now = {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
  rannc::testing::leave(ends);
}

TEST(TransportGloo, AHandlerOfTheProgramStays) {
  const auto handler = [](int) {};
  std::signal(SIGPIPE, handler);
  rannc::testing::Ends ends = rannc::testing::gloo_ends(2);
  EXPECT_EQ(std::signal(SIGPIPE, SIG_DFL), static_cast<sighandler_t>(handler));
  rannc::testing::leave(ends);
}

// Memory before launch counts a sent value until its send is awaited.
TEST(SendQueue, HoldsWhatIsTakenUntilItIsAwaited) {
  for (const SentValue sent : {SentValue::kHeldUntilAwaited, SentValue::kFreedWhenTaken}) {
    auto first = at::zeros({4});
    const c10::weak_intrusive_ptr<c10::TensorImpl> alive(first.getIntrusivePtr());
    std::binary_semaphore at_second{0}, go_on{0};
    const auto wait = [&](const SendQueue::Work&, const std::string& what) {
      if (what == "second") {
        at_second.release();
        go_on.acquire();
      }
      return Result<void>();
    };
    SendQueue queue(wait, std::chrono::seconds(10));
    queue.push(std::move(first), {}, "first", sent);
    queue.push(at::zeros({4}), {}, "second", sent);
    at_second.acquire();
    EXPECT_EQ(alive.expired(), sent == SentValue::kFreedWhenTaken);
    EXPECT_TRUE(queue.await(1).ok());
    EXPECT_TRUE(alive.expired());
    go_on.release();
    EXPECT_TRUE(queue.await(0).ok());
  }
}

// LibTorch's records of collectives are one per process and not locked for new groups: without a lock of our own
// this loop crashed or hung in one run of three.
TEST(TransportGloo, GroupsOfOneProcessMayStartTogether) {
  for (int round = 0; round < 8; ++round) {
    Rendezvous where;
    auto meeting = tools::Listener::open();
    ASSERT_TRUE(meeting.ok()) << meeting.diagnostic().str();
    where.port = meeting->port();
    where.workers = 4;
    const auto times = measure_exchange({ExchangeKind::kAllReduce, where.workers, {4}, 1}, [&](uint32_t device) {
      Rendezvous own = where;
      own.rank = device;
      if (device == 0) own.listening_socket = meeting->release();
      return join_gloo(own);
    });
    ASSERT_TRUE(times.ok()) << "round " << round << ": " << times.diagnostic().str();
    EXPECT_EQ(times->size(), 1U);
  }
}

// Also where the failing worker serves the store and leaves at once.
TEST(TransportGloo, WhyOneFailsIsWhatTheOthersHear) {
  for (const uint32_t failing : {0U, 1U}) {
    SCOPED_TRACE(failing);
    auto meeting = tools::Listener::open();
    ASSERT_TRUE(meeting.ok()) << meeting.diagnostic().str();
    std::string heard;
    const auto work = [&](uint32_t device) {
      Rendezvous own;
      own.port = meeting->port();
      own.workers = 2;
      own.rank = device;
      if (device == 0) own.listening_socket = meeting->release();
      auto end = join_gloo(own);
      ASSERT_TRUE(end.ok()) << end.diagnostic().str();
      if (device == failing) return (*end)->abort(error("the disk is full"));
      const auto receipt = (*end)->receive({}, DeviceId(failing), {ir::DType::kF32, {1}});
      const auto value = receipt.ok() ? (*receipt)->wait() : Result<Value>(receipt.diagnostic());
      ASSERT_FALSE(value.ok());
      heard = value.diagnostic().str();
    };
    {
      const std::jthread other(work, 1);
      work(0);
    }
    EXPECT_THAT(heard, ::testing::HasSubstr("the disk is full"));
  }
}

/// Why two workers could not meet as `where` says, one after the other; empty: they met, and left.
std::string join_both(const Rendezvous& where) {
  std::string failures[2];
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&failures, own = where, rank]() mutable {
        own.rank = rank;
        const auto end = join_gloo(own);
        if (!end.ok()) failures[rank] = end.diagnostic().str();
      });
    }
  }
  return failures[0] + failures[1];
}

// torchrun has taken the port of MASTER_PORT itself, for a store of LibTorch's.
TEST(TransportGloo, WorkersMeetByTorchrunsStore) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore agent("127.0.0.1", options);
  Rendezvous where;
  where.port = agent.getPort();
  where.workers = 2;
  where.torch_store = true;
  for (const char* round : {"0", "1"}) {
    where.torch_round = round;
    EXPECT_EQ(join_both(where), "") << round;
  }
}

TEST(TransportGloo, AWorkerThatNeverComesIsNamed) {
  auto meeting = tools::Listener::open();
  ASSERT_TRUE(meeting.ok()) << meeting.diagnostic().str();
  Rendezvous where;
  where.port = meeting->port();
  where.listening_socket = meeting->release();
  where.workers = 3;
  where.timeout = std::chrono::milliseconds(300);
  const auto end = join_gloo(where);
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.diagnostic().str(), ::testing::HasSubstr("nothing was heard from worker 1, 2"));
}

}  // namespace
}  // namespace rannc::runtime
