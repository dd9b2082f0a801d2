#include "tests/runtime/measure/call_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>

#include "tools/measure/timed_calls.h"

namespace rannc::test {
namespace {

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

struct Sink {
  using Note = std::string;  // inputs are gone at the end of a call
  static void begin(const at::RecordFunction& function, Note& name) { name = name_of(function); }
  static int64_t aside_ns() { return 0; }
  static void end(const at::RecordFunction&, const Note& name, int64_t own_ns) {
    const std::scoped_lock lock(times_lock);
    CallTime& found = times[name];
    found.own_ns += own_ns;
    ++found.calls;
  }
  static void counted(const tools::CountedCall& call) {
    const std::scoped_lock lock(times_lock);
    counting_ns_of_all += call.counting_ns;
  }
};

}  // namespace

struct CallTimes::Calls {
  tools::TimedCalls<Sink> calls;
};

CallTimes::CallTimes() {
  times.clear();
  counting_ns_of_all = 0;
  calls_ = std::make_unique<Calls>();
}
CallTimes::~CallTimes() = default;

std::map<std::string, CallTime> CallTimes::found() const {
  const std::scoped_lock lock(times_lock);
  return times;
}

int64_t CallTimes::counting_ns() const {
  const std::scoped_lock lock(times_lock);
  return counting_ns_of_all;
}

}  // namespace rannc::test
