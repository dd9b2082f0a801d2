/// The functions of NCCL's C API that the runtime calls, as a table that a fake can fill.
#pragma once

#include <cstddef>

namespace rannc::runtime {

/// Names a communicator before it exists. Its first rank makes it and passes it to the others.
struct NcclId {
  static constexpr size_t kBytes = 128;
  char bytes[kBytes] = {};
};

/// NCCL's result codes. Those without a name here are errors too.
enum class NcclResult : int {
  kSuccess = 0,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};

/// Opaque, as `ncclComm_t`.
using NcclComm = void*;

/// Functions of the same names in NCCL, of which the contracts are. Communicators do not block: a call on one may
/// return `kInProgress`, and no other call may use it until `async_error` reports another state. Functions work on the
/// current device and stream of the calling thread. Messages are bytes.
struct NcclTable {
  NcclResult (*get_unique_id)(NcclId* id) = nullptr;
  NcclResult (*init_rank)(NcclComm* comm, int ranks, const NcclId* id, int rank) = nullptr;
  NcclResult (*async_error)(NcclComm comm, NcclResult* state) = nullptr;
  NcclResult (*send)(const void* from, size_t bytes, int peer, NcclComm comm) = nullptr;
  NcclResult (*receive)(void* to, size_t bytes, int peer, NcclComm comm) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*finalize)(NcclComm comm) = nullptr;
  NcclResult (*destroy)(NcclComm comm) = nullptr;
  NcclResult (*abort)(NcclComm comm) = nullptr;  ///< also frees the communicator
  const char* (*error_string)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;  ///< details, which may be empty
};

}  // namespace rannc::runtime
