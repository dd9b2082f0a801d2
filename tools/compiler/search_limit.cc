#include "tools/compiler/search_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/units.h"

namespace rannc::tools {

SearchLimit::SearchLimit(std::optional<double> limit_ns, std::stop_token requested)
    : limit_ns_(limit_ns), requested_(std::move(requested)), forward_(requested_, Request{source_}) {
  if (!limit_ns_) return;
  const auto longest = std::chrono::duration<double>(std::chrono::hours(24 * 366));
  const auto left =
      std::min<std::chrono::duration<double>>(std::chrono::duration<double, std::nano>(*limit_ns_), longest);
  const auto until = started_ + std::chrono::duration_cast<Clock::duration>(left);
  timer_ = std::jthread([this, until](const std::stop_token& finished) {
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, finished, until, [] { return false; });
    if (finished.stop_requested() || source_.stop_requested()) return;
    out_of_time_ = true;
    source_.request_stop();
  });
}

double SearchLimit::seconds() const {
  return reason_ ? seconds_ : std::chrono::duration<double>(Clock::now() - started_).count();
}

std::string SearchLimit::end() {
  if (reason_) return *reason_;
  seconds_ = seconds();
  if (timer_.joinable()) {
    timer_.request_stop();
    timer_.join();
  }
  reason_.emplace();
  if (requested_.stop_requested()) {
    reason_ = fmt::format("the search was interrupted after {:.1f} s: another run may find another plan", seconds_);
  } else if (out_of_time_) {
    reason_ = fmt::format("the search was stopped after {} (--time-limit): another run may find another plan",
                          duration(*limit_ns_));
  } else if (limit_ns_) {
    reason_ = fmt::format("results may depend on --time-limit {}: this search finished in time, another may not",
                          duration(*limit_ns_));
  }
  return *reason_;
}

}  // namespace rannc::tools
