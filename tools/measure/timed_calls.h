/// Measures the self time of LibTorch's operator calls.
#pragma once

#include <ATen/record_function.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace rannc::tools {

/// Time of a call besides its self time. Over all calls, self times, `counting_ns` and `outer_aside_ns` add up to
/// `outer_ns`.
struct CountedCall {
  int64_t counting_ns = 0;     ///< overhead of measuring this call
  int64_t outer_ns = 0;        ///< of an outermost call: total time, including overhead and excluded time
  int64_t outer_aside_ns = 0;  ///< of an outermost call: excluded time
};

/// Passes each call on all threads of this process to `Sink`, whose members are static:
///
///     struct Note {…};                                                  data about a running call
///     void begin(const at::RecordFunction&, Note&)                      inputs are available
///     int64_t aside_ns()                                                excluded time of this thread so far
///     void end(const at::RecordFunction&, const Note&, int64_t own_ns)  without callees, overhead and excluded time
///     void counted(const CountedCall&)                                  right after `end`
///
/// Measures calls of operators and of nodes of the backward pass, but not of TorchScript functions. At most one object
/// may exist per `Sink`. No call may be running when it is constructed or destroyed.
template <class Sink>
class TimedCalls {
 public:
  TimedCalls()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                          .needsInputs(true)
                                          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  TimedCalls(const TimedCalls&) = delete;
  TimedCalls& operator=(const TimedCalls&) = delete;
  ~TimedCalls() { at::removeCallback(handle_); }

 private:
  struct Call final : at::ObserverContext {
    typename Sink::Note note;
    Call* caller = nullptr;
    int64_t requested_ns = 0, start_ns = 0, start_aside_ns = 0;
    int64_t callees_ns = 0, callees_aside_ns = 0;  // time of callees with their overhead; the excluded part of it
  };

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    const int64_t requested_ns = now_ns();
    auto call = std::make_unique<Call>();
    Sink::begin(function, call->note);
    call->caller = innermost_;
    innermost_ = call.get();
    call->requested_ns = requested_ns;
    call->start_aside_ns = Sink::aside_ns();
    call->start_ns = now_ns();
    return call;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    auto* const call = static_cast<Call*>(context);
    if (call == nullptr) return;
    const int64_t end_ns = now_ns(), aside_ns = Sink::aside_ns() - call->start_aside_ns;
    innermost_ = call->caller;
    Sink::end(function, call->note, end_ns - call->start_ns - aside_ns - (call->callees_ns - call->callees_aside_ns));
    const int64_t all_ns = now_ns() - call->requested_ns;
    CountedCall counted{.counting_ns = all_ns - (end_ns - call->start_ns)};
    if (call->caller != nullptr) {
      call->caller->callees_ns += all_ns;
      call->caller->callees_aside_ns += aside_ns;
    } else {
      counted.outer_ns = all_ns;
      counted.outer_aside_ns = aside_ns;
    }
    Sink::counted(counted);
  }

  static inline thread_local Call* innermost_ = nullptr;
  at::CallbackHandle handle_;
};

}  // namespace rannc::tools
