#include "runtime/transport/internal/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::milliseconds kIdRetry{5};
constexpr uint32_t kSpins = 256;  // a call is in progress for some microseconds, a sleep takes at least 50
constexpr std::chrono::microseconds kSettlePeriod{50};
constexpr std::chrono::seconds kEndPatience{5};  // for the other workers, and for messages that nobody awaits any more

/// Lets other threads run until the next look at a communicator, of which `looks` came before.
void pause_after(uint32_t looks) {
  if (looks < kSpins) return std::this_thread::yield();
  std::this_thread::sleep_for(kSettlePeriod);
}

DevicePairs all_pairs(uint32_t devices) {
  DevicePairs pairs;
  for (uint32_t from = 0; from < devices; ++from) {
    for (uint32_t to = 0; to < devices; ++to) {
      if (from != to) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

}  // namespace

Communicators::Communicators(RunMember& run, Device& device, const NcclTable& nccl)
    : run_(run), device_(device), nccl_(nccl) {}

Communicators::~Communicators() {
  const std::vector<NcclComm> open = [&] {
    const std::lock_guard lock(mutex_);
    return open_;
  }();
  if (!open.empty()) await_others();
  for (NcclComm comm : open) close(comm);
}

Result<void> Communicators::connect() {
  const Rendezvous& where = run_.where();
  auto pairs = where.pairs.value_or(all_pairs(where.workers));
  std::sort(pairs.begin(), pairs.end());
  for (const Pair& pair : pairs) {
    if (pair.first == run_.device() || pair.second == run_.device()) RANNC_TRY(connect_pair(pair));
  }
  if (where.workers < 2) return {};
  const Stream stream = message_stream(2 * where.workers);
  RANNC_ASSIGN(sums_, connect_all("sums", stream, where.sum_pairs.value_or(all_pairs(where.workers))));
  RANNC_ASSIGN(pass_sums_,
               connect_all("pass-sums", Stream::kCompute, where.pass_sum_pairs.value_or(all_pairs(where.workers))));
  return {};
}

Result<void> Communicators::connect_pair(const Pair& pair) {
  const bool sends = pair.first == run_.device();
  const DeviceId peer = sends ? pair.second : pair.first;
  const Stream stream = message_stream(2 * peer.index() + (sends ? 0 : 1));
  const std::string name = fmt::format("{}-{}", pair.first.index(), pair.second.index());
  RANNC_ASSIGN(const Channel channel, make(name, 2, sends ? 0 : 1, stream));
  channels_.emplace(pair, channel);
  const auto end = sends ? ChannelMessage::End::kSend : ChannelMessage::End::kReceive;
  return connect_ranks(channel, {{end, nullptr, 1, sends ? 1 : 0}}, fmt::format("device {} to connect", peer.index()));
}

Result<Channel> Communicators::connect_all(const std::string& name, Stream stream, const DevicePairs& pairs) {
  const uint32_t devices = run_.where().workers;
  RANNC_ASSIGN(const Channel channel,
               make(name, static_cast<int>(devices), static_cast<int>(run_.device().index()), stream));
  std::vector<ChannelMessage> messages;
  for (const auto& [from, to] : pairs) {
    if (from == run_.device())
      messages.push_back({ChannelMessage::End::kSend, nullptr, 1, static_cast<int>(to.index())});
    if (to == run_.device())
      messages.push_back({ChannelMessage::End::kReceive, nullptr, 1, static_cast<int>(from.index())});
  }
  if (messages.empty()) return channel;
  RANNC_TRY(connect_ranks(channel, std::move(messages), "all devices to connect"));
  return channel;
}

Result<Channel> Communicators::make(const std::string& name, int ranks, int rank, Stream stream) {
  const std::string what = fmt::format("the communicator {}", name);
  RANNC_ASSIGN(const NcclId id, exchange_id(name, rank == 0));
  Channel channel{nullptr, stream};
  {
    const auto scope = device_.enter(stream);
    const std::lock_guard lock(mutex_);
    if (aborted_) return aborted();
    const NcclResult result = nccl_.init_rank(&channel.comm, ranks, &id, rank);
    if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) return failed(result, nullptr, what);
    open_.push_back(channel.comm);
  }
  RANNC_TRY(settle(channel.comm, what, run_.where().timeout));
  return channel;
}

Result<NcclId> Communicators::exchange_id(const std::string& name, bool makes) {
  const std::string key = "nccl/" + name;
  NcclId id;
  if (makes) {
    const NcclResult result = nccl_.get_unique_id(&id);
    if (result != NcclResult::kSuccess) return failed(result, nullptr, "the id of a communicator");
    RANNC_TRY(run_.client().set(key, std::string(id.bytes, NcclId::kBytes)));
    return id;
  }
  for (RunningClock clock; clock.now() < run_.where().timeout; std::this_thread::sleep_for(kIdRetry)) {
    if (const auto reason = run_.watch().failure()) return *reason;
    RANNC_ASSIGN(const std::optional<std::string> text, run_.client().get(key));
    if (!text) continue;
    RANNC_CHECK(text->size() == NcclId::kBytes) << "an id of NCCL is stored whole";
    std::copy(text->begin(), text->end(), id.bytes);
    return id;
  }
  return error(fmt::format("waited {} ms for the id of the communicator {}", run_.where().timeout.count(), name));
}

Result<void> Communicators::connect_ranks(const Channel& channel, std::vector<ChannelMessage> messages,
                                          const std::string& what) {
  const auto count = static_cast<int64_t>(messages.size());
  const Value bytes = device_.allocate({ir::DType::kU8, {count}});
  auto* const first = static_cast<char*>(to_tensor(bytes).data_ptr());
  for (size_t i = 0; i < messages.size(); ++i) messages[i].bytes = first + i;
  device_.await(channel.stream, device_.record(Stream::kCompute));
  RANNC_TRY(enqueue(channel, messages, what));
  const EventRef done = device_.record(channel.stream);
  device_.await(Stream::kCompute, done);
  return {};
}

Result<void> Communicators::enqueue(const Channel& channel, std::span<const ChannelMessage> messages,
                                    const std::string& what) {
  {
    const auto scope = device_.enter(channel.stream);
    const std::lock_guard lock(mutex_);
    if (aborted_) return aborted();
    const NcclResult result = call_group(channel, messages);
    if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) return failed(result, channel.comm, what);
  }
  // Until then, the work may not be on the stream, where the caller will record an event.
  return settle(channel.comm, what, run_.where().timeout);
}

NcclResult Communicators::call_group(const Channel& channel, std::span<const ChannelMessage> messages) {
  NcclResult first = nccl_.group_start();
  if (first != NcclResult::kSuccess) return first;
  for (const ChannelMessage& message : messages) {
    const NcclResult result = message.end == ChannelMessage::End::kSend
                                  ? nccl_.send(message.bytes, message.size, message.peer, channel.comm)
                                  : nccl_.receive(message.bytes, message.size, message.peer, channel.comm);
    if (first == NcclResult::kSuccess && result != NcclResult::kInProgress) first = result;
  }
  const NcclResult end = nccl_.group_end();
  return first == NcclResult::kSuccess ? end : first;
}

Result<void> Communicators::settle(NcclComm comm, const std::string& what, std::chrono::milliseconds limit) {
  RunningClock clock;
  for (uint32_t looks = 0;; pause_after(looks++)) {
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) return aborted();
      NcclResult state = NcclResult::kSuccess;
      const NcclResult result = nccl_.async_error(comm, &state);
      if (result != NcclResult::kSuccess) return failed(result, comm, what);
      if (state == NcclResult::kSuccess) return {};
      if (state != NcclResult::kInProgress) return failed(state, comm, what);
    }
    if (clock.now() > limit) return error(fmt::format("waited {} ms for {}", limit.count(), what));
  }
}

Result<void> Communicators::fault(const Channel& channel, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return aborted();
  NcclResult state = NcclResult::kSuccess;
  const NcclResult result = nccl_.async_error(channel.comm, &state);
  if (result != NcclResult::kSuccess) return failed(result, channel.comm, what);
  if (state != NcclResult::kSuccess && state != NcclResult::kInProgress) return failed(state, channel.comm, what);
  return {};
}

void Communicators::abort_all() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (open_.empty()) return;
  // Together, because the end of one may wait for messages of another that precede its own on the device.
  (void)nccl_.group_start();
  for (NcclComm comm : open_) (void)nccl_.abort(comm);
  (void)nccl_.group_end();
  open_.clear();
}

void Communicators::await_others() {
  const std::string key = "nccl/ended";
  auto ended = run_.client().add(key, 1);
  for (RunningClock clock; ended.ok() && clock.now() < kEndPatience; std::this_thread::sleep_for(kIdRetry)) {
    if (*ended >= run_.where().workers || run_.watch().failure()) return;
    ended = run_.client().add(key, 0);
  }
}

const Channel* Communicators::find(DeviceId from, DeviceId to) const {
  const auto found = channels_.find({from, to});
  return found == channels_.end() ? nullptr : &found->second;
}

Diagnostic Communicators::failed(NcclResult result, NcclComm comm, const std::string& what) {
  const char* const detail = nccl_.last_error(comm);
  const bool has_detail = detail != nullptr && *detail != '\0';
  return error(fmt::format("NCCL failed while waiting for {}: {}{}{}", what, nccl_.error_string(result),
                           has_detail ? ": " : "", has_detail ? detail : ""));
}

Diagnostic Communicators::aborted() const {
  return run_.watch().failure().value_or(error("the communicators are aborted"));
}

void Communicators::close(NcclComm comm) {
  const auto call = [&](NcclResult (*function)(NcclComm)) {
    const std::lock_guard lock(mutex_);
    if (std::find(open_.begin(), open_.end(), comm) != open_.end()) return function(comm);
    return NcclResult::kInvalidUsage;  // aborted meanwhile
  };
  const NcclResult result = run_.watch().failure() ? NcclResult::kRemoteError : call(nccl_.finalize);
  const bool ends = result == NcclResult::kSuccess || result == NcclResult::kInProgress;
  const bool ended = ends && settle(comm, "the last messages", kEndPatience).ok();
  (void)call(ended ? nccl_.destroy : nccl_.abort);
  const std::lock_guard lock(mutex_);
  std::erase(open_, comm);
}

}  // namespace rannc::runtime
