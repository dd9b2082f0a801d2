#include "tests/runtime/call_times.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <mutex>

namespace rannc::test {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// A call of LibTorch that is being timed; its caller on the same thread is timed too, and gets no time twice.
struct TimedCall final : at::ObserverContext {
  std::string name;  // inputs are gone at the end of a call
  TimedCall* caller = nullptr;
  int64_t asked_ns = 0, start_ns = 0, callees_ns = 0;
};

thread_local TimedCall* innermost = nullptr;
std::mutex times_lock;
int64_t counting_ns_of_all = 0;         // taken by what follows, not by the step
std::map<std::string, CallTime> times;  ///< by name and shapes

/// `aten::mm [[2,3],[3,4]]`, as torch.profiler groups calls.
std::string name_of(const at::RecordFunction& call) {
  std::string shapes;
  for (const c10::IValue& input : call.inputs()) {
    if (!shapes.empty()) shapes += ",";
    shapes += "[";
    if (input.isTensor() && input.toTensor().defined())
      shapes += fmt::format("{}", fmt::join(input.toTensor().sizes(), ","));
    shapes += "]";
  }
  return fmt::format("{} [{}]", call.name(), shapes);
}

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& function) {
  const int64_t asked_ns = now_ns();
  auto call = std::make_unique<TimedCall>();
  call->name = name_of(function);
  call->caller = innermost;
  innermost = call.get();
  call->asked_ns = asked_ns;
  call->start_ns = now_ns();
  return call;
}

void end_call(const at::RecordFunction&, at::ObserverContext* context) {
  auto* const call = static_cast<TimedCall*>(context);
  const int64_t taken_ns = now_ns() - call->start_ns;
  innermost = call->caller;
  const std::scoped_lock lock(times_lock);
  CallTime& found = times[call->name];
  found.own_ns += taken_ns - call->callees_ns;
  ++found.calls;
  const int64_t all_ns = now_ns() - call->asked_ns;
  counting_ns_of_all += all_ns - taken_ns;
  if (call->caller != nullptr) call->caller->callees_ns += all_ns;
}

}  // namespace

CallTimes::CallTimes() {
  times.clear();
  counting_ns_of_all = 0;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin_call, end_call)
                                      .needsInputs(true)
                                      .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

CallTimes::~CallTimes() { at::removeCallback(handle_); }

std::map<std::string, CallTime> CallTimes::found() const {
  const std::scoped_lock lock(times_lock);
  return times;
}

int64_t CallTimes::counting_ns() const {
  const std::scoped_lock lock(times_lock);
  return counting_ns_of_all;
}

}  // namespace rannc::test
