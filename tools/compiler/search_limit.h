/// Ends a search on request or at a wall-clock limit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace rannc::tools {

/// Requests a stop through `token()` when the caller does, or at a time limit.
class SearchLimit {
 public:
  /// `limit_ns`: wall-clock time from now. `requested`: of the caller; may be empty.
  SearchLimit(std::optional<double> limit_ns, std::stop_token requested);
  ~SearchLimit() { end(); }
  SearchLimit(const SearchLimit&) = delete;
  SearchLimit& operator=(const SearchLimit&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// Whether the caller or the limit has requested a stop.
  bool stopped() const { return source_.stop_requested(); }
  /// Wall-clock seconds since construction, until `end`.
  double seconds() const;
  /// Marks the search as finished. Returns a warning if the result may not be reproducible, else an empty text.
  std::string end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::stop_source& source;
    void operator()() const { source.request_stop(); }
  };

  std::optional<double> limit_ns_;
  Clock::time_point started_ = Clock::now();
  std::stop_source source_;
  std::stop_token requested_;
  std::stop_callback<Request> forward_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool out_of_time_ = false;
  std::optional<std::string> reason_;  ///< set by `end`
  double seconds_ = 0;                 ///< likewise
  std::jthread timer_;                 ///< only with a limit
};

}  // namespace rannc::tools
