// NCCL on one GPU, as a communicator of one rank that sends to itself.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

/// The state once the communicator accepts calls.
NcclResult settled(const NcclTable& nccl, NcclComm comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  NcclResult state = NcclResult::kInProgress;
  while (state == NcclResult::kInProgress && std::chrono::steady_clock::now() < end) {
    const NcclResult result = nccl.async_error(comm, &state);
    if (result != NcclResult::kSuccess) return result;
    std::this_thread::yield();
  }
  return state;
}

TEST(NcclFunctions, SendOnTheCurrentStream) {
  const auto plugin = open_plugin(RANNC_CUDA_PLUGIN);
  if (!plugin.ok()) GTEST_SKIP() << plugin.diagnostic().message;
  if ((*plugin)->nccl() == nullptr) GTEST_SKIP() << "the plug-in was built without NCCL";
  const NcclTable& nccl = *(*plugin)->nccl();
  const auto device = devices_of(**plugin)[0];
  const auto scope = device->enter(Stream::kCompute);

  NcclId id;
  ASSERT_EQ(nccl.get_unique_id(&id), NcclResult::kSuccess);
  NcclComm comm = nullptr;
  const NcclResult made = nccl.init_rank(&comm, 1, &id, 0);
  ASSERT_TRUE(made == NcclResult::kSuccess || made == NcclResult::kInProgress) << nccl.error_string(made);
  ASSERT_EQ(settled(nccl, comm), NcclResult::kSuccess) << nccl.last_error(comm);

  const at::Tensor numbers = at::arange(1000, at::kFloat);
  const Value from = device->upload(to_value(numbers)), into = device->allocate(from->spec());
  ASSERT_EQ(nccl.group_start(), NcclResult::kSuccess);
  nccl.send(to_tensor(from).data_ptr(), from->bytes(), 0, comm);
  nccl.receive(to_tensor(into).data_ptr(), into->bytes(), 0, comm);
  const NcclResult sent = nccl.group_end();
  ASSERT_TRUE(sent == NcclResult::kSuccess || sent == NcclResult::kInProgress) << nccl.last_error(comm);
  ASSERT_EQ(settled(nccl, comm), NcclResult::kSuccess) << nccl.last_error(comm);
  EXPECT_TRUE(at::equal(to_tensor(device->download(into)), numbers));

  const NcclResult ended = nccl.finalize(comm);
  ASSERT_TRUE(ended == NcclResult::kSuccess || ended == NcclResult::kInProgress) << nccl.last_error(comm);
  ASSERT_EQ(settled(nccl, comm), NcclResult::kSuccess) << nccl.last_error(comm);
  EXPECT_EQ(nccl.destroy(comm), NcclResult::kSuccess);
}

}  // namespace
}  // namespace rannc::runtime
