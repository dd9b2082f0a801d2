#include "runtime/transport/internal/run_watch.h"

#include <fmt/format.h>

#include "runtime/internal/reason.h"

namespace rannc::runtime {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPeriod{100};
constexpr std::chrono::milliseconds kPatience{1000};  // for a store that may not answer after a failure
constexpr std::chrono::milliseconds kTelling{5000};   // for reporting the reason to the store

}  // namespace

void RunWatch::stop() {
  client_.hurry(kPatience);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<Diagnostic> RunWatch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RunWatch::abort(const Diagnostic& reason) {
  if (failure()) return;
  client_.hurry(kTelling);
  const std::string own = without_severity(reason);
  const Result<std::string> kept = client_.fail(own);  // if the store is lost, the others notice it themselves
  set(!kept.ok() || *kept == own ? reason : error(*kept));
}

Result<void> RunWatch::wait(const GlooWork& work, const std::string& what, std::chrono::milliseconds timeout) {
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
    const std::string known = hear();
    result =
        error(waited >= timeout ? fmt::format("waited {} ms for {}{}", waited.count(), what, known)
                                : fmt::format("lost the connection while waiting for {}: {}", what, plain(failed)));
  }
  const std::lock_guard lock(mutex_);
  waiting_.erase(work.get());
  return failure_ ? Result<void>(*failure_) : result;
}

Diagnostic RunWatch::explained(const Diagnostic& seen) {
  const std::string known = hear();
  return failure().value_or(error(seen.message + known));
}

void RunWatch::set(const Diagnostic& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
    if (progress_) progress_->note_failure();
    changed_.notify_all();
    for (c10d::Work* work : waiting_) work->abort();
  }
  call_on_failure();
}

void RunWatch::on_failure(std::function<void()> on_failure) {
  {
    const std::lock_guard lock(on_failure_mutex_);
    on_failure_ = std::move(on_failure);
  }
  if (failure()) call_on_failure();
}

void RunWatch::call_on_failure() {
  const std::lock_guard lock(on_failure_mutex_);
  if (on_failure_) std::exchange(on_failure_, nullptr)();
}

BusyWorker RunWatch::own_work() {
  if (!progress_) return {};
  const std::optional<StallClock::Stall> stall = stalls_.look(*progress_);
  return stall ? BusyWorker{.idle = stall->idle, .work = describe(stall->activity)} : BusyWorker();
}

void RunWatch::poll(const BusyWorker& own) {
  const Result<RunState> state = client_.beat(own);
  if (!state.ok()) return set(error(state.diagnostic().message));
  if (!state->failure.empty()) return set(error(state->failure));
  const std::lock_guard lock(mutex_);
  state_ = *state;
}

std::string RunWatch::hear() {
  const Progress::Waiting waiting(progress_.get());
  std::unique_lock lock(mutex_);
  const auto failed = [this] { return failure_.has_value(); };
  RunningClock clock;
  while (!changed_.wait_for(lock, RunningClock::kTick, failed)) {
    if (const auto waited = clock.now(); waited >= kPatience && !may_hang(waited)) break;
  }
  if (failure_) return {};
  if (state_.silence >= kPatience)
    return fmt::format("; worker {} has been silent for {} ms", state_.silent_rank, state_.silence.count());
  if (state_.busy.work.empty()) return {};
  return fmt::format("; worker {} is busy with {}, without progress for {} ms", state_.busy.rank, state_.busy.work,
                     state_.busy.idle.count());
}

bool RunWatch::may_hang(std::chrono::milliseconds waited) const {
  return !state_.busy.work.empty() && state_.busy.idle + kPatience / 2 >= waited &&
         state_.busy.idle < timeout_ + kPatience;
}

void RunWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPeriod, [this] { return stop_; })) {
    if (failure_) continue;
    lock.unlock();
    const BusyWorker own = own_work();
    if (const std::string why = progress_ ? progress_->hung() : ""; !why.empty()) {
      abort(error(why));
    } else {
      poll(own);
    }
    lock.lock();
  }
}

}  // namespace rannc::runtime
