/// The table of transports between devices.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One transport. Its devices are either threads of one process (`open`) or processes (`join`). The other pointer is
/// null. To add one, add a row in `transports.cc`.
struct TransportKind {
  std::string_view name;
  std::string_view summary;  ///< one phrase, for `--help`
  /// Returns the endpoints of all devices, which are all asynchronous or none is. A wait longer than `timeout` is an
  /// error that names the awaited message or collective.
  std::vector<std::unique_ptr<Transport>> (*open)(const std::vector<Device*>& devices,
                                                  std::chrono::milliseconds timeout) = nullptr;
  /// Returns this process's endpoint. Collective: all processes call it.
  Result<std::unique_ptr<Transport>> (*join)(const Rendezvous& rendezvous, Device& device) = nullptr;

  /// Whether `join` needs a device with `Device::nccl`. The others take any device.
  bool needs_nccl = false;
  /// Whether `join` selects other rows per peer.
  bool combines = false;
  /// Whether sums add the members in their order, so that they have the same bits over all such transports.
  bool exact_sums = true;

  bool between_processes() const { return join != nullptr; }
};

/// Returns all rows. The first row between threads and the first between processes are the defaults.
std::span<const TransportKind> transports();

/// Returns the names of all rows.
std::vector<std::string> transport_names();

/// `local: threads of this process; gloo: ...`, for `--help`.
std::string transport_summaries();

/// Returns the row named `name`, or null.
const TransportKind* find_transport(std::string_view name);

/// Returns the default between processes or between threads.
const TransportKind& default_transport(bool between_processes);

}  // namespace rannc::runtime
