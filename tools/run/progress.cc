#include "tools/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/common/units.h"

namespace rannc::tools {

namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, seconds));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string count_text(double count) {
  return count >= 10000 ? fmt::format("{:.1f}k", count / 1000) : fmt::format("{:.0f}", count);
}

}  // namespace

std::string speed_text(double steps_per_second, uint64_t tokens, uint64_t samples) {
  return tokens > 0 ? count_text(steps_per_second * static_cast<double>(tokens)) + " tokens/s"
                    : count_text(steps_per_second * static_cast<double>(samples)) + " samples/s";
}

Progress::Progress(bool shown, uint64_t steps) : shown_(shown), terminal_(isatty(STDOUT_FILENO) != 0), steps_(steps) {}

void Progress::step(uint64_t done, double loss, const StepLoad& load) {
  if (!shown_) return;
  if (!started_) first_ = done - 1;
  started_ = true;
  const double seconds = watch_.seconds() - paused_;
  const double rate = static_cast<double>(done - first_) / std::max(seconds, 1e-9);
  const double left = static_cast<double>(steps_ - done) / rate;
  const std::string speed = speed_text(rate, load.tokens, load.samples);
  const std::string state =
      fmt::format("step {}/{}  loss {:.4f}  {}  {} left{}", done, steps_, loss, speed, clock_text(left),
                  load.peak_bytes > 0 ? "  " + bytes(static_cast<double>(load.peak_bytes)) : "");
  if (terminal_) {
    constexpr uint64_t kWidth = 24;
    const std::string bar(done * kWidth / std::max<uint64_t>(1, steps_), '#');
    fmt::print("\r\033[K[{:<{}}] {}", bar, kWidth, state);
    std::fflush(stdout);
  } else if (done == steps_ || done == first_ + 1 || done % std::max<uint64_t>(1, steps_ / 20) == 0) {
    fmt::print("{}\n", state);
    std::fflush(stdout);
  }
}

void Progress::note(const std::string& line, double seconds) {
  paused_ += seconds;
  if (!shown_) return;
  fmt::print("{}{}\n", terminal_ && started_ ? "\n" : "", line);
  std::fflush(stdout);
}

void Progress::end() {
  if (shown_ && terminal_ && started_) fmt::print("\n");
}

}  // namespace rannc::tools
