#include "runtime/measure/measure_links.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// Runs one device's part of all exchanges.
class Exchanger {
 public:
  Exchanger(const ExchangePlan& plan, Transport& end) : plan_(plan), end_(end), members_(plan.devices) {
    for (uint32_t i = 0; i < plan.devices; ++i) members_[i] = DeviceId(i);
  }

  Result<std::map<uint64_t, double>> run() {
    std::map<uint64_t, double> times;
    for (const uint64_t bytes : plan_.bytes) {
      own_ = to_value(at::ones({static_cast<int64_t>(std::max<uint64_t>(1, bytes / 4))}, at::kFloat));
      std::vector<double> measured;
      for (uint32_t i = 0; i <= plan_.repeat; ++i) {
        RANNC_TRY(all_reduce(to_value(at::ones({1}, at::kFloat))));  // a barrier
        RANNC_TRY(end_.flush());
        const auto start = Clock::now();
        RANNC_TRY(exchange());
        const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
        RANNC_TRY(end_.flush());
        if (i > 0) measured.push_back(elapsed.count() / (plan_.kind == ExchangeKind::kMessage ? 2 : 1));
      }
      std::nth_element(measured.begin(), measured.begin() + static_cast<ptrdiff_t>(measured.size() / 2),
                       measured.end());
      times[bytes] = measured[measured.size() / 2];
    }
    return times;
  }

 private:
  Result<void> exchange() {
    switch (plan_.kind) {
      case ExchangeKind::kMessage:
        return round_trip();
      case ExchangeKind::kAllReduce:
        return all_reduce(own_);
      case ExchangeKind::kAllGather:
        return all_gather();
    }
    return {};
  }

  Result<void> all_reduce(Value value) {
    CollectiveKey key;
    key.step = step_++;
    RANNC_ASSIGN(const Values sums, end_.all_reduce(key, members_, {std::move(value)}));
    RANNC_CHECK(sums.size() == 1) << "a collective returns as many values as it takes";
    return {};
  }

  Result<void> round_trip() {
    MessageKey key;
    key.step = step_++;
    const DeviceId peer(1 - end_.device().index());
    RANNC_ASSIGN(const auto receipt, end_.receive(key, peer, own_->spec()));
    Value answer = own_;
    if (end_.device() == DeviceId(0)) RANNC_TRY(end_.send(key, peer, own_, SentValue::kFreedWhenTaken));
    RANNC_ASSIGN(Arrived arrived, receipt->wait());
    answer = std::move(arrived.value);
    if (end_.device() != DeviceId(0)) RANNC_TRY(end_.send(key, peer, answer, SentValue::kFreedWhenTaken));
    return {};
  }

  Result<void> all_gather() {
    MessageKey key;
    key.step = step_++;
    std::vector<std::unique_ptr<Receipt>> receipts;
    for (const DeviceId peer : members_) {
      if (peer == end_.device()) continue;
      RANNC_ASSIGN(auto receipt, end_.receive(key, peer, own_->spec()));
      receipts.push_back(std::move(receipt));
    }
    for (const DeviceId peer : members_) {
      if (peer != end_.device()) RANNC_TRY(end_.send(key, peer, own_, SentValue::kFreedWhenTaken));
    }
    for (const auto& receipt : receipts) {
      RANNC_ASSIGN(const Arrived part, receipt->wait());
      RANNC_CHECK(part.value != nullptr) << "a message carries a value";
    }
    return {};
  }

  const ExchangePlan& plan_;
  Transport& end_;
  std::vector<DeviceId> members_;
  Value own_;
  uint64_t step_ = 0;
};

}  // namespace

std::string str(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::kMessage:
      return "message";
    case ExchangeKind::kAllReduce:
      return "all-reduce";
    case ExchangeKind::kAllGather:
      return "all-gather";
  }
  return {};
}

Result<std::map<uint64_t, double>> measure_exchange(const ExchangePlan& plan, const OpenEnd& open) {
  RANNC_CHECK(plan.devices >= 2 && plan.repeat >= 1) << "an exchange takes two devices and one repetition";
  RANNC_CHECK(plan.kind != ExchangeKind::kMessage || plan.devices == 2) << "a message takes two devices";
  std::mutex mutex;
  std::optional<Diagnostic> failure;
  std::map<uint64_t, double> times;
  const auto work = [&](uint32_t device) {
    auto end = open(device);
    auto measured = end.ok() ? Exchanger(plan, **end).run() : Result<std::map<uint64_t, double>>(end.diagnostic());
    if (!measured.ok() && end.ok()) (*end)->abort(measured.diagnostic());
    const std::lock_guard lock(mutex);
    if (!measured.ok() && !failure) failure = measured.diagnostic();
    if (measured.ok() && device == 0) times = std::move(*measured);
  };
  {
    std::vector<std::jthread> devices;
    for (uint32_t device = 0; device < plan.devices; ++device) devices.emplace_back(work, device);
  }
  if (failure) return *failure;
  return times;
}

}  // namespace rannc::runtime
