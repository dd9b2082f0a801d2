#include "tests/support/test_device/fake_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <unordered_set>
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
using Pair = std::pair<int, int>;  // ranks of sender and receiver

/// One end of a message.
struct End {
  bool sends = false;
  void* bytes = nullptr;
  size_t size = 0;
  Pair pair;
  Communicator* comm = nullptr;
  c10::Stream stream;
  std::shared_ptr<PendingWork> work;
};

/// What the ranks of a communicator share.
struct Group {
  std::vector<Communicator*> ranks;
  size_t joined = 0;
  struct Ends {
    std::deque<End> sent, received;                       // that run
    bool sender_called = false, receiver_called = false;  // so that the two are connected
  };
  std::map<Pair, Ends> messages;
};

/// The messages of one call of a communicator.
struct Kernel {
  Communicator* comm = nullptr;
  c10::Stream stream;
  std::vector<End> ends;
  bool started = false;
  bool is_done() const {
    return std::all_of(ends.begin(), ends.end(), [](const End& end) { return end.work->is_done(); });
  }
};

FakeNcclLimits limits;

/// By device: kernels that are not done, in the order of the host's calls.
std::map<c10::DeviceIndex, std::deque<Kernel>>& launched() {
  static auto* const launched = new std::map<c10::DeviceIndex, std::deque<Kernel>>;
  return *launched;
}

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

End enqueue(const Calls::Call& call) {
  Communicator& comm = *call.comm;
  const Pair pair = call.sends ? Pair(comm.rank, call.peer) : Pair(call.peer, comm.rank);
  const c10::Stream stream = current_stream(current_device());
  const Touch touch{call.bytes, call.size, !call.sends};
  auto work = Streams::instance().begin_pending(stream, call.sends ? "ncclSend" : "ncclRecv", {touch});
  Group::Ends& ends = comm.group->messages[pair];
  if (!ends.sender_called || !ends.receiver_called) comm.connecting.push_back(work);
  (call.sends ? ends.sender_called : ends.receiver_called) = true;
  return {call.sends, call.bytes, call.size, pair, &comm, stream, std::move(work)};
}

/// Runs the messages of a kernel whose other ends run.
void start(Kernel& kernel) {
  kernel.started = true;
  for (const End& end : kernel.ends) {
    Group::Ends& ends = kernel.comm->group->messages[end.pair];
    (end.sends ? ends.sent : ends.received).push_back(end);
    while (!ends.sent.empty() && !ends.received.empty()) {
      transfer(ends.sent.front(), ends.received.front());
      ends.sent.pop_front();
      ends.received.pop_front();
    }
  }
}

/// Starts the next kernel of a device that may start, if there is one.
bool start_next(std::deque<Kernel>& kernels) {
  std::erase_if(kernels, [](const Kernel& kernel) { return kernel.is_done(); });
  auto resident = static_cast<size_t>(
      std::count_if(kernels.begin(), kernels.end(), [](const Kernel& kernel) { return kernel.started; }));
  std::unordered_set<c10::Stream> busy;
  for (Kernel& kernel : kernels) {
    const bool first = busy.insert(kernel.stream).second;
    if (kernel.started) continue;
    if (first && resident < limits.resident) {
      start(kernel);
      return true;
    }
    if (limits.launch_order) return false;
  }
  return false;
}

void start_all() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [device, kernels] : launched()) changed = start_next(kernels) || changed;
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
  // In the order in which their communicators were used first. A missing wait throws, and what came before it stays.
  auto& queue = launched()[current_device()];
  const size_t first = queue.size();
  for (const Calls::Call& call : messages) {
    const auto is_own = [&](const Kernel& kernel) { return kernel.comm == call.comm; };
    auto own = std::find_if(queue.begin() + static_cast<std::ptrdiff_t>(first), queue.end(), is_own);
    if (own == queue.end()) own = queue.insert(own, {call.comm, current_stream(current_device()), {}});
    own->ends.push_back(enqueue(call));
  }
  start_all();
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

/// Calls `visit` for the ends of a communicator that are not done.
template <class Visit>
void each_open_end(const Communicator& comm, const Visit& visit) {
  for (const auto& [device, kernels] : launched()) {
    for (const Kernel& kernel : kernels) {
      for (const End& end : kernel.ends) {
        if (kernel.comm == &comm && !end.work->is_done()) visit(end);
      }
    }
  }
}

/// Ends the messages of a communicator and frees it.
void end(Communicator& comm) {
  each_open_end(comm, [](const End& open) { Streams::instance().finish(open.stream, *open.work); });
  for (auto& [pair, ends] : comm.group->messages) {
    for (auto* queue : {&ends.sent, &ends.received})
      std::erase_if(*queue, [&](const End& open) { return open.comm == &comm; });
  }
  for (auto& [device, kernels] : launched())
    std::erase_if(kernels, [&](const Kernel& kernel) { return kernel.comm == &comm; });
  communicators().erase(&comm);
  delete &comm;
  start_all();
}

NcclResult finalize(NcclComm comm) {
  const DeviceLock lock(device_mutex());
  Communicator& own = of(comm);
  if (own.in_progress) return NcclResult::kInvalidArgument;
  own.in_progress = true;
  own.polls_left = kPolls;
  each_open_end(own, [&](const End& open) { own.connecting.push_back(open.work); });
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

void limit_fake_nccl(const FakeNcclLimits& given) {
  const DeviceLock lock(device_mutex());
  limits = given;
}

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
