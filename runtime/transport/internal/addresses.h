/// Addresses of hosts, and sockets that listen there.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/transport/internal/file_messages.h"

namespace rannc::runtime {

/// An IPv4 or IPv6 address with its port.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof(bytes);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  uint16_t port() const;
  void set_port(uint16_t port);
  /// Whether only processes of this machine reach it.
  bool is_loopback() const;
  /// `127.0.0.1`, `::1`.
  std::string host() const;
  /// `127.0.0.1:29500`, `[::1]:29500`.
  std::string str() const;
};

/// Returns the addresses of a name, or the numeric address itself. A resolver that does not answer within `limit` is an
/// error, and its thread is abandoned.
Result<std::vector<Address>> resolve(const std::string& host, uint16_t port, std::chrono::milliseconds limit);

/// Opens a socket per address of `host` that belongs to this machine. None of them is an error that names all. Port 0
/// selects a free one, the same for all sockets.
Result<std::vector<OwnedFile>> listen_on(const std::string& host, uint16_t port, std::chrono::milliseconds limit);

/// Returns the own address of a socket.
Address address_of(int socket);

}  // namespace rannc::runtime
