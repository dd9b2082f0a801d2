// Combines the endpoint over shared memory with the endpoint over Gloo of one worker.
#include "runtime/transport/transport_auto.h"

#include "runtime/transport/internal/gloo_transport.h"
#include "runtime/transport/internal/shm_transport.h"

namespace rannc::runtime {

namespace {

/// Runs the messages to each peer over the peer's endpoint.
class SplitExchange final : public SumExchange {
 public:
  using EndOf = std::function<ExchangeTransport&(DeviceId)>;
  SplitExchange(const ExchangeOf& which, EndOf end_of) : which_(which), end_of_(std::move(end_of)) {}

  void send(DeviceId to, const at::Tensor& tensor) override { part(to).send(to, tensor); }
  void receive(DeviceId from, const at::Tensor& into) override { part(from).receive(from, into); }
  Result<void> finish() override {
    for (const auto& [end, part] : parts_) RANNC_TRY(part->finish());
    return {};
  }

 private:
  SumExchange& part(DeviceId peer) {
    ExchangeTransport& end = end_of_(peer);
    for (const auto& [other, part] : parts_) {
      if (other == &end) return *part;
    }
    parts_.emplace_back(&end, end.begin_exchange(which_));
    return *parts_.back().second;
  }

  const ExchangeOf which_;
  EndOf end_of_;
  std::vector<std::pair<ExchangeTransport*, std::unique_ptr<SumExchange>>> parts_;
};

class AutoTransport final : public ExchangeTransport {
 public:
  /// `near[i]`: whether peer i is reached through shared memory.
  AutoTransport(std::shared_ptr<RunMember> run, std::unique_ptr<ExchangeTransport> shm,
                std::unique_ptr<ExchangeTransport> gloo, std::vector<bool> near)
      : ExchangeTransport(run->where().timeout),
        run_(std::move(run)),
        shm_(std::move(shm)),
        gloo_(std::move(gloo)),
        near_(std::move(near)) {}
  ~AutoTransport() override {
    stop_sums();
    run_->leave();
  }

  DeviceId device() const override { return run_->device(); }
  Device& hardware() const override { return shm_->hardware(); }
  uint32_t devices() const override { return run_->where().workers; }
  Progress* progress() const override { return run_->where().progress.get(); }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    return end_of(to).send(key, to, std::move(value), sent);
  }
  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    return end_of(from).receive(key, from, spec);
  }
  std::unique_ptr<SumExchange> begin_exchange(const ExchangeOf& which) override {
    return std::make_unique<SplitExchange>(which, [this](DeviceId peer) -> ExchangeTransport& { return end_of(peer); });
  }
  Result<void> await_sends(DeviceId to, size_t left) override { return end_of(to).await_sends(to, left); }
  Result<void> flush() override {
    RANNC_TRY(shm_->flush());
    return gloo_->flush();
  }
  SentByPeer sent_bytes() const override {
    SentByPeer all = shm_->sent_bytes();
    for (const auto& [peer, bytes] : gloo_->sent_bytes()) all[peer] += bytes;
    return all;
  }
  void abort(const Diagnostic& reason) override { shm_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return run_->watch().failure(); }

 protected:
  Diagnostic explained(const Diagnostic& seen) override { return run_->watch().explained(seen); }

 private:
  ExchangeTransport& end_of(DeviceId peer) { return near_.at(peer.index()) ? *shm_ : *gloo_; }

  const std::shared_ptr<RunMember> run_;
  std::unique_ptr<ExchangeTransport> shm_, gloo_;
  std::vector<bool> near_;
};

}  // namespace

std::unique_ptr<Transport> connect_auto(const std::shared_ptr<RunMember>& run, ShmLinks links, Device& device) {
  std::vector<bool> near;
  for (const PeerRings& peer : links.peers()) near.push_back(peer.bell != nullptr);
  const bool all = links.all_attached();
  auto shm = connect_shm(run, std::move(links), device);
  if (all) return shm;
  return std::make_unique<AutoTransport>(run, std::move(shm), connect_gloo(run, device), std::move(near));
}

Result<std::unique_ptr<Transport>> join_auto(const Rendezvous& where, Device& device) {
  return join_run(where, [&](const auto& run) -> Result<std::unique_ptr<Transport>> {
    RANNC_ASSIGN(ShmLinks links, ShmLinks::attach(run->client(), where, [&] { return run->watch().failure(); }));
    return connect_auto(run, std::move(links), device);
  });
}

}  // namespace rannc::runtime
