/// Messages over a local socket that carry a file descriptor each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/owned_file.h"

namespace rannc::runtime {

/// Returns false to give up a wait. Called every 50 ms.
using GoesOn = std::function<bool()>;

/// Opens a socket that listens at an abstract address, which only processes of the same network namespace reach.
Result<OwnedFile> listen_at(const std::string& address);
/// Connects without waiting; invalid if nobody listens there.
OwnedFile connect_to_address(const std::string& address);
/// Waits for at most 50 ms. Returns the ascending indices of the sockets that have a connection or a message.
std::vector<size_t> await_any(const std::vector<OwnedFile>& sockets);
/// Invalid if descriptors are short.
OwnedFile accept_from(const OwnedFile& listener);

/// Sends `text` and `file`. Returns false if the connection is lost.
bool send_with_file(const OwnedFile& socket, const std::string& text, int file);
/// Receives at most `limit` bytes of text. The file is invalid if the connection is lost, the wait was given up, or the
/// message has no file.
std::pair<std::string, OwnedFile> receive_with_file(const OwnedFile& socket, size_t limit, const GoesOn& goes_on);

}  // namespace rannc::runtime
