#include "runtime/transport/internal/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace rannc::runtime {

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

using Addresses = std::vector<Address>;

/// Waits as long as the resolver does, unless the host is numeric.
Result<Addresses> look_up(const std::string& host, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  if (status != 0) return error(fmt::format("'{}': {}", host, gai_strerror(status)));
  Addresses addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    Address address;
    address.size = each->ai_addrlen;
    std::memcpy(&address.bytes, each->ai_addr, each->ai_addrlen);
    const auto same = [&](const Address& other) { return other.host() == address.host(); };
    if (std::none_of(addresses.begin(), addresses.end(), same)) addresses.push_back(address);
  }
  return addresses;
}

Result<Addresses> look_up_in_time(const std::string& host, std::chrono::milliseconds limit) {
  auto promise = std::make_shared<std::promise<Result<Addresses>>>();
  auto future = promise->get_future();
  std::thread([promise, host] { promise->set_value(look_up(host, 0)); }).detach();
  if (future.wait_for(limit) != std::future_status::ready)
    return error(fmt::format("'{}': the resolver has not answered for {} ms", host, limit.count()));
  return future.get();
}

OwnedFile listening_socket(const Address& address) {
  OwnedFile made(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!made.valid()) return made;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(made.get(), address.get(), address.size) == 0 && listen(made.get(), SOMAXCONN) == 0) return made;
  const int reason = errno;
  made = {};
  errno = reason;
  return made;
}

}  // namespace

uint16_t Address::port() const {
  return ntohs(bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

void Address::set_port(uint16_t port) {
  if (bytes.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(bytes).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(bytes).sin_port = htons(port);
  }
}

bool Address::is_loopback() const {
  constexpr uint8_t kLoopbackNet = 127;
  if (bytes.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24 == kLoopbackNet;
  if (bytes.ss_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == kLoopbackNet);
}

std::string Address::host() const {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(get(), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

std::string Address::str() const {
  return bytes.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

Result<Addresses> resolve(const std::string& host, uint16_t port, std::chrono::milliseconds limit) {
  Result<Addresses> found = look_up(host, AI_NUMERICHOST);
  if (!found.ok()) found = look_up_in_time(host, limit);
  if (!found.ok()) return found;
  for (Address& address : *found) address.set_port(port);
  return found;
}

Result<std::vector<OwnedFile>> listen_on(const std::string& host, uint16_t port, std::chrono::milliseconds limit) {
  RANNC_ASSIGN(Addresses addresses, resolve(host, port, limit));
  std::vector<OwnedFile> sockets;
  std::string elsewhere;
  for (Address& address : addresses) {
    address.set_port(port);
    OwnedFile made = listening_socket(address);
    if (made.valid()) {
      port = address_of(made.get()).port();
      sockets.push_back(std::move(made));
      continue;
    }
    const int reason = errno;
    const std::string why = fmt::format("{}: {}", address.str(), std::strerror(reason));
    if (reason != EADDRNOTAVAIL && reason != EAFNOSUPPORT) return error("cannot listen on " + why);
    elsewhere += (elsewhere.empty() ? "" : "; ") + why;
  }
  if (!sockets.empty()) return sockets;
  return error(fmt::format("cannot listen on '{}', which is not an address of this machine: {}", host, elsewhere));
}

Address address_of(int socket) {
  Address address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) return {};
  return address;
}

}  // namespace rannc::runtime
