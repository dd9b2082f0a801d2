// Several devices of one process may join over Gloo, each in a thread of its own, as rannc-profile's exchanges do.
#include "runtime/transport/transport_gloo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/measure/measure_links.h"
#include "runtime/transport/internal/gloo_group.h"
#include "runtime/transport/internal/no_broken_pipes.h"
#include "runtime/transport/internal/send_queue.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tools/common/launcher.h"

namespace rannc::runtime {
namespace {

// A worker writes to a peer that was killed before it hears of its end.
TEST(NoBrokenPipes, AClosedConnectionIsAnErrorNotASignal) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  const auto write_once = [&] {
    const NoBrokenPipes guard;
    return write(ends[0], "x", 1) < 0 ? errno : 0;
  };
  EXPECT_EQ(write_once(), EPIPE);
  EXPECT_EQ(write_once(), EPIPE);
  sigset_t pending, blocked;
  sigpending(&pending);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
  close(ends[0]);
}

/// Threads of this process that SIGPIPE cannot reach.
int guarded_threads() {
  constexpr uint64_t kBit = uint64_t{1} << (SIGPIPE - 1);
  int found = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) found += (std::stoull(line.substr(7), nullptr, 16) & kBit) != 0 ? 1 : 0;
    }
  }
  return found;
}

TEST(NoBrokenPipes, HoldsInTheThreadsOfGloo) {
  const int before = guarded_threads();
  rannc::testing::Ends ends = rannc::testing::gloo_ends(2);
  EXPECT_GE(guarded_threads(), before + 2);
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
      const auto value = receipt.ok() ? (*receipt)->wait() : Result<Arrived>(receipt.diagnostic());
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

TEST(TransportGloo, EveryExceptionHasAReason) {
  const auto reason = [](const char* what) { return plain(std::runtime_error(what)); };
  EXPECT_EQ(reason("[pair.cc:1] the connection is lost\nframe 1"), "the connection is lost");
  EXPECT_EQ(reason("[pair.cc:1] \nthe connection is lost"), "the connection is lost");
  EXPECT_EQ(reason("\nthe connection is lost"), "the connection is lost");
  EXPECT_THAT(reason(""), ::testing::HasSubstr("an exception without a message"));
  EXPECT_THAT(reason("[pair.cc:1] \n"), ::testing::HasSubstr("an exception without a message"));
}

TEST(TransportGloo, AnInterfaceWithoutAnAddressIsNamed) {
  Rendezvous where;
  where.interface_address = "no-such-host.invalid";
  where.timeout = std::chrono::seconds(1);
  const auto end = join_gloo(where);
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.diagnostic().str(), ::testing::HasSubstr("'no-such-host.invalid': "));
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
