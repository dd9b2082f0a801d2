// The store of a run: a table that all see, and who of the workers is there.
#include "runtime/transport/internal/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/runtime/transport/store_meeting.h"

namespace rannc::runtime {
namespace {

using rannc::testing::Meeting;
using rannc::testing::raw_connection;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
constexpr milliseconds kLong{60000}, kShort{200};

/// What `client` hears in the end.
std::string heard_failure(StoreClient& client) {
  for (;;) {
    const Result<RunState> state = client.beat();
    if (!state.ok()) return "no answer: " + state.diagnostic().message;
    if (!state->failure.empty()) return state->failure;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(Store, WhatOneSetsAllGet) {
  const Meeting meeting(2);
  const auto first = meeting.join(0), second = meeting.join(1);
  EXPECT_EQ(*second->get("key"), std::nullopt);
  const std::string value("a\0b", 3);
  ASSERT_TRUE(first->set("key", value).ok());
  EXPECT_EQ(*second->get("key"), value);
  EXPECT_EQ(*first->add("count", 3), 3);
  EXPECT_EQ(*second->add("count", -1), 2);
  EXPECT_EQ(*second->get("count"), "2");
  EXPECT_EQ(first->local_address(), "127.0.0.1");
}

TEST(Store, TheFirstReasonWins) {
  const Meeting meeting(2);
  const auto first = meeting.join(0), second = meeting.join(1);
  EXPECT_EQ(*second->fail("the disk is full"), "the disk is full");
  EXPECT_EQ(*first->fail("lost the connection"), "the disk is full");
  EXPECT_EQ(heard_failure(*first), "the disk is full");
}

TEST(Store, WhoIsMissingIsNamed) {
  const Meeting meeting(4);
  const auto first = meeting.join(0), third = meeting.join(2);
  const Result<RunState> state = first->beat();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->present, 2U);
  EXPECT_EQ(state->missing, "1, 3");
}

TEST(Store, WhoIsBusyForLongestIsKnownToTheOthers) {
  const Meeting meeting(3);
  const auto first = meeting.join(0), second = meeting.join(1), third = meeting.join(2);
  ASSERT_TRUE(first->beat({.idle = milliseconds(50), .work = "its own work"}).ok());
  ASSERT_TRUE(second->beat({.idle = milliseconds(30), .work = "a backward pass"}).ok());
  ASSERT_TRUE(third->beat({.idle = milliseconds(40), .work = "a forward pass"}).ok());
  const Result<RunState> state = first->beat({.idle = milliseconds(50), .work = "its own work"});
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->busy.rank, 2U);
  EXPECT_EQ(state->busy.idle, milliseconds(40));
  EXPECT_EQ(state->busy.work, "a forward pass");
  ASSERT_TRUE(third->beat().ok());  // it waits
  EXPECT_EQ(first->beat()->busy.work, "a backward pass");
  ASSERT_TRUE(second->beat().ok());
  EXPECT_EQ(first->beat()->busy.work, "");
}

TEST(Store, AWorkerThatGoesWithoutLeavingFailsTheRun) {
  const Meeting meeting(2);
  const auto first = meeting.join(0);
  meeting.join(1).reset();
  EXPECT_EQ(heard_failure(*first), "worker 1 is gone: its process has ended");
}

TEST(Store, AWorkerThatLeavesDoesNot) {
  const Meeting meeting(2);
  const auto first = meeting.join(0);
  auto second = meeting.join(1);
  second->leave();
  second.reset();
  meeting.server->await_others(0, kLong);
  const Result<RunState> state = first->beat();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->failure, "");
}

TEST(Store, ASilentWorkerFailsTheRun) {
  const Meeting meeting(3, kShort);
  const auto first = meeting.join(0), second = meeting.join(1);
  second->leave();  // who has left may be silent
  const auto third = meeting.join(2);
  EXPECT_THAT(heard_failure(*first), HasSubstr("worker 2 has not been heard from for "));
}

// As when worker 0 is stopped: the connection stands, and nobody serves it.
TEST(Store, AServerThatDoesNotAnswerIsLostAfterTheLimit) {
  const OwnedFile socket = rannc::testing::listening_socket();
  const auto client = StoreClient::join({.rank = 1, .workers = 2, .timeout = kShort}, address_of(socket.get()).port());
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.diagnostic().message, HasSubstr("worker 0 has not answered for "));
}

TEST(Store, WhoWaitsForAServerCanBeHurried) {
  auto meeting = std::make_unique<Meeting>(1);
  const auto client = meeting->join(0);
  meeting.reset();
  client->hurry(kShort);
  const Result<RunState> first = client->beat(), again = client->beat();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.diagnostic().message, "worker 0 is gone: its process has ended");
  EXPECT_EQ(again.diagnostic().message, first.diagnostic().message);
}

TEST(Store, NobodyListens) {
  const uint16_t port = address_of(rannc::testing::listening_socket().get()).port();
  const auto client = StoreClient::join({.rank = 1, .workers = 2, .timeout = kShort}, port);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.diagnostic().message, HasSubstr("Connection refused"));
}

TEST(Store, WorkersThatDisagreeAreRefused) {
  const Meeting meeting(2);
  const auto first = meeting.join(1);
  const auto refused = [&](uint32_t rank, uint32_t workers) {
    const auto client = meeting.try_join(rank, workers);
    return client.ok() ? "" : client.diagnostic().message;
  };
  EXPECT_EQ(refused(0, 4), "worker 0 expects 4 workers, but worker 0 expects 2");
  EXPECT_EQ(refused(1, 2), "another process has already joined as worker 1");
  EXPECT_EQ(refused(2, 2), "worker 2 does not exist in a run of 2 workers");
  EXPECT_EQ(refused(0, 2), "");
}

TEST(Store, AnotherProgramDoesNoHarm) {
  const Meeting meeting(2);
  const auto first = meeting.join(0);
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\xff'),
                                   std::string("\x08\0\0\0\1", 5), std::string("\x08\0\0\0\1\0\0\0\0\0\0\0", 12)}) {
    {
      const OwnedFile stranger = raw_connection(meeting.port);
      EXPECT_EQ(send(stranger.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    }
    const Result<RunState> state = first->beat();
    ASSERT_TRUE(state.ok());
    EXPECT_EQ(state->failure, "");
    EXPECT_EQ(state->present, 1U);
  }
}

}  // namespace
}  // namespace rannc::runtime
