/// Shows a program's current activity on standard error.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rannc::tools {

/// Decides when a status text is printed: on a terminal at once and then every second; elsewhere after `first` seconds
/// and then every `period` seconds. Uses no clock and no stream itself.
class StatusPace {
 public:
  StatusPace(bool terminal, double first = 3, double period = 10)
      : terminal_(terminal), first_(first), period_(period) {}
  /// Sets the current activity; an empty text means none. A text that differs from the last one only in its numbers or
  /// after its colon continues the same activity.
  void show(std::string text, double now);
  /// Returns the text to print at `now`, with the seconds since the activity began, or nothing if it is too early.
  std::optional<std::string> due(double now);

 private:
  bool terminal_;
  double first_, period_;
  std::string text_;
  double began_ = 0, said_ = 0;
  bool ever_said_ = false, changed_ = false;
};

/// Prints the status from a thread of its own. On a terminal, one line is redrawn and erased at the end. Elsewhere,
/// lines are printed at intervals, and short activities print nothing.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  /// Thread-safe.
  void show(const std::string& text);
  /// Removes the status line, for example before other output.
  void clear() { show({}); }

 private:
  void run();

  bool terminal_;
  StatusPace pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shown_ = false, stop_ = false;
  std::thread thread_;  // last: it uses all members above
};

}  // namespace rannc::tools
