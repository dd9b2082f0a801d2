/// Ends a search early: Ctrl-C, or a limit of wall-clock time.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace rannc::tools {

/// While it lives, the first SIGINT requests `token()` to stop, the second ends the process with status 130; so nothing
/// may be half-written meanwhile. One at a time in a process. The signal's former treatment comes back at the end.
class SearchStop {
 public:
  /// `limit_ns`: wall-clock time from now after which the search is stopped as well.
  explicit SearchStop(std::optional<double> limit_ns);
  ~SearchStop();
  SearchStop(const SearchStop&) = delete;
  SearchStop& operator=(const SearchStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// Whether a signal or the limit has ended the search.
  bool stopped() const { return source_.stop_requested(); }
  /// Wall-clock time since the start.
  double seconds() const;
  /// The search is over: returns what the user must know of its determinism, or an empty text. Signals are left alone
  /// from here on.
  std::string end();

 private:
  void watch();

  std::optional<double> limit_ns_;
  double started_;
  int event_[2] = {-1, -1};  ///< a pipe: the handler and `end` write, the watching thread reads
  std::stop_source source_;
  bool ended_ = false, out_of_time_ = false;
  std::string reason_;
  std::thread watcher_;
};

}  // namespace rannc::tools
