// Messages through the rings between two devices.
#include "runtime/transport/internal/message_pump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "runtime/transport/internal/shared_memory.h"

namespace rannc::runtime {
namespace {

using ::testing::HasSubstr;

constexpr size_t kRing = 1024;  // small, so that messages wrap around and exceed it
constexpr std::chrono::seconds kLong{60};
constexpr std::chrono::milliseconds kShort{150};

using Bytes = std::vector<std::byte>;

Bytes numbered(size_t size, uint32_t seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 7 + seed) % 253);
  return bytes;
}

/// Memory of two devices: a bell each, and the rings between them.
class Wires {
 public:
  Wires() : memory_(*SharedMemory::create(page_bytes() + 2 * kLanes * stride())) {}
  Bell& bell(uint32_t device) const {
    return *reinterpret_cast<Bell*>(memory_.data() + 64 * static_cast<size_t>(device));
  }
  std::vector<PeerRings> peers_of(uint32_t device) const {
    std::vector<PeerRings> peers(2);
    PeerRings& other = peers[1 - device];
    other.bell = &bell(1 - device);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      other.to[lane] = ring(device, lane);
      other.from[lane] = ring(1 - device, lane);
    }
    return peers;
  }

 private:
  static size_t stride() { return ByteRing::memory_bytes(kRing); }
  ByteRing ring(uint32_t from, size_t lane) const {
    return {memory_.data() + page_bytes() + (from * kLanes + lane) * stride(), kRing};
  }
  SharedMemory memory_;
};

/// One device. Its failure is set by tests.
class End {
 public:
  End(const Wires& wires, uint32_t device)
      : peer_(1 - device),
        pump_(
            wires.bell(device), wires.peers_of(device), [this] { return failure(); },
            [](const MessageHead& found, const MessageHead& expected, uint32_t) {
              return error("found route " + std::to_string(found.route) + " for " + std::to_string(expected.route));
            }) {}

  std::weak_ptr<Bytes> send(uint32_t route, const Bytes& bytes, Lane lane = Lane::kMessages, bool held = false) {
    const auto owner = std::make_shared<Bytes>(bytes);
    pump_.send(peer_, lane,
               {.head = head(route, bytes.size()), .owner = owner, .bytes = *owner, .held = held, .what = "a taker"});
    return owner;
  }
  std::shared_ptr<IncomingMessage> post(uint32_t route, size_t size, Lane lane = Lane::kMessages) {
    const auto owner = std::make_shared<Bytes>(size);
    auto message = std::make_shared<IncomingMessage>();
    *message = {.head = head(route, size), .owner = owner, .bytes = *owner, .what = "a sender"};
    pump_.post(peer_, lane, message);
    return message;
  }
  Result<void> await(const std::shared_ptr<IncomingMessage>& message, std::chrono::milliseconds limit = kLong) {
    return pump_.await(*message, limit);
  }
  Result<void> await_taken(size_t left, std::chrono::milliseconds limit = kLong, Lane lane = Lane::kMessages) {
    return pump_.await_taken(peer_, lane, left, limit);
  }
  Result<void> await(const std::shared_ptr<IncomingMessage>& message, BackgroundWait& wait) {
    return pump_.await(*message, wait);
  }
  Result<void> await_left(const std::weak_ptr<Bytes>& sent, BackgroundWait& wait) {
    return pump_.await_left(sent, "a taker", wait);
  }
  void fail() {
    failed_ = true;
    pump_.wake();
  }

 private:
  static MessageHead head(uint32_t route, size_t size) { return {.bytes = size, .route = route}; }
  std::optional<Diagnostic> failure() const {
    return failed_ ? std::optional(error("another worker failed")) : std::nullopt;
  }

  uint32_t peer_;
  std::atomic<bool> failed_ = false;
  MessagePump pump_;
};

Bytes bytes_in(const IncomingMessage& message) { return {message.bytes.begin(), message.bytes.end()}; }

const std::vector<size_t> kSizes = {0, 1, 8, 991, 992, 993, kRing, kRing + 1, 100'003, 3'000'001, 0, 5};

TEST(MessagePump, KeepsOrderAndBytesOfAllSizes) {
  const Wires wires;
  End sender(wires, 0), receiver(wires, 1);
  for (uint32_t i = 0; i < kSizes.size(); ++i) sender.send(i, numbered(kSizes[i], i));  // none waits for the receiver
  std::vector<std::shared_ptr<IncomingMessage>> posted;
  for (uint32_t i = 0; i < kSizes.size(); ++i) posted.push_back(receiver.post(i, kSizes[i]));
  for (uint32_t i = static_cast<uint32_t>(kSizes.size()); i-- > 0;) {  // the last first
    ASSERT_TRUE(receiver.await(posted[i]).ok());
    EXPECT_EQ(bytes_in(*posted[i]), numbered(kSizes[i], i)) << kSizes[i] << " bytes";
  }
  EXPECT_TRUE(sender.await_taken(0).ok());
}

// Both send more than a ring holds before either receives.
TEST(MessagePump, TwoDevicesMaySendToEachOtherAtOnce) {
  const Wires wires;
  const auto work = [&](uint32_t device) {
    End end(wires, device);
    for (uint32_t i = 0; i < 20; ++i) end.send(i, numbered(40 * kRing, i + device));
    for (uint32_t i = 0; i < 20; ++i) {
      const auto message = end.post(i, 40 * kRing);
      ASSERT_TRUE(end.await(message).ok());
      ASSERT_EQ(bytes_in(*message), numbered(40 * kRing, i + 1 - device));
    }
    EXPECT_TRUE(end.await_taken(0).ok());
  };
  const std::jthread other(work, 1);
  work(0);
}

// A sum may run while a message that was sent earlier is not expected yet.
TEST(MessagePump, LanesDoNotWaitForEachOther) {
  const Wires wires;
  End sender(wires, 0), receiver(wires, 1);
  sender.send(1, numbered(5 * kRing, 1));
  sender.send(2, numbered(5 * kRing, 2), Lane::kTerms);
  const auto term = receiver.post(2, 5 * kRing, Lane::kTerms);
  ASSERT_TRUE(receiver.await(term).ok());
  EXPECT_EQ(bytes_in(*term), numbered(5 * kRing, 2));
  const auto message = receiver.post(1, 5 * kRing);
  ASSERT_TRUE(receiver.await(message).ok());
  EXPECT_EQ(bytes_in(*message), numbered(5 * kRing, 1));
}

// Without a call of the receiver's device after it has posted.
TEST(MessagePump, ReceivesWhileTheDeviceComputes) {
  const Wires wires;
  End sender(wires, 0), receiver(wires, 1);
  const auto early = receiver.post(1, 100 * kRing);
  sender.send(1, numbered(100 * kRing, 1));
  ASSERT_TRUE(sender.await_taken(0).ok());
  ASSERT_TRUE(receiver.await(early).ok());
  EXPECT_EQ(bytes_in(*early), numbered(100 * kRing, 1));
}

// Sums of another thread beside the device's messages.
TEST(MessagePump, AnotherThreadExchangesTermsInTheBackground) {
  constexpr uint32_t kRounds = 50;
  const Wires wires;
  const auto work = [&](uint32_t device) {
    End end(wires, device);
    const std::jthread sums([&] {
      BackgroundWait wait;
      for (uint32_t i = 0; i < kRounds; ++i) {
        const auto term = end.post(i, 7 * kRing, Lane::kTerms);
        const auto left = end.send(i, numbered(7 * kRing, i + device), Lane::kTerms);
        ASSERT_TRUE(end.await(term, wait).ok());
        ASSERT_EQ(bytes_in(*term), numbered(7 * kRing, i + 1 - device));
        ASSERT_TRUE(end.await_left(left, wait).ok());
      }
    });
    for (uint32_t i = 0; i < kRounds; ++i) {
      const auto message = end.post(i, 3 * kRing);
      end.send(i, numbered(3 * kRing, i));
      ASSERT_TRUE(end.await(message).ok());
      ASSERT_EQ(bytes_in(*message), numbered(3 * kRing, i));
    }
    EXPECT_TRUE(end.await_taken(0).ok());
  };
  const std::jthread other(work, 1);
  work(0);
}

TEST(MessagePump, AWaitInTheBackgroundEndsWithTheRunOrItsOwner) {
  for (const bool fails : {false, true}) {
    const Wires wires;
    End end(wires, 0);
    BackgroundWait wait;
    const auto message = end.post(1, 10, Lane::kTerms);
    const std::jthread other([&] {
      while (wait.current().second != "a sender") std::this_thread::yield();
      fails ? end.fail() : wait.end();
    });
    const auto result = end.await(message, wait);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().message, fails ? "another worker failed" : "the transport is closed");
  }
}

TEST(MessagePump, HoldsWhatIsTakenUntilItIsAwaited) {
  for (const bool held : {false, true}) {
    const Wires wires;
    End sender(wires, 0), receiver(wires, 1);
    std::vector<std::weak_ptr<Bytes>> alive;
    for (uint32_t i = 0; i < 2; ++i) alive.push_back(sender.send(i, numbered(10, i), Lane::kMessages, held));
    ASSERT_TRUE(receiver.await(receiver.post(0, 10)).ok());
    EXPECT_EQ(alive[0].expired(), !held);
    EXPECT_TRUE(sender.await_taken(1).ok());
    EXPECT_TRUE(alive[0].expired());
    EXPECT_EQ(alive[1].expired(), !held);
    const auto late = sender.await_taken(0, kShort);
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.diagnostic().message, "waited 150 ms for a taker");
  }
}

// A tensor that nobody awaits any more is written until its message is complete.
TEST(MessagePump, KeepsThePostedMemory) {
  const Wires wires;
  End sender(wires, 0), receiver(wires, 1);
  receiver.post(1, 50 * kRing);
  const auto second = receiver.post(2, 10);
  sender.send(1, numbered(50 * kRing, 1));
  sender.send(2, numbered(10, 2));
  ASSERT_TRUE(receiver.await(second).ok());
  EXPECT_EQ(bytes_in(*second), numbered(10, 2));
}

TEST(MessagePump, AnotherMessageThanExpectedIsAnError) {
  for (const auto& [route, size] : {std::pair<uint32_t, size_t>{7, 10}, {1, 12}}) {
    const Wires wires;
    End sender(wires, 0), receiver(wires, 1);
    sender.send(route, numbered(size, 1));
    const auto result = receiver.await(receiver.post(1, 10));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().message, "found route " + std::to_string(route) + " for 1");
  }
}

TEST(MessagePump, WaitsNoLongerThanItsTimeOut) {
  const Wires wires;
  End end(wires, 0);
  const auto result = end.await(end.post(1, 10), kShort);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().message, "waited 150 ms for a sender");
}

TEST(MessagePump, AFailureEndsAllWaits) {
  for (const bool sends : {false, true}) {
    const Wires wires;
    End end(wires, 0);
    const std::jthread other([&] { end.fail(); });
    if (sends) end.send(1, numbered(5 * kRing, 1));
    const auto result = sends ? end.await_taken(0) : end.await(end.post(1, 10));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.diagnostic().message, "another worker failed");
  }
}

/// A device in another process that sends until it is killed.
pid_t endless_sender(const Wires& wires) {
  const pid_t child = fork();
  if (child != 0) return child;
  End end(wires, 0);
  for (uint32_t i = 0;; ++i) {
    end.send(i, numbered(3 * kRing + i % 5, i));
    if (!end.await_taken(4).ok()) _exit(1);
  }
}

TEST(MessagePump, AKilledPeerNeitherBlocksNorCorrupts) {
  const Wires wires;
  const pid_t child = endless_sender(wires);
  End end(wires, 1);
  uint32_t complete = 0;
  for (bool killed = false;; ++complete) {
    const auto message = end.post(complete, 3 * kRing + complete % 5);
    if (!end.await(message, killed ? kShort : kLong).ok()) break;
    ASSERT_EQ(bytes_in(*message), numbered(3 * kRing + complete % 5, complete));
    if (complete < 20 || killed) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    killed = true;
  }
  EXPECT_GT(complete, 20U);
  EXPECT_LT(complete, 30U);
}

}  // namespace
}  // namespace rannc::runtime
