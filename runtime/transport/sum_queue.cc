#include "runtime/transport/internal/sum_queue.h"

#include <fmt/format.h>

#include "runtime/execute/now.h"
#include "runtime/execute/running_clock.h"
#include "runtime/transport/internal/gloo_group.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

namespace {

constexpr size_t kRunning = 2;

}  // namespace

std::shared_ptr<SumQueue::Sum> SumQueue::begin(Start start) {
  auto sum = std::make_shared<Sum>();
  sum->start = std::move(start);
  {
    const std::lock_guard lock(mutex_);
    sums_.push_back(sum);
    start_some();
    if (!thread_.joinable() && failed_) {  // the first sum, which nobody runs
      sum->result = *failed_;
      sums_.clear();
      return sum;
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
  return sum;
}

void SumQueue::start_some() {
  for (size_t i = 0; i < std::min(sums_.size(), kRunning); ++i) {
    Sum& sum = *sums_[i];
    if (sum.running || failed_) continue;
    try {
      sum.running = std::exchange(sum.start, nullptr)();
    } catch (const std::exception& failed) {
      failed_ = error("a sum over devices failed: " + plain(failed));
    }
  }
}

Result<void> SumQueue::run(Sum& sum) {
  try {
    RANNC_TRY(sum.running->run());
    sum.done = memory_.record(stream_);
    return {};
  } catch (const std::exception& failed) {
    return explain_(error("a sum over devices failed: " + plain(failed)));
  }
}

void SumQueue::loop() {
  const auto scope = memory_.enter(stream_);  // which has begun the first sum, so that the device has it
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !sums_.empty(); });
    if (stop_) return;
    const std::shared_ptr<Sum> sum = sums_.front();
    if (failed_) {
      sum->result = *failed_;
    } else {
      lock.unlock();
      Result<void> result = run(*sum);
      lock.lock();
      if (!result.ok()) failed_ = result.diagnostic();
      sum->result = std::move(result);
    }
    sum->finished_ns = now_ns();
    sum->running.reset();
    sum->start = nullptr;
    sums_.pop_front();
    start_some();
    changed_.notify_all();
  }
}

Result<void> SumQueue::await(const Sum& sum) {
  std::unique_lock lock(mutex_);
  RANNC_TRY(await_result(lock, sum));
  return *sum.result;
}

Result<void> SumQueue::settle() {
  std::unique_lock lock(mutex_);
  if (failed_) return *failed_;
  if (sums_.empty()) return {};
  const std::shared_ptr<Sum> last = sums_.back();
  RANNC_TRY(await_result(lock, *last));
  return *last->result;
}

// The limit is that of one wait of the queue's thread, as for sums that the device runs itself.
Result<void> SumQueue::await_result(std::unique_lock<std::mutex>& lock, const Sum& sum) {
  RunningClock clock;
  std::pair<uint64_t, std::string> seen;
  std::chrono::milliseconds since{0};
  while (!changed_.wait_for(lock, RunningClock::kTick, [&] { return sum.result.has_value(); })) {
    lock.unlock();
    if (auto reason = failure_()) return *reason;
    auto current = wait_.current();
    const auto now = clock.now();
    if (current.first != seen.first) since = now;
    seen = std::move(current);
    if (now - since >= timeout_)
      return explain_(error(fmt::format("waited {} ms for {}", timeout_.count(), seen.second)));
    lock.lock();
  }
  return {};
}

void SumQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  wait_.end();
  if (thread_.joinable()) thread_.join();
  sums_.clear();  // what has started and will not be run
}

}  // namespace rannc::runtime
