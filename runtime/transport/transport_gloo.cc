// A transport between processes over c10d's Gloo process group.
//
// Messages between two processes keep the order in which they were sent (rule S5), so a counter per ordered pair is the
// tag on both sides. Sums are messages too, because c10d's collectives cannot be aborted and do not specify their order
// of addition. Both copy values of other devices to host memory and back. A store on worker 0 tracks which workers are
// alive and why the run ended.
#include "runtime/transport/transport_gloo.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/gloo_group.h"
#include "runtime/transport/internal/no_broken_pipes.h"
#include "runtime/transport/internal/run_watch.h"
#include "runtime/transport/internal/send_queue.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::seconds kPatienceAtEnd{10}, kPatienceAfterFailure{1};  // of worker 0, for the others to leave
constexpr std::chrono::milliseconds kJoinPeriod{10};
constexpr std::chrono::hours kNoLimit{24 * 365};  // of a send, until it is waited for
constexpr size_t kOutstandingSends = 16;          // per peer; further sends wait for the oldest
// Terms of a sum up to this size are sent to every member. Larger terms are split into parts, and each member adds one
// part. For two members, the former sends the same bytes in one exchange instead of two.
constexpr int64_t kWholeTermBytes = 32 << 10;
constexpr uint32_t kTagMask = 0x7ffffff, kSumTag = 0x8000000;

std::string describe(const MessageKey& key) {
  const char* what = key.direction == Direction::kActivation ? "activation" : "gradient";
  return fmt::format("the {} of route {}, micro-batch {} of step {}", what, key.route, key.micro_batch, key.step);
}

class GlooReceipt : public Receipt {
 public:
  GlooReceipt(RunWatch& watch, Device& device, GlooWork work, at::Tensor tensor, std::string what,
              std::chrono::milliseconds timeout)
      : watch_(watch),
        device_(device),
        tensor_(std::move(tensor)),
        work_(std::move(work)),
        what_(std::move(what)),
        timeout_(timeout) {}
  Result<Arrived> wait() override {
    RANNC_TRY(watch_.wait(work_, what_, timeout_));
    work_.reset();
    return Arrived{device_.upload(to_value(std::move(tensor_))), nullptr};
  }

 private:
  RunWatch& watch_;
  Device& device_;
  at::Tensor tensor_;  // declared before the work, which writes to it until destroyed
  GlooWork work_;
  std::string what_;
  std::chrono::milliseconds timeout_;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(const Rendezvous& where, Device& hardware, std::unique_ptr<StoreServer> server,
                std::unique_ptr<StoreClient> client)
      : where_(where), hardware_(hardware), server_(std::move(server)), client_(std::move(client)), watch_(*client_) {}

  /// c10d's exceptions pass through.
  void connect() { group_ = make_gloo_group(*client_, where_); }

  ~GlooTransport() override {
    // The store's server leaves last, so that its end is not mistaken for a failure and all learn why the run failed.
    const bool failed = failure().has_value();
    watch_.stop();
    client_->leave();
    if (server_) server_->await_others(where_.rank, failed ? kPatienceAfterFailure : kPatienceAtEnd);
  }

  DeviceId device() const override { return DeviceId(where_.rank); }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return where_.workers; }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    if (auto reason = failure()) return *reason;
    try {
      RANNC_TRY(await_sends(to, kOutstandingSends - 1));
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{to_tensor(hardware_.download(value)).contiguous()};
      GlooWork work = group_->send(tensors, static_cast<int>(to.index()), next_tag(sent_, to));
      queue_to(to).push(tensors[0], std::move(work), fmt::format("device {} to take {}", to.index(), describe(key)),
                        sent);
    } catch (const std::exception& failed) {
      return lost(to, plain(failed));
    }
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    try {
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{at::empty(spec.shape, at::TensorOptions().dtype(to_scalar_type(spec.dtype)))};
      GlooWork work = group_->recv(tensors, static_cast<int>(from.index()), next_tag(received_, from));
      return std::unique_ptr<Receipt>(new GlooReceipt(watch_, hardware_, std::move(work), tensors[0],
                                                      fmt::format("device {} to send {}", from.index(), describe(key)),
                                                      where_.timeout));
    } catch (const std::exception& failed) {
      return lost(from, plain(failed));
    }
  }

  Result<Values> all_reduce(const CollectiveKey&, std::span<const DeviceId> members, Values values) override {
    if (auto reason = failure()) return *reason;
    if (members.size() < 2) return values;
    try {
      for (Value& value : values) {
        const bool on_host = to_tensor(value).is_cpu();
        RANNC_ASSIGN(at::Tensor sum, reduce(members, to_tensor(hardware_.download(value))));
        value = to_value(std::move(sum));
        if (!on_host) value = hardware_.upload(value);
      }
      return values;
    } catch (const std::exception& failed) {
      return watch_.explained(error("a sum over devices failed: " + plain(failed)));
    }
  }

  Result<void> await_sends(DeviceId to, size_t left) override {
    const Result<void> taken = queue_to(to).await(left);
    return taken.ok() ? taken : Result<void>(watch_.explained(taken.diagnostic()));
  }

  Result<void> flush() override {
    for (const auto& [peer, queue] : sends_) RANNC_TRY(await_sends(DeviceId(peer), 0));
    return {};
  }

  void abort(const Diagnostic& reason) override { watch_.abort(reason); }
  std::optional<Diagnostic> failure() const override { return watch_.failure(); }

 private:
  SendQueue& queue_to(DeviceId peer) {
    std::unique_ptr<SendQueue>& queue = sends_[peer.index()];
    if (queue) return *queue;
    const auto wait = [this](const GlooWork& work, const std::string& what) {
      return watch_.wait(work, what, kNoLimit);
    };
    queue = std::make_unique<SendQueue>(wait, where_.timeout);
    return *queue;
  }

  static int next_tag(std::map<uint32_t, uint32_t>& counters, DeviceId peer) {
    return static_cast<int>(counters[peer.index()]++ & kTagMask);
  }

  Diagnostic lost(DeviceId peer, const std::string& why) {
    return watch_.explained(error(fmt::format("lost the connection to device {}: {}", peer.index(), why)));
  }

  /// Pending messages between this device and the other members of a sum.
  class Exchange {
   public:
    explicit Exchange(GlooTransport& transport) : transport_(transport) {}
    void send(DeviceId to, const at::Tensor& tensor) {
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{tensor};
      const int tag = next_tag(transport_.sent_terms_, to) | static_cast<int>(kSumTag);
      GlooWork work = transport_.group_->send(tensors, static_cast<int>(to.index()), tag);
      pending_.push_back({tensor, std::move(work), what("take its part of", to)});
    }
    void receive(DeviceId from, const at::Tensor& into) {
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{into};
      const int tag = next_tag(transport_.received_terms_, from) | static_cast<int>(kSumTag);
      GlooWork work = transport_.group_->recv(tensors, static_cast<int>(from.index()), tag);
      pending_.push_back({into, std::move(work), what("send its part of", from)});
    }
    Result<void> finish() {
      for (const Pending& part : pending_)
        RANNC_TRY(transport_.watch_.wait(part.work, part.what, transport_.where_.timeout));
      return {};
    }

   private:
    struct Pending {
      at::Tensor tensor;  // declared before the work, which uses it until destroyed
      GlooWork work;
      std::string what;
    };
    static std::string what(const char* does, DeviceId peer) {
      return fmt::format("device {} to {} a sum over devices", peer.index(), does);
    }
    GlooTransport& transport_;
    std::vector<Pending> pending_;
  };

  /// Returns the sum over `members` in their order, bit-identical on every member.
  Result<at::Tensor> reduce(std::span<const DeviceId> members, const at::Tensor& tensor) {
    if (tensor.numel() == 0) return tensor;
    at::Tensor own = tensor.contiguous().view(-1);
    at::Tensor sum;
    if (static_cast<int64_t>(own.nbytes()) <= kWholeTermBytes) {
      RANNC_ASSIGN(sum, sum_of_parts(members, [&](size_t) { return own; }));
    } else {
      const auto count = static_cast<int64_t>(members.size());
      const auto part_of = [count](const at::Tensor& whole, size_t member) {
        const auto i = static_cast<int64_t>(member);
        return whole.slice(0, i * whole.numel() / count, (i + 1) * whole.numel() / count);
      };
      RANNC_ASSIGN(const at::Tensor part, sum_of_parts(members, [&](size_t member) { return part_of(own, member); }));
      sum = at::empty_like(own);
      RANNC_TRY(gather(members, part, [&](size_t member) { return part_of(sum, member); }));
    }
    return sum.view(tensor.sizes());
  }

  /// Sends `part_for(i)` to member i and returns the sum of the parts received, in the order of `members`.
  template <class PartFor>
  Result<at::Tensor> sum_of_parts(std::span<const DeviceId> members, const PartFor& part_for) {
    Exchange exchange(*this);
    const auto self = static_cast<size_t>(std::find(members.begin(), members.end(), device()) - members.begin());
    RANNC_CHECK(self < members.size()) << "a device takes part in the sums that it is a member of";
    std::vector<at::Tensor> parts(members.size());
    parts[self] = part_for(self);
    for (size_t i = 0; i < members.size(); ++i) {
      if (i == self) continue;
      parts[i] = at::empty_like(parts[self]);
      exchange.receive(members[i], parts[i]);
      exchange.send(members[i], part_for(i));
    }
    RANNC_TRY(exchange.finish());
    return sum_in_order(parts);
  }

  /// Sends `own` to all members and stores member i's part at `place_of(i)`.
  template <class PlaceOf>
  Result<void> gather(std::span<const DeviceId> members, const at::Tensor& own, const PlaceOf& place_of) {
    Exchange exchange(*this);
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] == device()) {
        place_of(i).copy_(own);
      } else {
        exchange.receive(members[i], place_of(i));
        exchange.send(members[i], own);
      }
    }
    return exchange.finish();
  }

  Rendezvous where_;
  Device& hardware_;
  std::unique_ptr<StoreServer> server_;  // only on worker 0
  std::unique_ptr<StoreClient> client_;
  RunWatch watch_;
  GlooGroup group_;
  std::map<uint32_t, std::unique_ptr<SendQueue>> sends_;      // by peer
  std::map<uint32_t, uint32_t> sent_, received_;              // number of messages so far, by peer
  std::map<uint32_t, uint32_t> sent_terms_, received_terms_;  // the same for sums
};

Result<int> listening_socket(const Rendezvous& where) {
  if (where.listening_socket >= 0) return where.listening_socket;
  return listen_on(where.torch_store ? 0 : where.port);
}

/// Waits until all workers have joined.
Result<void> await_all(StoreClient& client, const Rendezvous& where) {
  for (RunningClock clock;; std::this_thread::sleep_for(kJoinPeriod)) {
    RANNC_ASSIGN(const RunState state, client.beat());
    if (!state.failure.empty()) return error(state.failure);
    if (state.present == where.workers) return {};
    if (clock.now() > where.timeout) {
      RANNC_ASSIGN(const std::string first, client.fail("nothing was heard from worker " + state.missing));
      return error(first);
    }
  }
}

Result<std::unique_ptr<Transport>> join(const Rendezvous& where, Device& device) {
  std::unique_ptr<StoreServer> server;
  uint16_t port = where.port;
  if (where.rank == 0) {
    RANNC_ASSIGN(const int socket, listening_socket(where));
    port = port_of(socket);
    server = std::make_unique<StoreServer>(socket, where.workers, where.timeout);
  }
  if (where.torch_store) {
    RANNC_ASSIGN(port, port_by_torch_store(where, port));
  }
  RANNC_ASSIGN(auto client, StoreClient::join(where.host, port, where.rank, where.workers, where.timeout));
  if (const Result<void> all = await_all(*client, where); !all.ok()) {
    client->leave();
    if (server) server->await_others(where.rank, kPatienceAfterFailure);
    return all.diagnostic();
  }
  auto transport = std::make_unique<GlooTransport>(where, device, std::move(server), std::move(client));
  try {
    transport->connect();
  } catch (const std::exception& failed) {
    transport->abort(error(plain(failed)));
    return *transport->failure();
  }
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace

Result<std::unique_ptr<Transport>> join_gloo(const Rendezvous& where, Device& device) {
  auto joined = join(where, device);
  if (joined.ok()) return joined;
  return error(fmt::format("worker {} of {} could not join at {}:{} within {} ms: {}", where.rank, where.workers,
                           where.host, where.port, where.timeout.count(), joined.diagnostic().message));
}

}  // namespace rannc::runtime
