/// Records the actions of all devices as a trace for Perfetto.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/execute/executor.h"

namespace rannc::runtime {

/// Keeps the actions of the last `steps` steps. Thread-safe.
class TraceRecorder : public Observer {
 public:
  explicit TraceRecorder(uint64_t steps = 3) : steps_(steps) {}
  void finished(const ActionRecord& record) override;
  /// Sorted by step, device and start.
  std::vector<ActionRecord> records() const;

 private:
  uint64_t steps_;
  mutable std::mutex mutex_;
  std::vector<ActionRecord> records_;
};

/// A planned action, ns from the start of a step.
struct PlannedSpan {
  DeviceId device;
  ir::Action action;
  double start_ns = 0, end_ns = 0;
};

/// Returns a trace in Chrome's format, which ui.perfetto.dev opens:
/// - process 0 `actual`, process 1 `planned`, a thread per device;
/// - one event per action with stage, micro-batch and waiting time;
/// - arrows from sends to receives;
/// - a counter of live bytes per device.
/// The planned step is aligned with the last recorded one.
std::string chrome_trace(const ir::PipelineShape& shape, const std::vector<ActionRecord>& actual,
                         const std::vector<PlannedSpan>& planned);

/// Sorts by step, device and start.
void sort_records(std::vector<ActionRecord>& records);

/// Serializes records, one per line, so that worker processes can pass theirs to the first.
std::string print_records(const std::vector<ActionRecord>& records);
Result<std::vector<ActionRecord>> parse_records(const std::string& text, const std::string& file);

}  // namespace rannc::runtime
