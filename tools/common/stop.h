/// Stops a search on Ctrl-C or at a wall-clock limit.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace rannc::tools {

/// During its lifetime, the first SIGINT requests a stop through `token()`, and the second exits the process with
/// status
/// 130. Therefore no file may be half-written meanwhile. At most one object may exist in a process. The previous signal
/// handler is restored at the end.
class SearchStop {
 public:
  /// `limit_ns`: wall-clock time from now after which a stop is requested as well.
  explicit SearchStop(std::optional<double> limit_ns);
  ~SearchStop();
  SearchStop(const SearchStop&) = delete;
  SearchStop& operator=(const SearchStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// Whether a signal or the limit has requested a stop.
  bool stopped() const { return source_.stop_requested(); }
  /// Wall-clock seconds since construction.
  double seconds() const;
  /// Marks the search as finished and restores the signal handler. Returns a warning if the result may not be
  /// reproducible, else an empty text.
  std::string end();

 private:
  void watch();

  std::optional<double> limit_ns_;
  double started_;
  int event_[2] = {-1, -1};  ///< a pipe: the handler and `end` write, the watcher reads
  std::stop_source source_;
  bool ended_ = false, out_of_time_ = false;
  std::string reason_;
  std::thread watcher_;
};

}  // namespace rannc::tools
