// Devices as processes over c10d's Gloo process groups.
//
// Messages between two processes keep the order in which they were sent (rule S5), so a counter per ordered pair is the
// tag on both sides. An abort is a key in the store: every process watches it with a thread of its own, which wakes
// what waits. A process that dies closes its connections, which ends its peers' waits as well.
#include "runtime/transport_gloo.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/internal/send_queue.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Store = c10::intrusive_ptr<c10d::Store>;
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Clock = std::chrono::steady_clock;

constexpr const char* kAbortKey = "rannc/abort";
constexpr std::chrono::milliseconds kWatchPeriod{100};
constexpr std::chrono::seconds kPatience{10}, kPatienceAfterFailure{1};  // of worker 0 with those that leave after it
constexpr std::chrono::hours kNoLimit{24 * 365};                         // of a send, until somebody waits for it
constexpr size_t kOutstandingSends = 16;                                 // per peer; more wait for the oldest
constexpr size_t kOrderedSumMembers = 4;  // up to here sums are gathered and added in order, beyond that Gloo's ring

// LibTorch's flight recorder is one per process and inserts a group into an unlocked map when it first enqueues work;
// a process may hold the ends of several devices.
std::mutex g_enqueue_mutex;

std::string describe(const MessageKey& key) {
  const char* what = key.direction == Direction::kActivation ? "activation" : "gradient";
  return fmt::format("the {} of route {}, micro-batch {} of step {}", what, key.route, key.micro_batch, key.step);
}

// What the store carries: all of a diagnostic but the word that whoever prints it puts before it.
std::string spoken(const Diagnostic& reason) {
  constexpr std::string_view kWord = "error: ";
  std::string text = reason.str();
  if (const size_t at = text.find(kWord); at != std::string::npos) text.erase(at, kWord.size());
  return text;
}

// The first line: what follows in LibTorch's messages is a stack trace.
std::string first_line(const std::exception& failure) {
  const std::string text = failure.what();
  return text.substr(0, text.find('\n'));
}

Store make_store(const Rendezvous& where, bool serves) {
  c10d::TCPStoreOptions options;
  options.port = where.port;
  options.isServer = serves;
  if (serves && where.listening_socket >= 0) options.masterListenFd = where.listening_socket;
  options.numWorkers = std::nullopt;
  options.waitWorkers = false;
  options.timeout = where.timeout;
  options.multiTenant = true;
  options.useLibUV = false;
  return c10::make_intrusive<c10d::TCPStore>(where.host, options);
}

Group make_group(const Store& store, const std::string& prefix, int rank, int size, const Rendezvous& where) {
  auto options = c10d::ProcessGroupGloo::Options::create(where.timeout);
  const std::string& address = where.interface_address.empty() ? where.host : where.interface_address;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(prefix, store), rank, size,
                                                     options);
}

/// Why the run ended, and what waits meanwhile.
class Watch {
 public:
  explicit Watch(Store store) : store_(std::move(store)), thread_([this] { loop(); }) {}
  ~Watch() { stop(); }

  /// Asks the store no more.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::optional<Diagnostic> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  /// First reason wins, here and in the store.
  void abort(const Diagnostic& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
    }
    const std::string own = spoken(reason);
    std::string text = own;
    try {  // keeps what another process was faster to write
      const std::vector<uint8_t> bytes(text.begin(), text.end());
      const std::vector<uint8_t> kept = store_->compareSet(kAbortKey, std::vector<uint8_t>{}, bytes);
      text.assign(kept.begin(), kept.end());
    } catch (const std::exception&) {  // the store's process is gone: the others see that themselves
    }
    set(text == own ? reason : error(text));
  }

  /// Waits for `work`; an abort wakes it.
  Result<void> wait(const Work& work, const std::string& what, std::chrono::milliseconds timeout) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return *failure_;
      waiting_.insert(work.get());
    }
    const auto start = Clock::now();
    Result<void> result;
    try {
      work->wait(timeout);
    } catch (const std::exception& failed) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      hear();  // who closed the connection may have said why
      result = error(waited >= timeout
                         ? fmt::format("waited {} ms for {}", waited.count(), what)
                         : fmt::format("lost the connection while waiting for {}: {}", what, first_line(failed)));
    }
    const std::lock_guard lock(mutex_);
    waiting_.erase(work.get());
    return failure_ ? Result<void>(*failure_) : result;
  }

 private:
  void set(const Diagnostic& reason) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
    for (c10d::Work* work : waiting_) {
      try {
        work->abort();
      } catch (const std::exception&) {  // collectives cannot be aborted: their time-out ends them
      }
    }
  }

  /// Takes over what another process wrote, if one did. Throws where the store is gone.
  void ask() {
    if (!store_->check({kAbortKey})) return;
    const auto text = store_->get(kAbortKey);
    set(error(std::string(text.begin(), text.end())));
  }
  void hear() {
    try {
      ask();
    } catch (const std::exception&) {  // the loop says that the store is gone
    }
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kWatchPeriod, [this] { return stop_; })) {
      if (failure_) continue;
      lock.unlock();
      try {
        ask();
      } catch (const std::exception& failed) {
        set(error(fmt::format("worker 0, which serves the rendezvous, is gone: {}", first_line(failed))));
      }
      lock.lock();
    }
  }

  Store store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Diagnostic> failure_;
  std::set<c10d::Work*> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

class GlooReceipt : public Receipt {
 public:
  GlooReceipt(Watch& watch, Work work, at::Tensor tensor, std::string what, std::chrono::milliseconds timeout)
      : watch_(watch), tensor_(std::move(tensor)), work_(std::move(work)), what_(std::move(what)), timeout_(timeout) {}
  Result<Value> wait() override {
    RANNC_TRY(watch_.wait(work_, what_, timeout_));
    work_.reset();
    return to_value(std::move(tensor_));
  }

 private:
  Watch& watch_;
  at::Tensor tensor_;  // before the work, which writes to it until it is destroyed
  Work work_;
  std::string what_;
  std::chrono::milliseconds timeout_;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(const Rendezvous& where, Store store, Store watched)
      : where_(where), store_(std::move(store)), watch_(std::move(watched)) {
    group_ = make_group(store_, "rannc/all", static_cast<int>(where.rank), static_cast<int>(where.workers), where);
  }

  ~GlooTransport() override {
    // The store's server leaves last: nobody takes its end for a failure, and all hear why the run failed.
    const bool failed = failure().has_value();
    if (where_.rank != 0) watch_.stop();
    try {
      store_->add("rannc/left", 1);
      const auto end = Clock::now() + (failed ? kPatienceAfterFailure : kPatience);
      while (where_.rank == 0 && store_->add("rannc/left", 0) < where_.workers && Clock::now() < end &&
             failure().has_value() == failed) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } catch (const std::exception&) {
    }
  }

  DeviceId device() const override { return DeviceId(where_.rank); }

  Result<void> send(const MessageKey& key, DeviceId to, Value value) override {
    if (auto reason = failure()) return *reason;
    try {
      SendQueue& queue = queue_to(to);
      RANNC_TRY(queue.await(kOutstandingSends - 1));
      std::vector<at::Tensor> tensors{to_tensor(value).contiguous()};
      Work work = group_->send(tensors, static_cast<int>(to.index()), next_tag(sent_, to));
      queue.push(tensors[0], std::move(work), fmt::format("device {} to take {}", to.index(), describe(key)));
    } catch (const std::exception& failed) {
      return lost(to, first_line(failed));
    }
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    try {
      std::vector<at::Tensor> tensors{at::empty(spec.shape, at::TensorOptions().dtype(to_scalar_type(spec.dtype)))};
      Work work = group_->recv(tensors, static_cast<int>(from.index()), next_tag(received_, from));
      return std::unique_ptr<Receipt>(new GlooReceipt(watch_, std::move(work), tensors[0],
                                                      fmt::format("device {} to send {}", from.index(), describe(key)),
                                                      where_.timeout));
    } catch (const std::exception& failed) {
      return lost(from, first_line(failed));
    }
  }

  Result<Values> all_reduce(const CollectiveKey&, std::span<const DeviceId> members, Values values) override {
    if (auto reason = failure()) return *reason;
    if (members.size() < 2) return values;
    try {
      const Group& group = group_of(members);
      for (Value& value : values) {
        RANNC_ASSIGN(at::Tensor sum, reduce(group, members.size(), to_tensor(value)));
        value = to_value(std::move(sum));
      }
      return values;
    } catch (const std::exception& failed) {
      return failure().value_or(error("a collective failed: " + first_line(failed)));
    }
  }

  Result<void> await_sends(DeviceId to, size_t left) override { return queue_to(to).await(left); }

  Result<void> flush() override {
    for (const auto& [peer, queue] : sends_) RANNC_TRY(queue->await(0));
    return {};
  }

  void abort(const Diagnostic& reason) override { watch_.abort(reason); }
  std::optional<Diagnostic> failure() const override { return watch_.failure(); }

 private:
  SendQueue& queue_to(DeviceId peer) {
    std::unique_ptr<SendQueue>& queue = sends_[peer.index()];
    if (queue) return *queue;
    const auto wait = [this](const Work& work, const std::string& what) { return watch_.wait(work, what, kNoLimit); };
    queue = std::make_unique<SendQueue>(wait, where_.timeout);
    return *queue;
  }

  static int next_tag(std::map<uint32_t, uint32_t>& counters, DeviceId peer) {
    return static_cast<int>(counters[peer.index()]++ & 0x7ffffff);
  }

  Diagnostic lost(DeviceId peer, const std::string& why) {
    return failure().value_or(error(fmt::format("lost the connection to device {}: {}", peer.index(), why)));
  }

  // Sub-groups are made by their members alone, once.
  const Group& group_of(std::span<const DeviceId> members) {
    if (members.size() == where_.workers) return group_;
    const std::vector<DeviceId> key(members.begin(), members.end());
    const auto found = groups_.find(key);
    if (found != groups_.end()) return found->second;
    std::string prefix = "rannc/group";
    int rank = 0;
    for (size_t i = 0; i < key.size(); ++i) {
      prefix += "-" + std::to_string(key[i].index());
      if (key[i] == device()) rank = static_cast<int>(i);
    }
    return groups_.emplace(key, make_group(store_, prefix, rank, static_cast<int>(key.size()), where_)).first->second;
  }

  template <typename Collective>
  static Work enqueue(const Collective& collective) {
    const std::lock_guard lock(g_enqueue_mutex);
    return collective();
  }

  // Half floats are summed in fp32: Gloo has no bf16.
  Result<at::Tensor> reduce(const Group& group, size_t members, const at::Tensor& tensor) {
    const bool narrow = tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
    at::Tensor own = (narrow ? tensor.to(at::kFloat) : tensor.clone()).contiguous();
    if (members > kOrderedSumMembers) {
      std::vector<at::Tensor> tensors{own};
      const Work work = enqueue([&] { return group->allreduce(tensors); });
      RANNC_TRY(watch_.wait(work, "the other members of an all-reduce", where_.timeout));
    } else {
      std::vector<at::Tensor> parts(members);
      for (at::Tensor& part : parts) part = at::empty_like(own);
      std::vector<std::vector<at::Tensor>> outputs{parts};
      std::vector<at::Tensor> inputs{own};
      const Work work = enqueue([&] { return group->allgather(outputs, inputs); });
      RANNC_TRY(watch_.wait(work, "the other members of an all-reduce", where_.timeout));
      own = parts[0];
      for (size_t i = 1; i < members; ++i) own = own.add(parts[i]);
    }
    return narrow ? own.to(tensor.scalar_type()) : own;
  }

  Rendezvous where_;
  Store store_;
  Watch watch_;
  Group group_;
  std::map<std::vector<DeviceId>, Group> groups_;
  std::map<uint32_t, std::unique_ptr<SendQueue>> sends_;  // by peer
  std::map<uint32_t, uint32_t> sent_, received_;          // messages so far by peer
};

}  // namespace

Result<std::unique_ptr<Transport>> join_gloo(const Rendezvous& where) {
  try {
    Store store = make_store(where, where.rank == 0);
    Store watched = make_store(where, false);
    return std::unique_ptr<Transport>(new GlooTransport(where, std::move(store), std::move(watched)));
  } catch (const std::exception& failed) {
    return error(fmt::format("worker {} of {} could not join at {}:{} within {} ms: {}", where.rank, where.workers,
                             where.host, where.port, where.timeout.count(), first_line(failed)));
  }
}

}  // namespace rannc::runtime
