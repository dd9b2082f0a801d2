/// Ends a worker that hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "runtime/execute/progress.h"
#include "tools/common/worker_environment.h"

namespace rannc::tools {

/// Watches this process from a thread of its own. Work that makes no progress for a time-out, times its limits, and
/// that does not wait for another worker, hangs. Work for which the others waited until the run failed has a single
/// limit. The watch then ends the run, so that all workers name this one, reports the hang as `run_as_worker` reports
/// errors, and ends the process with the same code: a thread that hangs cannot be ended alone. Also sends signs of life
/// to rannc's launcher.
class HangWatch {
 public:
  /// `timeout` holds until `set_timeout`.
  HangWatch(const WorkerEnvironment& worker, std::chrono::milliseconds timeout);
  ~HangWatch();

  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Receives what this process does.
  const std::shared_ptr<runtime::Progress>& progress() const { return progress_; }

 private:
  void loop();
  void check(runtime::StallClock& clock, runtime::Progress::Lane lane) const;
  [[noreturn]] void end(const runtime::StallClock::Stall& stall) const;

  const uint32_t rank_;
  const int report_pipe_;
  std::atomic<std::chrono::milliseconds> timeout_;
  const std::shared_ptr<runtime::Progress> progress_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rannc::tools
