// Shared memory, rings and bells, between threads and between processes.
#include "runtime/transport/internal/byte_ring.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "runtime/transport/internal/bell.h"
#include "runtime/transport/internal/file_messages.h"
#include "runtime/transport/internal/shared_memory.h"

namespace rannc::runtime {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCapacity = 256;

SharedMemory memory_of(size_t bytes) {
  auto memory = SharedMemory::create(bytes);
  EXPECT_TRUE(memory.ok()) << memory.diagnostic().str();
  return *std::move(memory);
}

/// Byte `at` of a stream. Its period shares no factor with a ring's size.
std::byte byte_at(uint64_t at) { return static_cast<std::byte>(at % 251); }

/// Writes bytes [0, end) in pieces of sizes 1, 2, 3 ….
void write_stream(ByteRing ring, uint64_t end) {
  std::vector<std::byte> piece;
  for (uint64_t done = 0; done < end;) {
    const size_t size = std::min<uint64_t>(1 + done % 97, end - done);
    piece.resize(size);
    for (size_t i = 0; i < size; ++i) piece[i] = byte_at(done + i);
    const size_t count = ring.write(piece);
    done += count;
    if (count == 0) std::this_thread::yield();
  }
}

/// Reads bytes [0, end). Returns the position of the first wrong one, or `end`.
uint64_t read_stream(ByteRing ring, uint64_t end) {
  std::vector<std::byte> piece(61);
  for (uint64_t done = 0; done < end;) {
    const size_t count = ring.read(std::span(piece).first(std::min<uint64_t>(piece.size(), end - done)));
    for (size_t i = 0; i < count; ++i) {
      if (piece[i] != byte_at(done + i)) return done + i;
    }
    done += count;
    if (count == 0) std::this_thread::yield();
  }
  return end;
}

TEST(ByteRing, TransfersWhatFits) {
  const SharedMemory memory = memory_of(ByteRing::memory_bytes(kCapacity));
  ByteRing ring(memory.data(), kCapacity);
  const std::vector<std::byte> bytes(kCapacity + 1, std::byte{7});
  std::vector<std::byte> into(kCapacity + 1);
  EXPECT_EQ(ring.read(into), 0U);
  EXPECT_EQ(ring.write({}), 0U);
  EXPECT_EQ(ring.write(bytes), kCapacity);
  EXPECT_EQ(ring.write(bytes), 0U);
  EXPECT_EQ(ring.read(std::span(into).first(3)), 3U);
  EXPECT_EQ(ring.write(bytes), 3U);
  EXPECT_EQ(ring.read(into), kCapacity);
  EXPECT_EQ(ring.bytes_read(), kCapacity + 3);
}

TEST(ByteRing, WrapsAroundBetweenThreads) {
  constexpr uint64_t kEnd = 200'000;
  const SharedMemory memory = memory_of(ByteRing::memory_bytes(kCapacity));
  const ByteRing ring(memory.data(), kCapacity);
  const std::jthread writer(write_stream, ring, kEnd);
  EXPECT_EQ(read_stream(ring, kEnd), kEnd);
}

/// Runs `job` in another process, which ends with exit code 0 unless `job` returns something else.
template <class Job>
pid_t in_child(const Job& job) {
  const pid_t child = fork();
  if (child == 0) _exit(job());
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// The descriptor travels over a socket, as between workers.
TEST(ByteRing, WrapsAroundBetweenProcesses) {
  constexpr uint64_t kEnd = 200'000;
  const GoesOn always = [] { return true; };
  auto listener = listen_at("rannc-ring-test-" + std::to_string(getpid()));
  ASSERT_TRUE(listener.ok()) << listener.diagnostic().str();
  const pid_t child = in_child([&] {
    const OwnedFile socket = connect_to_address("rannc-ring-test-" + std::to_string(getppid()));
    const auto [text, file] = receive_with_file(socket, 10, always);
    const auto memory = SharedMemory::map(file.get(), 0, ByteRing::memory_bytes(kCapacity));
    if (text != "ring" || !memory.ok()) return 1;
    write_stream(ByteRing(memory->data(), kCapacity), kEnd);
    return 0;
  });
  const SharedMemory memory = memory_of(ByteRing::memory_bytes(kCapacity));
  EXPECT_TRUE(send_with_file(accept_from(*listener), "ring", memory.file()));
  EXPECT_EQ(read_stream(ByteRing(memory.data(), kCapacity), kEnd), kEnd);
  EXPECT_EQ(status_of(child), 0);
}

// What arrives from a writer that is killed at any moment is the beginning of its stream.
TEST(ByteRing, AKilledWriterLeavesAPrefix) {
  const SharedMemory memory = memory_of(ByteRing::memory_bytes(kCapacity));
  const ByteRing ring(memory.data(), kCapacity);
  const pid_t child = in_child([&] {
    write_stream(ring, UINT64_MAX);
    return 0;
  });
  constexpr uint64_t kEnd = 20'000;
  EXPECT_EQ(read_stream(ring, kEnd), kEnd);
  kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  std::vector<std::byte> rest(2 * kCapacity);
  rest.resize(ByteRing(ring).read(rest));
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], byte_at(kEnd + i));
  EXPECT_EQ(ByteRing(ring).read(std::span(rest)), 0U);
}

// Another process may write anything into the counters.
TEST(ByteRing, NeverCopiesBeyondItsMemory) {
  const SharedMemory memory = memory_of(ByteRing::memory_bytes(kCapacity));
  ByteRing ring(memory.data(), kCapacity);
  const uint64_t wild = 1'000'000'007;
  std::memcpy(memory.data(), &wild, sizeof(wild));  // the number of bytes written
  std::vector<std::byte> into(4 * kCapacity);
  EXPECT_EQ(ring.read(into), kCapacity);
  EXPECT_EQ(ring.write(into), kCapacity - (wild - kCapacity > kCapacity ? kCapacity : 0));
}

TEST(SharedMemory, ThatIsShortIsOneError) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto memory = SharedMemory::create(1 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(memory.ok());
  EXPECT_THAT(memory.diagnostic().str(), HasSubstr("1048576 bytes of shared memory cannot be reserved: "));
}

TEST(SharedMemory, OnlyFilesOfAFixedSizeAreMapped) {
  const OwnedFile open(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open.get(), 1 << 16), 0);
  const auto may_shrink = SharedMemory::map(open.get(), 0, 1 << 16);
  ASSERT_FALSE(may_shrink.ok());
  EXPECT_THAT(may_shrink.diagnostic().str(), HasSubstr("fixed size"));
  const SharedMemory sealed = memory_of(1 << 16);
  EXPECT_NE(ftruncate(sealed.file(), 1), 0);
  EXPECT_TRUE(SharedMemory::map(sealed.file(), page_bytes(), page_bytes()).ok());
  const auto beyond = SharedMemory::map(sealed.file(), 0, 1 << 17);
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.diagnostic().str(), HasSubstr("65536 bytes, at least 131072 were expected"));
}

TEST(Bell, WakesTheDeviceWhileItWaitsElseTheHelper) {
  const SharedMemory memory = memory_of(page_bytes());
  auto* const bell = reinterpret_cast<Bell*>(memory.data());
  constexpr std::chrono::hours kLong{1};
  for (const auto who : {Bell::Listener::kDevice, Bell::Listener::kHelper}) {
    bell->device_waits(who == Bell::Listener::kDevice);
    const uint32_t seen = bell->rings();
    const std::jthread sleeper([&] { bell->listen(who, seen, kLong); });
    bell->ring();  // before or while it sleeps
  }
}

TEST(Bell, RingsBetweenProcesses) {
  const SharedMemory memory = memory_of(page_bytes());
  auto* const bell = reinterpret_cast<Bell*>(memory.data());
  bell->device_waits(true);
  const pid_t child = in_child([&] {
    bell->listen(Bell::Listener::kDevice, 0, std::chrono::hours(1));
    return bell->rings() == 1 ? 0 : 1;
  });
  bell->ring();
  EXPECT_EQ(status_of(child), 0);
}

TEST(Bell, ASleepEndsByItself) {
  const SharedMemory memory = memory_of(page_bytes());
  auto* const bell = reinterpret_cast<Bell*>(memory.data());
  bell->listen(Bell::Listener::kHelper, bell->rings(), std::chrono::milliseconds(20));
  EXPECT_EQ(bell->rings(), 0U);
}

}  // namespace
}  // namespace rannc::runtime
