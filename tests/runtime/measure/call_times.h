/// Times LibTorch's calls on all threads of this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace rannc::test {

struct CallTime {
  int64_t own_ns = 0;  ///< without the calls that it made
  uint64_t calls = 0;
};

/// From its making to its end. One at a time; no call may be under way at either.
class CallTimes {
 public:
  CallTimes();
  CallTimes(const CallTimes&) = delete;
  CallTimes& operator=(const CallTimes&) = delete;
  ~CallTimes();
  /// By name and shapes as torch.profiler groups calls: `aten::mm [[2,3],[3,4]]`; backward nodes are calls too.
  std::map<std::string, CallTime> found() const;
  /// What counting took, of all threads: no part of any call.
  int64_t counting_ns() const;

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
};

}  // namespace rannc::test
