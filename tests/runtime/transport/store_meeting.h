/// A store's server and clients for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/transport/internal/store.h"

namespace rannc::testing {

inline OwnedFile listening_socket() {
  auto sockets = runtime::listen_on("127.0.0.1", 0, std::chrono::seconds(1));
  EXPECT_TRUE(sockets.ok());
  return std::move(sockets->front());
}

/// A connection that says nothing by itself.
inline OwnedFile raw_connection(uint16_t port) {
  const runtime::Address address = runtime::resolve("127.0.0.1", port, std::chrono::seconds(1)).value().front();
  OwnedFile made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(made.get(), address.get(), address.size), 0);
  return made;
}

/// A server and workers that have joined it.
struct Meeting {
  explicit Meeting(uint32_t workers, std::chrono::milliseconds patience = std::chrono::minutes(1),
                   std::string secret = {})
      : common{.workers = workers, .timeout = patience, .secret = std::move(secret)} {
    std::vector<OwnedFile> sockets;
    sockets.push_back(listening_socket());
    port = runtime::address_of(sockets.front().get()).port();
    server = std::make_unique<runtime::StoreServer>(std::move(sockets), common);
    common.timeout = std::chrono::minutes(1);  // of clients
  }
  Result<std::unique_ptr<runtime::StoreClient>> try_join(uint32_t rank, uint32_t of, std::string secret = {}) const {
    runtime::Rendezvous where = common;
    where.rank = rank;
    where.workers = of;
    if (!secret.empty()) where.secret = std::move(secret);
    return runtime::StoreClient::join(where, port);
  }
  std::unique_ptr<runtime::StoreClient> join(uint32_t rank) const {
    auto client = try_join(rank, common.workers);
    EXPECT_TRUE(client.ok()) << client.diagnostic().str();
    return client.ok() ? *std::move(client) : nullptr;
  }
  runtime::Rendezvous common;
  uint16_t port = 0;
  std::unique_ptr<runtime::StoreServer> server;
};

}  // namespace rannc::testing
