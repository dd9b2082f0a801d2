/// Turns Ctrl-C into a request to end a search.
#pragma once

#include <stop_token>
#include <thread>

namespace rannc::tools {

/// During its lifetime, the first SIGINT requests a stop through `source`, and the second exits the process with status
/// 130. Therefore no file may be half-written meanwhile. At most one object may exist in a process. The previous signal
/// handler is restored at the end.
class InterruptStop {
 public:
  explicit InterruptStop(std::stop_source source);
  ~InterruptStop();
  InterruptStop(const InterruptStop&) = delete;
  InterruptStop& operator=(const InterruptStop&) = delete;

 private:
  void watch();

  std::stop_source source_;
  int event_[2] = {-1, -1};  ///< a pipe: the handler and the destructor write, the watcher reads
  std::thread watcher_;
};

}  // namespace rannc::tools
