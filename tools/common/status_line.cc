#include "tools/common/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>

namespace rannc::tools {

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The text up to its colon, with numbers replaced by #: `measuring # of # tasks`.
std::string work_of(const std::string& text) {
  std::string work;
  for (const char c : text.substr(0, text.find(':'))) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit || work.empty() || work.back() != '#') work += digit ? '#' : c;
  }
  return work;
}

}  // namespace

void StatusPace::show(std::string text, double now) {
  if (work_of(text) != work_of(text_)) {
    began_ = now;
    ever_said_ = false;
  }
  changed_ = changed_ || text != text_;
  text_ = std::move(text);
}

std::optional<std::string> StatusPace::due(double now) {
  if (text_.empty()) return std::nullopt;
  const double wait = terminal_ ? 1 : period_;
  const double next = ever_said_ ? said_ + wait : began_ + (terminal_ ? 0 : first_);
  if (now < next && !(terminal_ && changed_)) return std::nullopt;
  said_ = now;
  ever_said_ = true;
  changed_ = false;
  return now - began_ < 1 ? text_ : fmt::format("{} ({:.0f} s)", text_, now - began_);
}

StatusLine::StatusLine() : terminal_(isatty(STDERR_FILENO) != 0), pace_(terminal_), thread_([this] { run(); }) {}

StatusLine::~StatusLine() {
  clear();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StatusLine::show(const std::string& text) {
  const std::lock_guard lock(mutex_);
  pace_.show(text, now_seconds());
  if (!text.empty() || !shown_) return;
  fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void StatusLine::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (const auto text = pace_.due(now_seconds())) {
      fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", *text, terminal_ ? "" : "\n");
      std::fflush(stderr);
      shown_ = terminal_;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
}

}  // namespace rannc::tools
