/// The table of transports: how values travel between devices.
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

/// One transport. Its devices are either threads of one process (`open`) or processes (`join`); the other is null. To
/// add one, add a row in `transports.cc`.
struct TransportKind {
  std::string_view name;
  std::string_view summary;  ///< one phrase, for `--help`
  /// The ends of all devices. A wait longer than `timeout` is an error that names what was waited for.
  std::vector<std::unique_ptr<Transport>> (*open)(uint32_t devices, std::chrono::milliseconds timeout) = nullptr;
  /// This process's end. Collective: all processes call it.
  Result<std::unique_ptr<Transport>> (*join)(const Rendezvous& rendezvous) = nullptr;

  bool between_processes() const { return join != nullptr; }
};

/// Every row. The first between threads, and the first between processes, are the defaults.
std::span<const TransportKind> transports();

/// Names of all rows.
std::vector<std::string> transport_names();

/// `local: threads of this process; gloo: ...`, for `--help`.
std::string transport_summaries();

/// The row of that name; null: there is none.
const TransportKind* find_transport(std::string_view name);

/// The default between threads, or between processes.
const TransportKind& default_transport(bool between_processes);

}  // namespace rannc::runtime
