/// Membership of one worker in a run of several processes.
#pragma once

#include <functional>
#include <memory>

#include "runtime/transport/internal/run_watch.h"
#include "runtime/transport/internal/store.h"
#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One worker's connection to the store, which worker 0 serves, and its watch over the others.
class RunMember {
 public:
  /// Waits until all workers have joined.
  static Result<std::unique_ptr<RunMember>> join(const Rendezvous& where);
  RunMember(const Rendezvous& where, std::unique_ptr<StoreServer> server, std::unique_ptr<StoreClient> client);
  ~RunMember() { leave(); }
  RunMember(const RunMember&) = delete;
  RunMember& operator=(const RunMember&) = delete;

  /// Leaves the run. Worker 0 waits for the others. Idempotent. Connections of a transport must outlive this call,
  /// since others may still use them.
  void leave();

  const Rendezvous& where() const { return where_; }
  DeviceId device() const { return DeviceId(where_.rank); }
  StoreClient& client() { return *client_; }
  RunWatch& watch() { return watch_; }

 private:
  const Rendezvous where_;
  std::unique_ptr<StoreServer> server_;  // only on worker 0
  std::unique_ptr<StoreClient> client_;
  RunWatch watch_;
  bool left_ = false;
};

/// Connects a member's endpoint with those of all other workers. May throw exceptions of LibTorch.
using ConnectMember = std::function<Result<std::unique_ptr<Transport>>(const std::shared_ptr<RunMember>&)>;

/// Joins the run and connects this worker. A failure ends the run for all workers. Errors name the host and port.
Result<std::unique_ptr<Transport>> join_run(const Rendezvous& where, const ConnectMember& connect);

/// `the activation of route 3, micro-batch 1 of step 7`.
std::string message_text(const MessageKey& key);

}  // namespace rannc::runtime
