/// What a worker tells the launcher that started it.
#pragma once

#include <string>

namespace rannc::tools {

/// Tells that the worker's process runs. Does not wait.
void send_life_sign(int pipe);
/// Tells that no more signs of life follow, because the worker's process ends. Does not wait.
void send_last_sign(int pipe);
/// Reports why the worker fails. To be called once, before it ends.
void report_failure(int pipe, const std::string& reason);
/// Reports that the worker hangs, so that it is lost. To be called once, before it ends.
void report_hang(int pipe, const std::string& reason);

/// What arrives from one worker.
class WorkerReports {
 public:
  /// Reads what is in the pipe, whose read end does not block. Returns whether there was anything.
  bool read(int pipe);
  const std::string& reason() const { return reason_; }
  bool hangs() const { return hangs_; }
  /// Whether the last sign of life has arrived.
  bool ends() const { return ends_; }

 private:
  std::string reason_;
  bool hangs_ = false, ends_ = false;
};

}  // namespace rannc::tools
