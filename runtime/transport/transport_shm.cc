// A transport between processes of one machine, over rings in shared memory.
//
// A receive allocates its tensor when it is posted, and a sent tensor is held until its send is awaited, as over Gloo.
// Memory that a plan counts is therefore that of tensors. The rings, which hold bytes in transit, have a fixed size.
#include "runtime/transport/transport_shm.h"

#include <fmt/format.h>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/shm_transport.h"

namespace rannc::runtime {

namespace {

/// A digest of element type and shape.
uint32_t digest(const TensorSpec& spec) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  add(static_cast<uint64_t>(spec.dtype));
  for (const int64_t extent : spec.shape) add(static_cast<uint64_t>(extent));
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

MessageHead head_of(const MessageKey& key, const TensorSpec& spec) {
  return {.bytes = spec.bytes(),
          .step = key.step,
          .route = key.route,
          .micro_batch = key.micro_batch,
          .direction = static_cast<uint32_t>(key.direction),
          .type = digest(spec)};
}

// In `direction`, after those of messages.
constexpr uint32_t kCollective = 0x100;

MessageHead head_of(const ExchangeOf& which, size_t bytes) {
  return {.bytes = bytes,
          .step = which.key.step,
          .route = which.key.index,
          .micro_batch = which.key.part,
          .direction = kCollective | static_cast<uint32_t>(which.key.kind),
          .type = static_cast<uint32_t>(which.phase)};
}

std::string text_of(const MessageHead& head) {
  if (head.direction >= kCollective) {
    const auto kind = static_cast<CollectiveKey::Kind>(head.direction - kCollective);
    return fmt::format("{} of {}, {} bytes", head.type == 0 ? "terms" : "totals",
                       describe(CollectiveKey{head.step, kind, head.route, head.micro_batch}), head.bytes);
  }
  const MessageKey key{head.step, head.route, head.micro_batch, static_cast<Direction>(head.direction)};
  return fmt::format("{}, {} bytes of type {:08x}", message_text(key), head.bytes, head.type);
}

Diagnostic unexpected(const MessageHead& found, const MessageHead& expected, uint32_t peer) {
  return error(fmt::format("device {} sent {}; expected was {}", peer, text_of(found), text_of(expected)));
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

std::shared_ptr<IncomingMessage> incoming(const MessageHead& head, const at::Tensor& into, std::string what) {
  auto message = std::make_shared<IncomingMessage>();
  message->head = head;
  message->owner = std::make_shared<at::Tensor>(into);
  message->bytes = bytes_of(into);
  message->what = std::move(what);
  return message;
}

class ShmTransport final : public ExchangeTransport {
 public:
  ShmTransport(std::shared_ptr<RunMember> run, ShmLinks links, Device& hardware)
      : ExchangeTransport(run->where().timeout),
        run_(std::move(run)),
        where_(run_->where()),
        watch_(run_->watch()),
        hardware_(hardware),
        links_(std::move(links)),
        pump_(
            links_.bell(), links_.peers(), [this] { return watch_.failure(); }, unexpected, progress()) {}
  ~ShmTransport() override {
    stop_sums();
    run_->leave();
  }

  DeviceId device() const override { return run_->device(); }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return where_.workers; }
  Progress* progress() const override { return where_.progress.get(); }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    if (auto reason = failure()) return *reason;
    const TensorSpec spec = value->spec();
    const at::Tensor tensor = to_tensor(hardware_.download(value)).contiguous();
    count_message(to, tensor.nbytes());
    pump_.send(to.index(), Lane::kMessages,
               {.head = head_of(key, spec),
                .owner = std::make_shared<at::Tensor>(tensor),
                .bytes = bytes_of(tensor),
                .held = sent == SentValue::kHeldUntilAwaited,
                .what = fmt::format("device {} to take {}", to.index(), message_text(key))});
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    const at::Tensor tensor = at::empty(spec.shape, at::TensorOptions().dtype(scalar_type(spec.dtype)));
    const auto message =
        incoming(head_of(key, spec), tensor, fmt::format("device {} to send {}", from.index(), message_text(key)));
    pump_.post(from.index(), Lane::kMessages, message);
    return std::unique_ptr<Receipt>(std::make_unique<ShmReceipt>(*this, message, tensor));
  }

  std::unique_ptr<SumExchange> begin_exchange(const ExchangeOf& which) override {
    return std::make_unique<Exchange>(*this, which);
  }

  Result<void> await_sends(DeviceId to, size_t left) override {
    if (auto reason = failure()) return *reason;
    return checked(pump_.await_taken(to.index(), Lane::kMessages, left, where_.timeout));
  }

  Result<void> flush() override {
    for (uint32_t peer = 0; peer < links_.peers().size(); ++peer) {
      if (links_.peers()[peer].bell != nullptr) RANNC_TRY(await_sends(DeviceId(peer), 0));
    }
    return {};
  }

  void abort(const Diagnostic& reason) override {
    watch_.abort(reason);
    pump_.wake();
  }
  std::optional<Diagnostic> failure() const override { return watch_.failure(); }

 protected:
  Diagnostic explained(const Diagnostic& seen) override { return watch_.explained(seen); }

 private:
  Result<void> checked(const Result<void>& waited, const BackgroundWait* background = nullptr) {
    if (waited.ok() || (background != nullptr && background->ended())) return waited;
    if (auto reason = failure()) return *reason;
    return explained(waited.diagnostic());
  }

  class ShmReceipt final : public Receipt {
   public:
    ShmReceipt(ShmTransport& transport, std::shared_ptr<IncomingMessage> message, at::Tensor tensor)
        : transport_(transport), message_(std::move(message)), tensor_(std::move(tensor)) {}
    Result<Arrived> wait() override {
      RANNC_TRY(transport_.checked(transport_.pump_.await(*message_, transport_.where_.timeout)));
      message_.reset();
      return Arrived{transport_.hardware_.upload(to_value(std::move(tensor_))), nullptr};
    }

   private:
    ShmTransport& transport_;
    std::shared_ptr<IncomingMessage> message_;
    at::Tensor tensor_;
  };

  class Exchange final : public SumExchange {
   public:
    Exchange(ShmTransport& transport, const ExchangeOf& which)
        : transport_(transport),
          which_(which),
          lane_(which.within_pass()               ? Lane::kPassSums
                : which.phase == SumPhase::kTerms ? Lane::kTerms
                                                  : Lane::kTotals) {}
    void send(DeviceId to, const at::Tensor& tensor) override {
      transport_.count_term(to, tensor.nbytes());
      auto owner = std::make_shared<at::Tensor>(tensor);
      sent_.push_back({owner, fmt::format("device {} to take its part of a sum over devices", to.index())});
      transport_.pump_.send(to.index(), lane_,
                            {.head = head_of(which_, tensor.nbytes()),
                             .owner = std::move(owner),
                             .bytes = bytes_of(tensor),
                             .what = sent_.back().what});
    }
    void receive(DeviceId from, const at::Tensor& into) override {
      received_.push_back(incoming(head_of(which_, into.nbytes()), into,
                                   fmt::format("device {} to send its part of a sum over devices", from.index())));
      transport_.pump_.post(from.index(), lane_, received_.back());
    }
    /// The caller may change the tensors afterwards, so they must have left.
    Result<void> finish() override {
      return which_.background == nullptr ? finish(transport_.where_.timeout) : finish(*which_.background);
    }

   private:
    struct Sending {
      std::weak_ptr<const void> owner;
      std::string what;
    };
    template <class Wait>
    Result<void> finish(Wait& wait) {
      MessagePump& pump = transport_.pump_;
      const auto checked = [this](const Result<void>& waited) { return transport_.checked(waited, which_.background); };
      for (const auto& message : received_) RANNC_TRY(checked(pump.await(*message, wait)));
      for (const Sending& each : sent_) RANNC_TRY(checked(pump.await_left(each.owner, each.what, wait)));
      return {};
    }
    ShmTransport& transport_;
    const ExchangeOf which_;
    const Lane lane_;
    std::vector<std::shared_ptr<IncomingMessage>> received_;
    std::vector<Sending> sent_;
  };

  const std::shared_ptr<RunMember> run_;
  const Rendezvous& where_;
  RunWatch& watch_;
  Device& hardware_;
  const ShmLinks links_;
  MessagePump pump_;
};

}  // namespace

std::unique_ptr<ExchangeTransport> connect_shm(std::shared_ptr<RunMember> run, ShmLinks links, Device& device) {
  return std::make_unique<ShmTransport>(std::move(run), std::move(links), device);
}

Result<std::unique_ptr<Transport>> join_shm(const Rendezvous& where, Device& device) {
  return join_run(where, [&](const auto& run) -> Result<std::unique_ptr<Transport>> {
    RANNC_ASSIGN(ShmLinks links, ShmLinks::attach(run->client(), where, [&] { return run->watch().failure(); }));
    for (uint32_t peer = 0; peer < where.workers; ++peer) {
      if (peer == where.rank || links.peers()[peer].bell != nullptr) continue;
      return error(fmt::format(
          "worker {} cannot attach shared memory of worker {}: they run on different hosts or in different network "
          "namespaces; use --transport auto or gloo",
          where.rank, peer));
    }
    return std::unique_ptr<Transport>(connect_shm(run, std::move(links), device));
  });
}

}  // namespace rannc::runtime
