// Times messages and collectives between threads of this process.
#include <fmt/format.h>

#include <set>

#include "runtime/measure/measure_links.h"
#include "runtime/transport/transports.h"
#include "tools/common/launcher.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

namespace {

using runtime::ExchangeKind;

constexpr std::chrono::seconds kTimeout{60};
const std::vector<uint64_t> kBytes = {1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 24};

using Times = Result<std::map<uint64_t, double>>;

Times between_threads(const runtime::TransportKind& transport, const runtime::ExchangePlan& plan) {
  auto ends = transport.open(std::vector<runtime::Device*>(plan.devices, &runtime::cpu()), kTimeout);
  return runtime::measure_exchange(
      plan, [&](uint32_t device) -> Result<std::unique_ptr<runtime::Transport>> { return std::move(ends[device]); });
}

// Each end joins from its own thread, as a process would.
Times between_processes(const runtime::TransportKind& transport, const runtime::ExchangePlan& plan) {
  runtime::Rendezvous where;
  RANNC_ASSIGN(Listener meeting, Listener::open());
  where.port = meeting.port();
  where.workers = plan.devices;
  where.timeout = kTimeout;
  return runtime::measure_exchange(plan, [&](uint32_t device) {
    runtime::Rendezvous own = where;
    own.rank = device;
    if (device == 0) own.listening_socket = meeting.release();
    return transport.join(own, runtime::cpu());
  });
}

}  // namespace

Result<MeasureCount> measure_exchanges(const ExchangeChoice& choice, const MeasureOptions& options,
                                       partition::ProfileDatabase& database) {
  const std::string environment = environment_name(options.threads);
  std::vector<ExchangeKind> kinds;
  if (choice.messages) kinds.push_back(ExchangeKind::kMessage);
  if (choice.collectives) kinds.insert(kinds.end(), {ExchangeKind::kAllReduce, ExchangeKind::kAllGather});
  MeasureCount count;
  for (const runtime::TransportKind& transport : runtime::transports()) {
    if (transport.needs_nccl || transport.combines) continue;
    for (const ExchangeKind kind : kinds) {
      const std::string name = fmt::format("{}.{}", transport.name, runtime::str(kind));
      if (database.find_exchange(environment, name) != nullptr) {
        ++count.reused;
        continue;
      }
      if (options.step) options.step("measuring " + name);
      partition::ExchangeTable table;
      for (const uint32_t devices : kind == ExchangeKind::kMessage ? std::set<uint32_t>{2} : std::set<uint32_t>{2, 4}) {
        const runtime::ExchangePlan plan{kind, devices, kBytes, options.repeat};
        RANNC_ASSIGN(table[devices], transport.between_processes() ? between_processes(transport, plan)
                                                                   : between_threads(transport, plan));
      }
      database.add_exchange(environment, name, std::move(table));
      ++count.measured;
    }
  }
  return count;
}

}  // namespace rannc::tools
