// Calls NCCL with communicators that do not block.
#include "runtime/cuda/nccl_functions.h"

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <algorithm>

namespace rannc::cuda {
namespace {

using runtime::NcclComm;
using runtime::NcclId;
using runtime::NcclResult;

static_assert(NCCL_UNIQUE_ID_BYTES == NcclId::kBytes);
static_assert(static_cast<int>(NcclResult::kSuccess) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::kInvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);

NcclResult ours(ncclResult_t result) { return static_cast<NcclResult>(result); }
ncclComm_t theirs(NcclComm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t current() { return c10::cuda::getCurrentCUDAStream(); }

NcclResult get_unique_id(NcclId* id) {
  ncclUniqueId made;
  const ncclResult_t result = ncclGetUniqueId(&made);
  if (result == ncclSuccess) std::copy_n(made.internal, NcclId::kBytes, id->bytes);
  return ours(result);
}

NcclResult init_rank(NcclComm* comm, int ranks, const NcclId* id, int rank) {
  ncclUniqueId given;
  std::copy_n(id->bytes, NcclId::kBytes, given.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&made, ranks, given, rank, &config);
  *comm = made;
  return ours(result);
}

NcclResult async_error(NcclComm comm, NcclResult* state) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(theirs(comm), &found);
  *state = ours(found);
  return ours(result);
}

NcclResult send(const void* from, size_t bytes, int peer, NcclComm comm) {
  return ours(ncclSend(from, bytes, ncclUint8, peer, theirs(comm), current()));
}

NcclResult receive(void* to, size_t bytes, int peer, NcclComm comm) {
  return ours(ncclRecv(to, bytes, ncclUint8, peer, theirs(comm), current()));
}

NcclResult group_start() { return ours(ncclGroupStart()); }
NcclResult group_end() { return ours(ncclGroupEnd()); }
NcclResult finalize(NcclComm comm) { return ours(ncclCommFinalize(theirs(comm))); }
NcclResult destroy(NcclComm comm) { return ours(ncclCommDestroy(theirs(comm))); }
NcclResult abort_messages(NcclComm comm) { return ours(ncclCommAbort(theirs(comm))); }
const char* error_string(NcclResult result) { return ncclGetErrorString(static_cast<ncclResult_t>(result)); }
const char* last_error(NcclComm comm) { return ncclGetLastError(theirs(comm)); }

}  // namespace

const runtime::NcclTable* nccl_functions() {
  static const runtime::NcclTable table{.get_unique_id = get_unique_id,
                                        .init_rank = init_rank,
                                        .async_error = async_error,
                                        .send = send,
                                        .receive = receive,
                                        .group_start = group_start,
                                        .group_end = group_end,
                                        .finalize = finalize,
                                        .destroy = destroy,
                                        .abort = abort_messages,
                                        .error_string = error_string,
                                        .last_error = last_error};
  return &table;
}

}  // namespace rannc::cuda
