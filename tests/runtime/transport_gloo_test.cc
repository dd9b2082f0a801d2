// Several devices of one process may join over Gloo, each in a thread of its own, as rannc-profile's exchanges do.
#include "runtime/transport_gloo.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/measure_links.h"

namespace rannc::runtime {
namespace {

uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(socket);
  return bound ? ntohs(address.sin_port) : 0;
}

// LibTorch's records of collectives are one per process and not locked for new groups: without a lock of our own
// this loop crashed or hung in one run of three.
TEST(TransportGloo, GroupsOfOneProcessMayStartTogether) {
  for (int round = 0; round < 8; ++round) {
    Rendezvous where;
    where.port = free_port();
    where.workers = 4;
    const auto times = measure_exchange({ExchangeKind::kAllReduce, where.workers, {4}, 1}, [&](uint32_t device) {
      Rendezvous own = where;
      own.rank = device;
      return join_gloo(own);
    });
    ASSERT_TRUE(times.ok()) << "round " << round << ": " << times.diagnostic().str();
    EXPECT_EQ(times->size(), 1U);
  }
}

}  // namespace
}  // namespace rannc::runtime
