// A transport between processes over c10d's Gloo process group.
//
// Messages between two processes keep the order in which they were sent (rule S5), so a counter per ordered pair is the
// tag on both sides. Sums are messages too, because c10d's collectives cannot be aborted and do not specify their order
// of addition. Messages copy values of other devices to host memory and back.
#include "runtime/transport/transport_gloo.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/gloo_transport.h"
#include "runtime/transport/internal/no_broken_pipes.h"
#include "runtime/transport/internal/send_queue.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::hours kNoLimit{24 * 365};  // of a send, until it is waited for
constexpr size_t kOutstandingSends = 16;          // per peer; further sends wait for the oldest

// The highest bits of a tag are its kind: messages, sums within passes, terms and totals. The lowest ones count the
// messages of a kind to a peer. Sums have a digest of their key between them, so that different ones never meet.
enum class TagKind : uint32_t { kMessages, kPassSums, kTerms, kTotals };
constexpr uint32_t kKindShift = 29, kMessageMask = (1U << kKindShift) - 1, kDigestShift = 12;

uint32_t digest(const CollectiveKey& key) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const uint64_t word : {key.step, static_cast<uint64_t>(key.kind), uint64_t{key.index}, uint64_t{key.part}})
    hash = (hash ^ word) * 0x100000001b3;
  return static_cast<uint32_t>(hash ^ hash >> 32);
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
    const Progress::Waiting waiting(watch_.progress());
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

class GlooTransport final : public ExchangeTransport {
 public:
  /// c10d's exceptions pass through.
  GlooTransport(std::shared_ptr<RunMember> run, Device& hardware)
      : ExchangeTransport(run->where().timeout),
        run_(std::move(run)),
        where_(run_->where()),
        watch_(run_->watch()),
        hardware_(hardware),
        group_(make_gloo_group(run_->client(), where_)) {}
  ~GlooTransport() override {
    stop_sums();
    run_->leave();
  }

  DeviceId device() const override { return DeviceId(where_.rank); }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return where_.workers; }
  Progress* progress() const override { return where_.progress.get(); }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    if (auto reason = failure()) return *reason;
    try {
      RANNC_TRY(await_sends(to, kOutstandingSends - 1));
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{to_tensor(hardware_.download(value)).contiguous()};
      count_message(to, tensors[0].nbytes());
      GlooWork work = send(tensors, to, next_tag(sent_, to));
      queue_to(to).push(tensors[0], std::move(work), fmt::format("device {} to take {}", to.index(), message_text(key)),
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
      std::vector<at::Tensor> tensors{at::empty(spec.shape, at::TensorOptions().dtype(scalar_type(spec.dtype)))};
      GlooWork work = receive(tensors, from, next_tag(received_, from));
      return std::unique_ptr<Receipt>(
          new GlooReceipt(watch_, hardware_, std::move(work), tensors[0],
                          fmt::format("device {} to send {}", from.index(), message_text(key)), where_.timeout));
    } catch (const std::exception& failed) {
      return lost(from, plain(failed));
    }
  }

  std::unique_ptr<SumExchange> begin_exchange(const ExchangeOf& which) override {
    return std::make_unique<Exchange>(*this, which);
  }

  Result<void> await_sends(DeviceId to, size_t left) override {
    const Progress::Waiting waiting(progress());
    const Result<void> taken = queue_to(to).await(left);
    return taken.ok() ? taken : Result<void>(watch_.explained(taken.diagnostic()));
  }

  Result<void> flush() override {
    for (const auto& [peer, queue] : sends_) RANNC_TRY(await_sends(DeviceId(peer), 0));
    return {};
  }

  void abort(const Diagnostic& reason) override { watch_.abort(reason); }
  std::optional<Diagnostic> failure() const override { return watch_.failure(); }

 protected:
  Diagnostic explained(const Diagnostic& seen) override { return watch_.explained(seen); }

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

  using Counters = std::map<uint32_t, uint32_t>;  // number of messages so far, by peer
  static int next_tag(Counters& counters, DeviceId peer) {
    return static_cast<int>(counters[peer.index()]++ & kMessageMask);
  }

  // c10d counts calls without a lock.
  GlooWork send(std::vector<at::Tensor>& tensors, DeviceId to, int tag) {
    const std::lock_guard lock(group_mutex_);
    return group_->send(tensors, static_cast<int>(to.index()), tag);
  }
  GlooWork receive(std::vector<at::Tensor>& tensors, DeviceId from, int tag) {
    const std::lock_guard lock(group_mutex_);
    return group_->recv(tensors, static_cast<int>(from.index()), tag);
  }

  Diagnostic lost(DeviceId peer, const std::string& why) {
    return watch_.explained(error(fmt::format("lost the connection to device {}: {}", peer.index(), why)));
  }

  /// Pending messages between this device and the other members of a sum.
  class Exchange final : public SumExchange {
   public:
    Exchange(GlooTransport& transport, const ExchangeOf& which)
        : transport_(transport),
          background_(which.background),
          kind_(which.within_pass()               ? TagKind::kPassSums
                : which.phase == SumPhase::kTerms ? TagKind::kTerms
                                                  : TagKind::kTotals),
          digest_(digest(which.key)) {}
    void send(DeviceId to, const at::Tensor& tensor) override {
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{tensor};
      transport_.count_term(to, tensor.nbytes());
      GlooWork work = transport_.send(tensors, to, next_tag(transport_.sent_terms_, to));
      pending_.push_back({tensor, std::move(work), what("take its part of", to)});
    }
    void receive(DeviceId from, const at::Tensor& into) override {
      const NoBrokenPipes guard;
      std::vector<at::Tensor> tensors{into};
      GlooWork work = transport_.receive(tensors, from, next_tag(transport_.received_terms_, from));
      pending_.push_back({into, std::move(work), what("send its part of", from)});
    }
    Result<void> finish() override {
      if (background_ != nullptr) return finish_in_background();
      const Progress::Waiting waiting(transport_.progress());
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
    Result<void> finish_in_background() {
      for (const Pending& part : pending_) {
        const BackgroundWait::Scope scope(*background_, part.what, [&] { part.work->abort(); });
        RANNC_TRY(transport_.watch_.wait(part.work, part.what, kNoLimit));
        if (background_->ended()) return BackgroundWait::ended_error();
      }
      return {};
    }
    int next_tag(std::array<Counters, 3>& counters, DeviceId peer) const {
      constexpr uint32_t kCountMask = (1U << kDigestShift) - 1;
      const auto kind = static_cast<uint32_t>(kind_);
      const uint32_t count = counters[kind - 1][peer.index()]++ & kCountMask;
      return static_cast<int>(kind << kKindShift | (digest_ << kDigestShift & kMessageMask) | count);
    }
    static std::string what(const char* does, DeviceId peer) {
      return fmt::format("device {} to {} a sum over devices", peer.index(), does);
    }
    GlooTransport& transport_;
    BackgroundWait* const background_;
    const TagKind kind_;
    const uint32_t digest_;
    std::vector<Pending> pending_;
  };

  const std::shared_ptr<RunMember> run_;
  const Rendezvous& where_;
  RunWatch& watch_;
  Device& hardware_;
  GlooGroup group_;
  std::mutex group_mutex_;
  std::map<uint32_t, std::unique_ptr<SendQueue>> sends_;  // by peer
  Counters sent_, received_;
  std::array<Counters, 3> sent_terms_, received_terms_;  // by kind of sum
};

}  // namespace

std::unique_ptr<ExchangeTransport> connect_gloo(std::shared_ptr<RunMember> run, Device& device) {
  return std::make_unique<GlooTransport>(std::move(run), device);
}

Result<std::unique_ptr<Transport>> join_gloo(const Rendezvous& where, Device& device) {
  return join_run(where, [&](const auto& run) -> Result<std::unique_ptr<Transport>> {
    return std::unique_ptr<Transport>(connect_gloo(run, device));
  });
}

}  // namespace rannc::runtime
