// Workers of one machine: their meeting place, who is named when one fails, and that none is left.
#include "tools/launcher.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace rannc::tools {
namespace {

using testing::HasSubstr;

// Of a bind to `port` by somebody else; 0: it was free.
int bind_error(uint16_t port) {
  const int other = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int status = bind(other, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(other);
  return status;
}

Result<void> launch(const std::string& script, uint32_t workers = 2) {
  return launch_workers("/bin/sh", {"-c", script}, workers, 1);
}

TEST(Launcher, NobodyElseCanTakeThePort) {
  auto listener = Listener::open();
  ASSERT_TRUE(listener.ok()) << listener.diagnostic().str();
  EXPECT_EQ(bind_error(listener->port()), EADDRINUSE);
  const Listener moved = std::move(*listener);
  EXPECT_EQ(bind_error(moved.port()), EADDRINUSE);
}

TEST(Launcher, WorkerZeroAloneInheritsTheListeningSocket) {
  const Result<void> done = launch(
      "test $MASTER_PORT -gt 0 || exit 3\n"
      "if [ $RANK = 0 ]; then test -S /proc/self/fd/$RANNC_LISTENING_SOCKET || exit 4\n"
      "else test -z \"$RANNC_LISTENING_SOCKET\" || exit 5; fi");
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
}

TEST(Launcher, TheFirstFailureIsNamed) {
  const Result<void> failed = launch("test $RANK != 1 || exit 7", 3);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 1 ended with exit code 7"));
}

// The one that is killed may be seen to end after those that fail by its death.
TEST(Launcher, AKilledWorkerIsNamedBeforeThoseThatFailByItsDeath) {
  const Result<void> failed = launch("if [ $RANK = 0 ]; then exit 1; fi; kill -9 $$");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 1 was killed by signal 9"));
}

TEST(Launcher, AProgramThatCannotBeStartedIsAnError) {
  const Result<void> failed = launch_workers("/nowhere/at-all", {}, 2, 1);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("exit code 127"));
}

}  // namespace
}  // namespace rannc::tools
