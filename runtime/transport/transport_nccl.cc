// A transport between processes with a GPU each, over NCCL's point-to-point messages.
//
// The host enqueues messages and goes on. Each direction of each pair has a communicator and a stream of its own, on
// which messages keep the order in which they were sent (rule S5). A message waits on the device for the value or the
// memory that it uses, and the compute stream waits for the message before it reads the value or frees the memory. The
// host waits at the end of a step alone. A thread limits how long messages wait for other devices, since the host may
// be in a call of the device that does not return before (`MessageWatch`).
//
// Sums are messages too, because NCCL's collectives do not specify their order of addition. Sums of values in host
// memory go over Gloo.
#include "runtime/transport/transport_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "runtime/execute/now.h"
#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/before_free.h"
#include "runtime/transport/internal/communicators.h"
#include "runtime/transport/internal/gloo_transport.h"
#include "runtime/transport/internal/message_watch.h"
#include "runtime/transport/internal/ordered_sum.h"

namespace rannc::runtime {

namespace {

/// A message that is enqueued. Its memory belongs to the compute stream, which waits for the message before the last
/// reference is gone.
class HeldMessage {
 public:
  HeldMessage(Device& device, Value value, EventRef done)
      : device_(device), value_(std::move(value)), done_(std::move(done)) {}
  ~HeldMessage() {
    if (value_ != nullptr) before_free([&] { device_.await(Stream::kCompute, done_); });
  }
  HeldMessage(const HeldMessage&) = delete;
  HeldMessage& operator=(const HeldMessage&) = delete;

  const EventRef& done() const { return done_; }
  /// Leaves the wait to the caller.
  Arrived take() { return {std::move(value_), done_}; }

 private:
  Device& device_;
  Value value_;
  const EventRef done_;
};

class NcclReceipt final : public Receipt {
 public:
  NcclReceipt(RunWatch& watch, std::unique_ptr<HeldMessage> message) : watch_(watch), message_(std::move(message)) {}
  Result<Arrived> wait() override {
    if (auto reason = watch_.failure()) return *reason;
    return message_->take();
  }

 private:
  RunWatch& watch_;
  std::unique_ptr<HeldMessage> message_;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<RunMember> run, Device& hardware, const NcclTable& nccl)
      : run_(std::move(run)),
        run_watch_(run_->watch()),
        hardware_(hardware),
        communicators_(*run_, hardware, nccl),
        message_watch_(hardware, communicators_, run_->where().timeout,
                       [this](const Diagnostic& reason) { run_watch_.abort(reason); }) {
    run_watch_.on_failure([this] { communicators_.abort_all(); });
  }
  ~NcclTransport() override { run_watch_.on_failure({}); }

  /// Connects this worker with the others. A failure ends the run.
  Result<void> connect() {
    try {
      const Result<void> connected = communicators_.connect();
      if (connected.ok()) host_ = connect_gloo(run_, cpu());
      if (!connected.ok()) abort(connected.diagnostic());
    } catch (const std::exception& failed) {
      abort(error(plain(failed)));
    }
    if (auto reason = failure()) return *reason;
    return {};
  }

  DeviceId device() const override { return run_->device(); }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return run_->where().workers; }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    if (auto reason = failure()) return *reason;
    const Channel* const channel = communicators_.to(to);
    if (channel == nullptr) return no_channel(key, device(), to);
    const std::string what = fmt::format("device {} to take {}", to.index(), message_text(key));
    const at::Tensor tensor = to_tensor(value).contiguous();
    counted_[to].messages += tensor.nbytes();
    if (tensor.nbytes() == 0) return {};
    RANNC_ASSIGN(EventRef done,
                 enqueue(*channel, {{ChannelMessage::End::kSend, tensor.data_ptr(), tensor.nbytes(), 1}}, what));
    Sent& queue = sent_[to];
    while (!queue.empty() && !queue.front().held && hardware_.is_reached(queue.front().message->done()))
      queue.pop_front();
    queue.push_back({std::make_unique<HeldMessage>(hardware_, to_value(tensor), std::move(done)),
                     sent == SentValue::kHeldUntilAwaited});
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    const Channel* const channel = communicators_.from(from);
    if (channel == nullptr) return no_channel(key, from, device());
    const std::string what = fmt::format("device {} to send {}", from.index(), message_text(key));
    Value value = hardware_.allocate(spec);
    EventRef done;
    if (spec.bytes() > 0) {
      void* const bytes = to_tensor(value).data_ptr();
      RANNC_ASSIGN(done, enqueue(*channel, {{ChannelMessage::End::kReceive, bytes, spec.bytes(), 0}}, what));
    }
    auto message = std::make_unique<HeldMessage>(hardware_, std::move(value), std::move(done));
    return std::unique_ptr<Receipt>(std::make_unique<NcclReceipt>(run_watch_, std::move(message)));
  }

  /// Leaves the values alone.
  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) override {
    for (Value& value : values) value = to_value(to_tensor(value).clone());
    RANNC_ASSIGN(const auto sum, begin_all_reduce(key, members, std::move(values)));
    return sum->wait();
  }

  Result<std::unique_ptr<PendingSum>> begin_all_reduce(const CollectiveKey& key, std::span<const DeviceId> members,
                                                       Values values) override {
    if (auto reason = failure()) return *reason;
    auto sum = std::make_unique<NcclSum>(*this, values.size());
    Values on_host, on_device;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_cpu = to_tensor(values[i]).is_cpu();
      (is_cpu ? sum->on_host : sum->on_device).push_back(i);
      (is_cpu ? on_host : on_device).push_back(std::move(values[i]));
    }
    if (!on_host.empty()) {
      RANNC_ASSIGN(sum->host_sum, host_->begin_all_reduce(key, members, std::move(on_host)));
    }
    if (!on_device.empty()) {
      const std::vector<at::Tensor> terms = tensors_of(on_device);
      RANNC_ASSIGN(sum->device_sum, enqueue_sum(key, terms, [&](const BeginExchange& begin) {
                     return OrderedSum::all_reduce(members, device(), terms, terms, begin);
                   }));
    }
    return std::unique_ptr<PendingSum>(std::move(sum));
  }

  Result<std::unique_ptr<PendingSum>> begin_reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                                           std::vector<Values> terms) override {
    if (auto reason = failure()) return *reason;
    if (on_host(terms)) return host_->begin_reduce_scatter(key, members, std::move(terms));
    const TensorsByMember tensors = tensors_of(terms);
    const std::vector<at::Tensor>& own = tensors[position_in(members, device())];
    auto sum = std::make_unique<NcclSum>(*this, own.size());
    for (size_t i = 0; i < own.size(); ++i) sum->on_device.push_back(i);
    RANNC_ASSIGN(sum->device_sum, enqueue_sum(key, own, [&](const BeginExchange& begin) {
                   return OrderedSum::reduce_scatter(members, device(), tensors, begin);
                 }));
    return std::unique_ptr<PendingSum>(std::move(sum));
  }

  Result<void> all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                          const std::vector<Values>& parts) override {
    if (auto reason = failure()) return *reason;
    if (on_host(parts)) return host_->all_gather(key, members, parts);
    EnqueuedSum gathered(hardware_, communicators_.sums());
    RANNC_TRY(gather_parts(members, device(), tensors_of(parts),
                           [&](SumPhase) { return std::make_unique<Exchange>(*this, gathered); }));
    return {};
  }

  /// Makes the compute stream wait, not the host.
  Result<void> await_sends(DeviceId to, size_t left) override {
    if (auto reason = failure()) return *reason;
    Sent& queue = sent_[to];
    while (queue.size() > left) queue.pop_front();
    return {};
  }

  Result<void> flush() override {
    if (auto reason = failure()) return *reason;
    sent_.clear();
    try {
      const Result<void> done = message_watch_.drain([this] { return failure().has_value(); });
      if (!done.ok()) return run_watch_.explained(done.diagnostic());
    } catch (const std::exception& failed) {
      return run_watch_.explained(error(plain(failed)));
    }
    if (auto reason = failure()) return *reason;
    return {};
  }

  SentByPeer sent_bytes() const override {
    SentByPeer all = host_->sent_bytes();
    for (const auto& [peer, bytes] : counted_) all[peer] += bytes;
    return all;
  }

  void abort(const Diagnostic& reason) override { run_watch_.abort(reason); }
  std::optional<Diagnostic> failure() const override { return run_watch_.failure(); }

 private:
  struct SentMessage {
    std::unique_ptr<HeldMessage> message;
    bool held = false;  // until it is awaited
  };
  using Sent = std::deque<SentMessage>;  // oldest first

  /// A collective that is enqueued. The memory that it holds belongs to the compute stream, which waits for the
  /// collective before it is freed.
  struct EnqueuedSum {
    EnqueuedSum(Device& device, const Channel& on) : hardware(device), channel(on) {}
    ~EnqueuedSum() {
      before_free([&] { hardware.await(Stream::kCompute, done); });
    }
    EnqueuedSum(const EnqueuedSum&) = delete;
    EnqueuedSum& operator=(const EnqueuedSum&) = delete;

    Device& hardware;
    const Channel& channel;
    std::vector<at::Tensor> held;  ///< terms, which sums replace
    EventRef done;                 ///< of what is enqueued so far
  };

  /// Values in host memory and others, each with their places in the result.
  class NcclSum final : public PendingSum {
   public:
    NcclSum(NcclTransport& transport, size_t values) : transport_(transport), sums_(values) {}
    Result<Values> wait() override {
      if (auto reason = transport_.failure()) return *reason;
      if (host_sum != nullptr) {
        RANNC_ASSIGN(Values sums, host_sum->wait());
        for (size_t k = 0; k < on_host.size(); ++k) sums_[on_host[k]] = std::move(sums[k]);
      }
      if (device_sum != nullptr) {
        transport_.hardware_.await(Stream::kCompute, device_sum->done);
        for (size_t k = 0; k < on_device.size(); ++k) sums_[on_device[k]] = to_value(device_sum->held[k]);
      }
      finished_ns_ = now_ns();
      device_sum.reset();
      return std::move(sums_);
    }
    int64_t finished_ns() const override { return finished_ns_; }

    std::vector<size_t> on_host, on_device;
    std::unique_ptr<PendingSum> host_sum;
    std::unique_ptr<EnqueuedSum> device_sum;

   private:
    NcclTransport& transport_;
    Values sums_;
    int64_t finished_ns_ = 0;
  };

  /// Enqueues messages and additions of `terms`, which the sums replace. Receive buffers belong to the stream of sums,
  /// which uses them again for the next sum, however many are enqueued.
  template <class Make>
  Result<std::unique_ptr<EnqueuedSum>> enqueue_sum(const CollectiveKey& key, const std::vector<at::Tensor>& terms,
                                                   Make&& make) {
    const bool within_pass = key.kind == CollectiveKey::Kind::kWithinPass;
    const Channel& channel = within_pass ? communicators_.pass_sums() : communicators_.sums();
    auto sum = std::make_unique<EnqueuedSum>(hardware_, channel);
    sum->held = terms;
    hardware_.await(channel.stream, hardware_.record(Stream::kCompute));
    const auto scope = hardware_.enter(channel.stream);
    RANNC_TRY(make([&](SumPhase) { return std::make_unique<Exchange>(*this, *sum); }).run());
    sum->done = hardware_.record(channel.stream);
    return sum;
  }

  static std::vector<at::Tensor> tensors_of(const Values& values) {
    std::vector<at::Tensor> tensors;
    for (const Value& value : values) tensors.push_back(to_tensor(value).contiguous());
    return tensors;
  }
  static TensorsByMember tensors_of(const std::vector<Values>& values) {
    TensorsByMember tensors;
    for (const Values& of_member : values) tensors.push_back(tensors_of(of_member));
    return tensors;
  }
  static bool on_host(const std::vector<Values>& values) {
    const auto found = std::find_if(values.begin(), values.end(), [](const Values& each) { return !each.empty(); });
    return found != values.end() && to_tensor(found->front()).is_cpu();
  }

  static Diagnostic no_channel(const MessageKey& key, DeviceId from, DeviceId to) {
    return error(fmt::format("{} goes from device {} to device {}, which have joined without a pair for messages",
                             message_text(key), from.index(), to.index()));
  }

  /// Enqueues messages after what is on the compute stream now. Returns the event of their end.
  Result<EventRef> enqueue(const Channel& channel, const std::vector<ChannelMessage>& messages,
                           const std::string& what) {
    hardware_.await(channel.stream, hardware_.record(Stream::kCompute));
    EventRef start = hardware_.record(channel.stream);
    const Result<void> enqueued = communicators_.enqueue(channel, messages, what);
    if (!enqueued.ok()) {
      const Diagnostic reason = run_watch_.explained(enqueued.diagnostic());
      // Ends the messages, which may be enqueued, before the caller frees their memory.
      run_watch_.abort(reason);
      hardware_.await(Stream::kCompute, hardware_.record(channel.stream));
      return reason;
    }
    EventRef done = hardware_.record(channel.stream);
    message_watch_.add(channel, {std::move(start), done, what});
    return done;
  }

  /// Messages of a sum, which run as one group.
  class Exchange final : public SumExchange {
   public:
    Exchange(NcclTransport& transport, EnqueuedSum& sum) : transport_(transport), sum_(sum) {}
    void send(DeviceId to, const at::Tensor& tensor) override {
      transport_.counted_[to].sums += tensor.nbytes();
      add(ChannelMessage::End::kSend, tensor, to);
    }
    void receive(DeviceId from, const at::Tensor& into) override { add(ChannelMessage::End::kReceive, into, from); }
    Result<void> finish() override {
      if (messages_.empty()) return {};
      RANNC_ASSIGN(sum_.done, transport_.enqueue(sum_.channel, messages_, "all members of a sum over devices"));
      return {};
    }

   private:
    void add(ChannelMessage::End end, const at::Tensor& tensor, DeviceId peer) {
      messages_.push_back({end, tensor.data_ptr(), tensor.nbytes(), static_cast<int>(peer.index())});
    }
    NcclTransport& transport_;
    EnqueuedSum& sum_;
    std::vector<ChannelMessage> messages_;
  };

  const std::shared_ptr<RunMember> run_;
  RunWatch& run_watch_;
  Device& hardware_;
  std::unique_ptr<Transport> host_;  // sums of values in host memory; leaves the run
  std::map<DeviceId, Sent> sent_;    // by peer
  SentByPeer counted_;
  Communicators communicators_;
  MessageWatch message_watch_;
};

}  // namespace

Result<std::unique_ptr<Transport>> join_nccl(const Rendezvous& where, Device& device) {
  const NcclTable* const nccl = device.nccl();
  if (nccl == nullptr) {
    return error(fmt::format("transport nccl needs GPUs: give --device cuda (the device of worker {} is {})",
                             where.rank, device.address()));
  }
  return join_run(where, [&](const std::shared_ptr<RunMember>& run) -> Result<std::unique_ptr<Transport>> {
    auto transport = std::make_unique<NcclTransport>(run, device, *nccl);
    RANNC_TRY(transport->connect());
    return std::unique_ptr<Transport>(std::move(transport));
  });
}

}  // namespace rannc::runtime
