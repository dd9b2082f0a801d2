// A transport between threads of one process, by copies from the memory of one device to that of another.
//
// The host of the later side of a message enqueues its copy. Copies between contiguous tensors need no kernels, so that
// they neither wait for room on a GPU nor take it from computations. Hosts wait until the other side has enqueued its
// part, devices for each other alone.
#include "runtime/transport/transport_copies.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/before_free.h"
#include "runtime/transport/internal/exchange_transport.h"
#include "runtime/transport/internal/local_copies.h"

namespace rannc::runtime {
namespace {

// Of one device: a stream adds, others copy what it sends. Streams may be shared with other devices of a plan on the
// same GPU, which delays them.
constexpr Stream kSums = shareable_stream(0), kPassSums = shareable_stream(1), kTerms = shareable_stream(2),
                 kTotals = shareable_stream(3);
Stream stream_to(DeviceId peer) { return shareable_stream(4 + peer.index()); }

using Copies = std::shared_ptr<LocalCopies>;

/// Makes a stream wait for a copy whose memory is about to be freed.
void drop(LocalCopies& copies, LocalCopy& copy, Device& hardware, Stream stream) {
  before_free([&] { hardware.await(stream, copies.drop(copy)); });
}

class CopyReceipt final : public Receipt {
 public:
  CopyReceipt(Copies copies, LocalCopyRef copy, Value into, Device& hardware, std::string what)
      : copies_(std::move(copies)),
        copy_(std::move(copy)),
        into_(std::move(into)),
        hardware_(hardware),
        what_(std::move(what)) {}
  ~CopyReceipt() override {
    if (into_ != nullptr) drop(*copies_, *copy_, hardware_, Stream::kCompute);
  }
  CopyReceipt(const CopyReceipt&) = delete;
  CopyReceipt& operator=(const CopyReceipt&) = delete;

  Result<Arrived> wait() override {
    RANNC_TRY(copies_->await_enqueued(*copy_, what_));
    return Arrived{std::move(into_), copy_->done};
  }

 private:
  const Copies copies_;
  const LocalCopyRef copy_;
  Value into_;
  Device& hardware_;
  const std::string what_;
};

class CopyTransport final : public ExchangeTransport {
 public:
  CopyTransport(Copies copies, DeviceId device, uint32_t devices, Device& hardware, std::chrono::milliseconds timeout)
      : ExchangeTransport(timeout, hardware, kSums),
        copies_(std::move(copies)),
        device_(device),
        devices_(devices),
        hardware_(hardware) {}
  ~CopyTransport() override {
    stop_sums();
    for (const auto& [peer, queue] : sent_) {
      for (const auto& each : queue) drop(*copies_, *each.copy, hardware_, Stream::kCompute);
    }
    copies_->leave(device_);
  }

  DeviceId device() const override { return device_; }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return devices_; }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    count_message(to, value->bytes());
    Sent& queue = sent_[to];
    while (!queue.empty() && !queue.front().held && copies_->is_enqueued(*queue.front().copy)) release_oldest(queue);
    RANNC_ASSIGN(auto copy, copies_->send({device_, to, key}, value, hardware_.record(Stream::kCompute), hardware_,
                                          stream_to(to)));
    queue.push_back({std::move(copy), std::move(value), sent == SentValue::kHeldUntilAwaited});
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    Value into = hardware_.allocate(spec);
    RANNC_ASSIGN(auto copy, copies_->receive({from, device_, key}, into, hardware_.record(Stream::kCompute)));
    return std::unique_ptr<Receipt>(
        std::make_unique<CopyReceipt>(copies_, std::move(copy), std::move(into), hardware_,
                                      fmt::format("device {} to send {}", from.index(), describe(key))));
  }

  std::unique_ptr<SumExchange> begin_exchange(const ExchangeOf& which) override {
    return std::make_unique<Exchange>(*this, which);
  }

  Result<void> await_sends(DeviceId to, size_t left) override {
    for (Sent& queue = sent_[to]; queue.size() > left; release_oldest(queue)) {
      RANNC_TRY(copies_->await_enqueued(*queue.front().copy, fmt::format("device {} to take a message", to.index())));
    }
    return {};
  }

  Result<void> flush() override {
    if (auto reason = failure()) return *reason;
    for (auto& [peer, queue] : sent_) RANNC_TRY(await_sends(peer, 0));
    return {};
  }

  void abort(const Diagnostic& reason) override { copies_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return copies_->failure(); }

 protected:
  Diagnostic explained(const Diagnostic& seen) override { return failure().value_or(seen); }

 private:
  struct SentValueOf {
    LocalCopyRef copy;
    Value value;
    bool held = false;  // until it is awaited
  };
  using Sent = std::deque<SentValueOf>;  // oldest first

  void release_oldest(Sent& queue) {
    hardware_.await(Stream::kCompute, queue.front().copy->done);
    queue.pop_front();
  }

  /// Copies of sums, on the stream that adds: of sums in the background, that of sums, else that of computations.
  class Exchange final : public SumExchange {
   public:
    Exchange(CopyTransport& transport, const ExchangeOf& which)
        : transport_(transport),
          which_(which),
          stream_(which.background != nullptr ? kSums : Stream::kCompute),
          copies_on_(which.within_pass()               ? kPassSums
                     : which.phase == SumPhase::kTerms ? kTerms
                                                       : kTotals),
          made_(which.phase == SumPhase::kTerms ? which.made : nullptr) {}
    ~Exchange() override {
      for (const Moved& each : moved_) drop(*transport_.copies_, *each.copy, transport_.hardware_, stream_);
    }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    void send(DeviceId to, const at::Tensor& tensor) override {
      transport_.count_term(to, tensor.nbytes());
      if (made_ == nullptr) made_ = transport_.hardware_.record(stream_);
      add(transport_.copies_->send({transport_.device_, to, part_of(sent_[to]++)}, to_value(tensor), made_,
                                   transport_.hardware_, copies_on_),
          tensor, fmt::format("device {} to take its part of a sum over devices", to.index()));
    }
    void receive(DeviceId from, const at::Tensor& into) override {
      add(transport_.copies_->receive({from, transport_.device_, part_of(received_[from]++)}, to_value(into),
                                      transport_.hardware_.record(stream_)),
          into, fmt::format("device {} to send its part of a sum over devices", from.index()));
    }
    Result<void> finish() override {
      if (failed_) return *failed_;
      transport_.hardware_.await(stream_, which_.made);
      for (const Moved& each : moved_) {
        RANNC_TRY(transport_.copies_->await_enqueued(*each.copy, each.what, which_.background));
        transport_.hardware_.await(stream_, each.copy->done);
      }
      moved_.clear();
      return {};
    }

   private:
    struct Moved {
      LocalCopyRef copy;
      at::Tensor tensor;  // lives until the stream has awaited the copy
      std::string what;
    };
    CollectivePart part_of(uint32_t number) const { return {which_.key, which_.phase, number}; }
    void add(Result<LocalCopyRef> copy, const at::Tensor& tensor, std::string what) {
      if (copy.ok()) return moved_.push_back({*std::move(copy), tensor, std::move(what)});
      if (!failed_) failed_ = copy.diagnostic();
    }

    CopyTransport& transport_;
    const ExchangeOf which_;
    const Stream stream_, copies_on_;
    EventRef made_;  // of all that is sent, once something is
    std::map<DeviceId, uint32_t> sent_, received_;
    std::vector<Moved> moved_;
    std::optional<Diagnostic> failed_;
  };

  const Copies copies_;
  const DeviceId device_;
  const uint32_t devices_;
  Device& hardware_;
  std::map<DeviceId, Sent> sent_;  // by peer
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_copy_transports(const std::vector<Device*>& devices,
                                                             std::chrono::milliseconds timeout) {
  const auto copies = std::make_shared<LocalCopies>(timeout);
  const auto count = static_cast<uint32_t>(devices.size());
  std::vector<std::unique_ptr<Transport>> ends;
  for (uint32_t i = 0; i < count; ++i)
    ends.push_back(std::make_unique<CopyTransport>(copies, DeviceId(i), count, *devices[i], timeout));
  return ends;
}

}  // namespace rannc::runtime
