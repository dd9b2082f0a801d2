#include "tools/run/hang_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "tools/common/driver.h"
#include "tools/common/report_pipe.h"

namespace rannc::tools {

namespace {

constexpr std::chrono::milliseconds kToTellOthers{1000};  // ten heartbeats

}  // namespace

HangWatch::HangWatch(const WorkerEnvironment& worker, std::chrono::milliseconds timeout)
    : rank_(worker.rank),
      report_pipe_(worker.report_pipe),
      timeout_(timeout),
      progress_(std::make_shared<runtime::Progress>()),
      thread_([this] { loop(); }) {}

HangWatch::~HangWatch() {
  stop_ = true;
  thread_.join();
  if (report_pipe_ >= 0) send_last_sign(report_pipe_);
}

void HangWatch::loop() {
  for (runtime::StallClock clock; !stop_; std::this_thread::sleep_for(runtime::RunningClock::kTick)) {
    if (report_pipe_ >= 0) send_life_sign(report_pipe_);
    for (const auto lane : {runtime::Progress::Lane::kSteps, runtime::Progress::Lane::kCheckpoint}) check(clock, lane);
  }
}

void HangWatch::check(runtime::StallClock& clock, runtime::Progress::Lane lane) const {
  const std::optional<runtime::StallClock::Stall> stall = clock.look(*progress_, lane);
  if (!stall) return;
  const bool awaited = lane == runtime::Progress::Lane::kSteps && progress_->run_has_failed();
  if (stall->idle >= timeout_.load() * (awaited ? 1 : stall->activity.limits)) end(*stall);
}

void HangWatch::end(const runtime::StallClock::Stall& stall) const {
  const std::string why = fmt::format(
      "worker {} hangs: no progress for {:.1f} s in {}, and it does not wait for another worker; if it is only slow, "
      "raise --timeout",
      rank_, static_cast<double>(stall.idle.count()) / 1e3, describe(stall.activity));
  progress_->declare_hung(why);
  std::this_thread::sleep_for(kToTellOthers);
  if (report_pipe_ >= 0) {
    report_hang(report_pipe_, why);
  } else {
    const std::string text = fmt::format("[worker {}] error: {}\n", rank_, why);
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
  _exit(kDiagnostics);  // destructors would wait for the thread
}

}  // namespace rannc::tools
