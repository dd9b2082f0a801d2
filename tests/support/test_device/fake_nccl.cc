#include "tests/support/test_device/fake_nccl.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

using runtime::NcclComm;
using runtime::NcclId;
using runtime::NcclResult;

constexpr int kPolls = 2;  // for which a call is in progress

struct Communicator;

/// One end of a message.
struct End {
  bool sends = false;
  void* bytes = nullptr;
  size_t size = 0;
  Communicator* comm = nullptr;
  c10::Stream stream;
  std::shared_ptr<PendingWork> work;
};

/// What the ranks of a communicator share.
struct Group {
  std::vector<Communicator*> ranks;
  size_t joined = 0;
  struct Ends {
    std::deque<End> sent, received;
    bool connected = false;
  };
  std::map<std::pair<int, int>, Ends> messages;  // by sender and receiver
};

struct Communicator {
  std::shared_ptr<Group> group;
  int rank = 0;
  int polls_left = kPolls;
  bool in_progress = true;
  NcclResult error = NcclResult::kSuccess;
  std::string detail;
  std::vector<std::shared_ptr<PendingWork>> connecting;
};

Communicator& of(NcclComm comm) { return *static_cast<Communicator*>(comm); }

using DeviceLock = std::lock_guard<std::recursive_mutex>;  // guards all communicators too

std::map<std::string, std::shared_ptr<Group>>& groups() {
  static auto* const groups = new std::map<std::string, std::shared_ptr<Group>>;
  return *groups;
}

std::set<Communicator*>& communicators() {
  static auto* const communicators = new std::set<Communicator*>;
  return *communicators;
}

/// The calls of a group, by thread.
struct Calls {
  int depth = 0;
  struct Call {
    bool sends;
    void* bytes;
    size_t size;
    int peer;
    Communicator* comm;
  };
  std::vector<Call> messages;
};
thread_local Calls calls;

void fail(const End& end, const std::string& detail) {
  end.comm->error = NcclResult::kInvalidUsage;
  end.comm->detail = detail;
  Streams::instance().finish(end.stream, *end.work);
}

void transfer(const End& from, const End& to) {
  if (from.size != to.size) {
    const std::string detail = fmt::format("a message of {} bytes was received as {} bytes", from.size, to.size);
    fail(from, detail);
    return fail(to, detail);
  }
  const DeviceMemory& memory = DeviceMemory::instance();
  std::memcpy(memory.shadow(to.bytes), memory.shadow(from.bytes), from.size);
  Streams& streams = Streams::instance();
  streams.finish(to.stream, *to.work, from.work->clock);
  streams.finish(from.stream, *from.work);  // NCCL may buffer a message: its end says nothing about the receiver
}

void enqueue(const Calls::Call& call) {
  Communicator& comm = *call.comm;
  const auto pair = call.sends ? std::pair(comm.rank, call.peer) : std::pair(call.peer, comm.rank);
  const c10::Stream stream = current_stream(current_device());
  const Touch touch{call.bytes, call.size, !call.sends};
  auto work = Streams::instance().begin_pending(stream, call.sends ? "ncclSend" : "ncclRecv", {touch});
  Group::Ends& ends = comm.group->messages[pair];
  if (!std::exchange(ends.connected, ends.connected || !(call.sends ? ends.received : ends.sent).empty())) {
    comm.connecting.push_back(work);
  }
  (call.sends ? ends.sent : ends.received).push_back({call.sends, call.bytes, call.size, &comm, stream, work});
  while (!ends.sent.empty() && !ends.received.empty()) {
    transfer(ends.sent.front(), ends.received.front());
    ends.sent.pop_front();
    ends.received.pop_front();
  }
}

NcclResult run(const std::vector<Calls::Call>& messages) {
  const DeviceLock lock(device_mutex());
  std::set<Communicator*> used;
  for (const Calls::Call& call : messages) used.insert(call.comm);
  for (Communicator* comm : used) {
    if (comm->error != NcclResult::kSuccess) return comm->error;
    if (comm->in_progress) {
      comm->detail = "the communicator is in progress";
      return NcclResult::kInvalidArgument;
    }
  }
  for (Communicator* comm : used) {
    comm->in_progress = true;
    comm->polls_left = kPolls;
  }
  for (const Calls::Call& call : messages) enqueue(call);
  return NcclResult::kInProgress;
}

NcclResult add(const Calls::Call& call) {
  if (calls.depth == 0) return run({call});
  calls.messages.push_back(call);
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(NcclId* id) {
  const DeviceLock lock(device_mutex());
  static uint64_t made = 0;
  fmt::format_to_n(id->bytes, NcclId::kBytes - 1, "communicator {}", made++);
  return NcclResult::kSuccess;
}

NcclResult init_rank(NcclComm* comm, int ranks, const NcclId* id, int rank) {
  const DeviceLock lock(device_mutex());
  std::shared_ptr<Group>& group = groups()[id->bytes];
  if (group == nullptr) group = std::make_shared<Group>();
  group->ranks.resize(static_cast<size_t>(ranks));
  Communicator*& place = group->ranks.at(static_cast<size_t>(rank));
  if (place != nullptr) return NcclResult::kInvalidArgument;
  place = new Communicator{group, rank};
  communicators().insert(place);
  *comm = place;
  if (++group->joined == group->ranks.size()) groups().erase(id->bytes);
  return NcclResult::kInProgress;
}

bool goes_on(Communicator& comm) {
  if (comm.group->joined < comm.group->ranks.size() || comm.polls_left-- > 0) return true;
  return std::any_of(comm.connecting.begin(), comm.connecting.end(), [](const auto& work) { return !work->is_done(); });
}

NcclResult async_error(NcclComm comm, NcclResult* state) {
  const DeviceLock lock(device_mutex());
  Communicator& own = of(comm);
  *state = own.error;
  if (own.error != NcclResult::kSuccess) return NcclResult::kSuccess;
  own.in_progress = own.in_progress && goes_on(own);
  if (own.in_progress) *state = NcclResult::kInProgress;
  if (!own.in_progress) own.connecting.clear();
  return NcclResult::kSuccess;
}

NcclResult send(const void* from, size_t bytes, int peer, NcclComm comm) {
  return add({true, const_cast<void*>(from), bytes, peer, &of(comm)});
}

NcclResult receive(void* to, size_t bytes, int peer, NcclComm comm) { return add({false, to, bytes, peer, &of(comm)}); }

NcclResult group_start() {
  ++calls.depth;
  return NcclResult::kSuccess;
}

NcclResult group_end() {
  if (--calls.depth > 0) return NcclResult::kSuccess;
  const auto messages = std::exchange(calls.messages, {});
  return messages.empty() ? NcclResult::kSuccess : run(messages);
}

/// Ends the messages of a communicator and frees it.
void end(Communicator& comm) {
  for (auto& [pair, ends] : comm.group->messages) {
    for (auto* queue : {&ends.sent, &ends.received}) {
      for (const End& open : *queue) {
        if (open.comm == &comm) Streams::instance().finish(open.stream, *open.work);
      }
      std::erase_if(*queue, [&](const End& open) { return open.comm == &comm; });
    }
  }
  communicators().erase(&comm);
  delete &comm;
}

NcclResult finalize(NcclComm comm) {
  const DeviceLock lock(device_mutex());
  Communicator& own = of(comm);
  if (own.in_progress) return NcclResult::kInvalidArgument;
  own.in_progress = true;
  own.polls_left = kPolls;
  for (const auto& [pair, ends] : own.group->messages) {
    for (const auto* queue : {&ends.sent, &ends.received}) {
      for (const End& open : *queue) {
        if (open.comm == &own) own.connecting.push_back(open.work);
      }
    }
  }
  return NcclResult::kInProgress;
}

NcclResult destroy(NcclComm comm) {
  const DeviceLock lock(device_mutex());
  if (of(comm).in_progress) return NcclResult::kInvalidArgument;
  end(of(comm));
  return NcclResult::kSuccess;
}

NcclResult abort_messages(NcclComm comm) {
  const DeviceLock lock(device_mutex());
  end(of(comm));
  return NcclResult::kSuccess;
}

const char* error_string(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "no error";
    case NcclResult::kInvalidArgument:
      return "invalid argument";
    case NcclResult::kInvalidUsage:
      return "invalid usage";
    case NcclResult::kRemoteError:
      return "remote error";
    default:
      return "another error";
  }
}

const char* last_error(NcclComm comm) {
  const DeviceLock lock(device_mutex());
  return comm == nullptr ? "" : of(comm).detail.c_str();
}

}  // namespace

void fail_fake_nccl(const std::string& detail) {
  const DeviceLock lock(device_mutex());
  for (Communicator* comm : communicators()) {
    comm->error = NcclResult::kRemoteError;
    comm->detail = detail;
  }
}

const runtime::NcclTable& fake_nccl() {
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
  return table;
}

}  // namespace rannc::testing
