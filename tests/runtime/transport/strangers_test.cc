// Connections to the store that do not belong to the run.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/transport/internal/shm_links.h"
#include "runtime/transport/internal/store_service.h"
#include "tests/runtime/transport/store_meeting.h"

namespace {

std::timed_mutex hanging_resolver;   // a look-up of this host ends when it is free
std::atomic<int> failed_accepts{0};  // because descriptors are short

}  // namespace

// These take the place of libc's in this program.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* wanted, addrinfo** found) {
  if (std::string_view(host) == "hangs.invalid" && (wanted->ai_flags & AI_NUMERICHOST) == 0) {
    const std::lock_guard lock(hanging_resolver);
    return EAI_AGAIN;
  }
  static const auto of_libc = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return of_libc(host, service, wanted, found);
}

extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  static const auto of_libc = reinterpret_cast<decltype(&accept4)>(dlsym(RTLD_NEXT, "accept4"));
  const int made = of_libc(socket, address, size, flags);
  failed_accepts += made < 0 && errno == EMFILE;
  return made;
}

namespace rannc::runtime {
namespace {

using rannc::testing::listening_socket;
using rannc::testing::Meeting;
using rannc::testing::raw_connection;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kSecret = "a secret of this test";
constexpr milliseconds kShort{200};

StoreWriter request(StoreRequest ask) { return std::move(StoreWriter().number(static_cast<uint64_t>(ask))); }

void say(const OwnedFile& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) return;  // closed
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

/// The next frame without its length; empty if the connection is closed.
std::string hear(const OwnedFile& socket) {
  std::string frame(4, '\0');
  if (recv(socket.get(), frame.data(), 4, MSG_WAITALL) != 4) return {};
  frame.resize(store_frame_size(frame));
  if (recv(socket.get(), frame.data(), frame.size(), MSG_WAITALL) != static_cast<ssize_t>(frame.size())) return {};
  return frame;
}

/// What a process hears that knows the protocol, and proves `secret`.
std::string join_by_hand(const OwnedFile& socket, uint32_t rank, uint32_t workers, std::string_view secret) {
  StoreHandshake handshake{.worker_nonce = std::string(kStoreNonceSize, 'a'), .rank = rank, .workers = workers};
  say(socket, request(StoreRequest::kHello).text(kStoreMagic).text(handshake.worker_nonce).frame());
  const std::string greeting = hear(socket);
  StoreReader reader(greeting);
  reader.number();
  handshake.server_nonce = reader.text();
  const std::string proof = handshake.proof(secret, "worker");
  say(socket, request(StoreRequest::kProve).number(rank).number(workers).text(proof).frame());
  return hear(socket);
}

std::string refusal_in(const std::string& frame) {
  StoreReader reader(frame);
  return reader.number() == static_cast<uint64_t>(StoreAnswer::kRefused) ? reader.text() : "";
}

/// Local addresses of the sockets that listen on `port`, as /proc has them.
std::vector<std::string> listening_on(uint16_t port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, number, local, remote, state;
    std::getline(file, line);
    while (file >> number >> local >> remote >> state && std::getline(file, line)) {
      const size_t colon = local.find(':');
      if (state == "0A" && std::stoul(local.substr(colon + 1), nullptr, 16) == port)
        found.push_back(local.substr(0, colon));
    }
  }
  return found;
}

TEST(Strangers, HmacOfRfc4231) {
  std::string digits;
  for (const char byte : proof_of("Jefe", "what do ya want for nothing?")) {
    constexpr const char* kDigits = "0123456789abcdef";
    digits += {kDigits[static_cast<uint8_t>(byte) >> 4], kDigits[byte & 15]};
  }
  EXPECT_EQ(digits, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(equal_secrets("", ""));
  EXPECT_FALSE(equal_secrets("a", "b"));
  EXPECT_FALSE(equal_secrets("a", "ab"));
}

TEST(Strangers, OnlyTheGivenAddressListens) {
  const OwnedFile socket = listening_socket();
  const uint16_t port = address_of(socket.get()).port();
  EXPECT_THAT(listening_on(port), ::testing::ElementsAre("0100007F"));
  const auto taken = listen_on("127.0.0.1", port, kShort);
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.diagnostic().message, StartsWith("cannot listen on 127.0.0.1:" + std::to_string(port) + ": "));
  EXPECT_TRUE(listen_on("127.0.0.2", port, kShort).ok());
}

TEST(Strangers, ANameListensOnItsLocalAddresses) {
  const auto sockets = listen_on("localhost", 0, std::chrono::minutes(1));
  ASSERT_TRUE(sockets.ok()) << sockets.diagnostic().str();
  for (const OwnedFile& socket : *sockets) {
    EXPECT_TRUE(address_of(socket.get()).is_loopback());
    EXPECT_EQ(address_of(socket.get()).port(), address_of(sockets->front().get()).port());
  }
  const auto elsewhere = listen_on("192.0.2.1", 29500, kShort);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(elsewhere.diagnostic().message,
              HasSubstr("'192.0.2.1', which is not an address of this machine: 192.0.2.1:29500: "));
}

TEST(Strangers, Loopback) {
  for (const auto& [host, loopback] : {std::pair("127.9.9.9", true),
                                       {"::1", true},
                                       {"::ffff:127.0.0.1", true},
                                       {"0.0.0.0", false},
                                       {"::", false},
                                       {"10.0.0.1", false},
                                       {"fe80::1", false},
                                       {"::ffff:10.0.0.1", false}})
    EXPECT_EQ(resolve(host, 1, kShort).value().front().is_loopback(), loopback) << host;
}

TEST(Strangers, WithoutASecretOnlyLoopback) {
  Rendezvous where{.host = "192.0.2.1", .workers = 2, .timeout = milliseconds(1)};
  const auto why = [&] { return StoreClient::join(where, 1).diagnostic().message; };
  EXPECT_THAT(why(), HasSubstr("other machines can reach 192.0.2.1:1, and the workers have no secret"));
  where.insecure = true;
  EXPECT_THAT(why(), StartsWith("worker 0 does not listen there: "));
  where = {.host = "192.0.2.1", .workers = 2, .timeout = milliseconds(1), .secret = kSecret};
  EXPECT_THAT(why(), StartsWith("worker 0 does not listen there: "));
}

TEST(Strangers, AResolverThatHangsEndsWithTheTimeout) {
  const std::lock_guard hangs(hanging_resolver);
  const auto client = StoreClient::join({.host = "hangs.invalid", .workers = 2, .timeout = kShort}, 1);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.diagnostic().message, HasSubstr("'hangs.invalid': the resolver has not answered for "));
  EXPECT_FALSE(listen_on("hangs.invalid", 0, kShort).ok());
}

TEST(Strangers, WhoKnowsTheProtocolAloneIsRefused) {
  const Meeting meeting(2, std::chrono::minutes(1), kSecret);
  const auto first = meeting.join(0);
  const OwnedFile stranger = raw_connection(meeting.port);
  EXPECT_EQ(refusal_in(join_by_hand(stranger, 1, 2, "")),
            "worker 1 does not have the secret of worker 0 (RANNC_SECRET)");
  EXPECT_EQ(hear(stranger), "") << "it is closed";
  EXPECT_THAT(first->beat()->refused, HasSubstr("a process at 127.0.0.1 that called itself worker 1 was refused"));
  const auto second = meeting.join(1);
  EXPECT_EQ(first->beat()->present, 2U);
  EXPECT_THAT(first->beat()->failure, IsEmpty());
  EXPECT_THAT(first->beat()->refused, IsEmpty()) << "all are there";
}

TEST(Strangers, RequestsNeedAProof) {
  const Meeting meeting(2, std::chrono::minutes(1), kSecret);
  const auto first = meeting.join(0);
  for (uint64_t ask = 1; ask < kStoreRequests + 1; ++ask) {
    const OwnedFile stranger = raw_connection(meeting.port);
    say(stranger, StoreWriter().number(ask).text("stop").text("").frame());
    EXPECT_NE(refusal_in(hear(stranger)), "") << ask;
    EXPECT_EQ(hear(stranger), "");
  }
  EXPECT_THAT(first->beat()->failure, IsEmpty());
}

TEST(Strangers, AWrongSecretIsNamedOnBothSides) {
  const Meeting meeting(2, std::chrono::minutes(1), kSecret);
  const auto first = meeting.join(0);
  const auto second = meeting.try_join(1, 2, "another secret of this test");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.diagnostic().message, "worker 1 does not have the secret of worker 0 (RANNC_SECRET)");
  EXPECT_THAT(first->beat()->refused, HasSubstr("does not have the secret of worker 0 (RANNC_SECRET)"));
  EXPECT_THAT(first->beat()->failure, IsEmpty()) << "a stranger does not end the run";
}

/// What a worker says of a process in the place of worker 0 that answers the second request by `answer`.
std::string said_of_impostor(StoreWriter answer) {
  const OwnedFile listener = listening_socket();
  std::jthread impostor([&] {
    const OwnedFile worker(accept(listener.get(), nullptr, nullptr));
    hear(worker);
    say(worker, StoreWriter().number(0).text(std::string(kStoreNonceSize, 'b')).frame());
    hear(worker);
    say(worker, answer.frame());
    hear(worker);
  });
  const Rendezvous where{.rank = 1, .workers = 2, .secret = kSecret};
  const auto client = StoreClient::join(where, address_of(listener.get()).port());
  return client.ok() ? "" : client.diagnostic().message;
}

TEST(Strangers, AnImpostorOfWorker0IsNamed) {
  const auto number = [](uint64_t value) { return std::move(StoreWriter().number(value)); };
  EXPECT_EQ(said_of_impostor(number(0).text(std::string(32, 'c'))),
            "the process that listens there does not have the secret of worker 1 (RANNC_SECRET)");
  EXPECT_EQ(said_of_impostor(number(1)), "worker 0 refused without a reason");
  EXPECT_EQ(said_of_impostor(number(7).number(7)), "worker 0 refused without a reason");
  EXPECT_THAT(said_of_impostor(StoreWriter()), HasSubstr("does not answer as worker 0 of this version"));
}

TEST(Strangers, AProofIsGoodForOneConnectionWorkerAndSide) {
  const StoreHandshake said{.worker_nonce = "a", .server_nonce = "b", .rank = 1, .workers = 2};
  const auto with = [&](auto change) {
    StoreHandshake other = said;
    change(other);
    return other.proof(kSecret, "worker");
  };
  const std::string proof = said.proof(kSecret, "worker");
  EXPECT_EQ(with([](auto&) {}), proof);
  EXPECT_NE(said.proof(kSecret, "server"), proof);
  EXPECT_NE(said.proof("", "worker"), proof);
  EXPECT_NE(with([](auto& other) { other.worker_nonce = "c"; }), proof);
  EXPECT_NE(with([](auto& other) { other.server_nonce = "c"; }), proof);
  EXPECT_NE(with([](auto& other) { other.rank = 0; }), proof);
  EXPECT_NE(with([](auto& other) { other.workers = 3; }), proof);
}

TEST(Strangers, IdleOnesAndGarbageKeepNobodyOut) {
  const Meeting meeting(2, std::chrono::minutes(1), kSecret);
  const auto first = meeting.join(0);
  std::vector<OwnedFile> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(raw_connection(meeting.port));
  const OwnedFile garbage = raw_connection(meeting.port);
  say(garbage, std::string(4 << 20, '\0'));
  const auto second = meeting.join(1);
  EXPECT_TRUE(first->set("key", "value").ok());
  EXPECT_EQ(*second->get("key"), "value");
  EXPECT_THAT(first->beat()->failure, IsEmpty());
  for (int i = 0; i < 80; ++i) EXPECT_EQ(hear(idle[static_cast<size_t>(i)]), "") << "closed for the newer ones";
}

TEST(Strangers, HaveSecondsToProveTheSecret) {
  StoreService service(1, kSecret, std::chrono::minutes(1));
  service.admit({}, "127.0.0.1", milliseconds(1000));
  StorePeer& peer = service.peers().front();
  service.judge(milliseconds(5999));
  EXPECT_FALSE(peer.closed);
  service.judge(milliseconds(6000));
  EXPECT_TRUE(peer.closed);
}

TEST(Strangers, AnswersDoNotQueueUp) {
  StoreService service(1, "", std::chrono::minutes(1));
  service.admit({}, "127.0.0.1", milliseconds(0));
  StorePeer& peer = service.peers().front();
  peer.rank = 0;
  const std::string value(1 << 19, 'v');
  peer.in = request(StoreRequest::kSet).text("key").text(value).frame();
  service.serve(peer, milliseconds(0));
  peer.out.clear();
  for (int i = 0; i < 1000; ++i) peer.in += request(StoreRequest::kGet).text("key").frame();
  const size_t requested = peer.in.size();
  service.serve(peer, milliseconds(0));
  EXPECT_LT(peer.out.size(), kStoreFrameLimit);
  EXPECT_EQ(peer.in.size(), requested / 1000 * 999);
}

// The address is in /proc/net/unix.
TEST(Strangers, IdleOnesAtTheLocalSocketKeepNobodyOut) {
  const Meeting meeting(2);
  const auto first = meeting.join(0), second = meeting.join(1);
  std::vector<OwnedFile> idle;
  const auto attach = [&](StoreClient& client, uint32_t rank) {
    Rendezvous where = meeting.common;
    where.rank = rank;
    const auto links = ShmLinks::attach(client, where, [] { return std::optional<Diagnostic>(); });
    EXPECT_TRUE(links.ok() && links->all_attached());
  };
  const std::jthread higher(attach, std::ref(*second), 1);
  std::optional<std::string> address;
  while (!address) address = *first->get("shm/address/1");
  for (int i = 0; i < 100; ++i) idle.push_back(connect_to_address("rannc-" + address->substr(0, 32)));
  EXPECT_TRUE(idle.front().valid());
  attach(*first, 0);
}

class Descriptors : public ::testing::Test {
 protected:
  void SetUp() override { getrlimit(RLIMIT_NOFILE, &before_); }
  void TearDown() override { restore(); }
  void restore() { setrlimit(RLIMIT_NOFILE, &before_); }
  /// Lets the process open `count` more files.
  void allow(rlim_t count) {
    const OwnedFile lowest(dup(STDIN_FILENO));
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(lowest.get()) + count;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  rlimit before_{};
};

TEST_F(Descriptors, StrangersMakeRoomForWorkersIfTheyAreShort) {
  std::vector<OwnedFile> sockets, idle;
  sockets.push_back(listening_socket());
  const uint16_t port = address_of(sockets.front().get()).port();
  for (int i = 0; i < 10; ++i) idle.push_back(raw_connection(port));
  const OwnedFile worker = raw_connection(port);
  allow(3);
  const StoreServer server(std::move(sockets), {.secret = kSecret});
  EXPECT_EQ(refusal_in(join_by_hand(worker, 0, 1, kSecret)), "");
}

TEST_F(Descriptors, NoneIsFreeForAWhile) {
  std::vector<OwnedFile> sockets;
  sockets.push_back(listening_socket());
  const OwnedFile worker = raw_connection(address_of(sockets.front().get()).port());
  allow(0);
  const StoreServer server(std::move(sockets), {.secret = kSecret});
  const auto start = std::chrono::steady_clock::now();
  failed_accepts = 0;
  while (failed_accepts < 3) std::this_thread::yield();
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(200)) << "a busy loop";
  restore();
  EXPECT_EQ(refusal_in(join_by_hand(worker, 0, 1, kSecret)), "");
}

TEST_F(Descriptors, ALackOfThemIsReportedToThoseWhoWait) {
  const Meeting meeting(2);
  const auto first = meeting.join(0);
  allow(1);
  const OwnedFile last = raw_connection(meeting.port);
  std::string refused;
  while (refused.empty()) refused = first->beat()->refused;
  EXPECT_EQ(refused, "worker 0 cannot accept connections: Too many open files");
  restore();
  meeting.join(1);
}

}  // namespace
}  // namespace rannc::runtime
