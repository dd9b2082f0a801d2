/// What a program is doing, on standard error.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rannc::tools {

/// When something is said: on a terminal at once and every second, elsewhere first when it has taken `first` seconds,
/// then every `period` seconds. Knows no clock and no stream.
class StatusPace {
 public:
  StatusPace(bool terminal, double first = 3, double period = 10)
      : terminal_(terminal), first_(first), period_(period) {}
  /// What is being done from now on; a text that differs from the last only behind its colon, or in its numbers, goes
  /// on with the same work. Empty: nothing.
  void show(std::string text, double now);
  /// The text to be shown at `now`, with the seconds since the work began; nothing: too early to say something again.
  std::optional<std::string> due(double now);

 private:
  bool terminal_;
  double first_, period_;
  std::string text_;
  double began_ = 0, said_ = 0;
  bool ever_said_ = false, changed_ = false;
};

/// Shows it from a thread of its own: on a terminal one line that is drawn again and wiped at the end, elsewhere a line
/// now and then, so that short work says nothing.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  /// Any thread may call it.
  void show(const std::string& text);
  /// Nothing is being done, or others write now.
  void clear() { show({}); }

 private:
  void run();

  bool terminal_;
  StatusPace pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool drawn_ = false, stop_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace rannc::tools
