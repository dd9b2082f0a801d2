#include "tests/runtime/transport/gloo_ends.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/transport/transport_gloo.h"
#include "tools/common/launcher.h"

namespace rannc::testing {

void on_each(uint32_t devices, const std::function<void(uint32_t)>& job) {
  std::vector<std::jthread> threads;
  for (uint32_t device = 0; device < devices; ++device) threads.emplace_back(job, device);
}

Ends gloo_ends(uint32_t devices) {
  auto meeting = tools::Listener::open();
  Ends ends(devices);
  on_each(devices, [&](uint32_t device) {
    runtime::Rendezvous own;
    own.port = meeting->port();
    own.workers = devices;
    own.rank = device;
    if (device == 0) own.listening_socket = meeting->release();
    auto end = runtime::join_gloo(own);
    ASSERT_TRUE(end.ok()) << end.diagnostic().str();
    ends[device] = *std::move(end);
  });
  return ends;
}

void leave(Ends& ends) {
  on_each(static_cast<uint32_t>(ends.size()), [&](uint32_t device) { ends[device].reset(); });
}

}  // namespace rannc::testing
