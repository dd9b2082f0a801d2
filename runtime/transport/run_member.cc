// Joins and leaves a run of several processes.
#include "runtime/transport/internal/run_member.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/internal/reason.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::seconds kPatienceAtEnd{10}, kPatienceAfterFailure{1};  // of worker 0, for the others to leave
constexpr std::chrono::milliseconds kJoinPeriod{10};

Result<std::vector<OwnedFile>> listening_sockets(const Rendezvous& where) {
  std::vector<OwnedFile> sockets;
  if (where.listening_socket >= 0) {
    sockets.emplace_back(where.listening_socket);
  } else {
    RANNC_ASSIGN(sockets, listen_on(where.host, where.torch_store ? 0 : where.port, where.timeout));
  }
  for (const OwnedFile& socket : sockets) RANNC_TRY(check_reach(where, address_of(socket.get())));
  return sockets;
}

std::string nothing_heard(const RunState& state) {
  const std::string text = "nothing was heard from worker " + state.missing;
  return state.refused.empty() ? text : text + "; " + state.refused;
}

/// Waits until all workers have joined.
Result<void> await_all(StoreClient& client, const Rendezvous& where) {
  for (RunningClock clock;; std::this_thread::sleep_for(kJoinPeriod)) {
    RANNC_ASSIGN(const RunState state, client.beat({}));
    if (!state.failure.empty()) return error(state.failure);
    if (state.present == where.workers) return {};
    if (clock.now() > where.timeout) {
      RANNC_ASSIGN(const std::string first, client.fail(nothing_heard(state)));
      return error(first);
    }
  }
}

Result<std::unique_ptr<Transport>> try_to_join(const Rendezvous& where, const ConnectMember& connect) {
  RANNC_ASSIGN(const std::shared_ptr<RunMember> run, RunMember::join(where));
  Diagnostic reason;
  try {
    auto transport = connect(run);
    if (transport.ok()) return transport;
    reason = transport.diagnostic();
  } catch (const std::exception& failed) {
    reason = error(plain(failed));
  }
  run->watch().abort(reason);
  return *run->watch().failure();
}

}  // namespace

RunMember::RunMember(const Rendezvous& where, std::unique_ptr<StoreServer> server, std::unique_ptr<StoreClient> client)
    : where_(where),
      server_(std::move(server)),
      client_(std::move(client)),
      watch_(*client_, where.progress, where.timeout) {}

void RunMember::leave() {
  if (std::exchange(left_, true)) return;
  const Progress::Waiting waiting(where_.progress.get());
  // The store's server leaves last, so that its end is not mistaken for a failure and all learn why the run failed.
  const bool failed = watch_.failure().has_value();
  watch_.stop();
  client_->leave();
  if (server_) server_->await_others(where_.rank, failed ? kPatienceAfterFailure : kPatienceAtEnd);
}

Result<std::unique_ptr<RunMember>> RunMember::join(const Rendezvous& where) {
  std::unique_ptr<StoreServer> server;
  uint16_t port = where.port;
  if (where.rank == 0) {
    RANNC_ASSIGN(std::vector<OwnedFile> sockets, listening_sockets(where));
    port = address_of(sockets.front().get()).port();
    server = std::make_unique<StoreServer>(std::move(sockets), where);
  }
  if (where.torch_store) {
    RANNC_ASSIGN(port, port_by_torch_store(where, port));
  }
  RANNC_ASSIGN(auto client, StoreClient::join(where, port));
  if (const Result<void> all = await_all(*client, where); !all.ok()) {
    client->leave();
    if (server) server->await_others(where.rank, kPatienceAfterFailure);
    return all.diagnostic();
  }
  return std::make_unique<RunMember>(where, std::move(server), std::move(client));
}

Result<std::unique_ptr<Transport>> join_run(const Rendezvous& where, const ConnectMember& connect) {
  const Progress::Waiting waiting(where.progress.get());
  auto joined = try_to_join(where, connect);
  if (joined.ok()) return joined;
  return error(fmt::format("worker {} of {} could not join at {}:{} within {} ms: {}", where.rank, where.workers,
                           where.host, where.port, where.timeout.count(), without_severity(joined.diagnostic())));
}

std::string message_text(const MessageKey& key) { return fmt::format("{} of step {}", describe(key), key.step); }

}  // namespace rannc::runtime
