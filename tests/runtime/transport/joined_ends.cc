#include "tests/runtime/transport/joined_ends.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/transport/internal/shm_transport.h"
#include "runtime/transport/transport_gloo.h"
#include "tools/common/launcher.h"

namespace rannc::testing {

void on_each(uint32_t devices, const std::function<void(uint32_t)>& job) {
  std::vector<std::jthread> threads;
  for (uint32_t device = 0; device < devices; ++device) threads.emplace_back(job, device);
}

Joined join_each(const runtime::Rendezvous& common, const JoinEnd& join) {
  auto meeting = tools::Listener::open();
  Joined joined{Ends(common.workers), std::vector<std::string>(common.workers)};
  on_each(common.workers, [&](uint32_t device) {
    runtime::Rendezvous own = common;
    own.port = meeting->port();
    own.rank = device;
    if (device == 0) own.listening_socket = meeting->release();
    auto end = join(own);
    if (end.ok()) {
      joined.ends[device] = *std::move(end);
    } else {
      joined.failures[device] = end.diagnostic().str();
    }
  });
  return joined;
}

Ends gloo_ends(uint32_t devices) {
  runtime::Rendezvous common;
  common.workers = devices;
  Joined joined = join_each(common, [](const runtime::Rendezvous& where) { return runtime::join_gloo(where); });
  EXPECT_EQ(joined.failures, std::vector<std::string>(devices));
  return std::move(joined.ends);
}

Result<std::unique_ptr<runtime::Transport>> join_two_hosts(const runtime::Rendezvous& where, runtime::Device& device) {
  return runtime::join_run(where, [&](const auto& run) -> Result<std::unique_ptr<runtime::Transport>> {
    RANNC_ASSIGN(auto links, runtime::ShmLinks::attach(run->client(), where, [&] { return run->watch().failure(); }));
    std::vector<uint32_t> hosts(where.workers);
    for (uint32_t rank = 0; rank < where.workers; ++rank) hosts[rank] = rank * 2 / where.workers;
    links.separate(hosts, where.rank);
    return runtime::connect_auto(run, std::move(links), device);
  });
}

void leave(Ends& ends) {
  on_each(static_cast<uint32_t>(ends.size()), [&](uint32_t device) { ends[device].reset(); });
}

}  // namespace rannc::testing
