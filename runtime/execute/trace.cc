#include "runtime/execute/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

namespace rannc::runtime {

namespace {

using nlohmann::json;
constexpr int kActual = 0, kPlanned = 1;

json metadata(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json event(int process, DeviceId device, const ir::Action& action, double start_ns, double end_ns) {
  json entry{{"ph", "X"},
             {"pid", process},
             {"tid", device.index()},
             {"name", ir::to_string(action)},
             {"cat", std::string(ir::letters(action.kind))},
             {"ts", start_ns / 1e3},
             {"dur", std::max(0.0, end_ns - start_ns) / 1e3}};
  if (action.stage.valid()) entry["args"]["stage"] = action.stage.index();
  entry["args"]["micro_batch"] = action.micro_batch;
  return entry;
}

// Identifies a message within a run.
using Flow =
    std::tuple<uint64_t, bool, uint32_t, uint32_t, DeviceId, DeviceId>;  // step, activation, route, mb, from, to

Flow flow_of(const ActionRecord& record) {
  const ir::Action& action = record.action;
  const bool send = ir::is_send(action.kind);
  return {record.step,        ir::is_activation(action.kind),     action.route,
          action.micro_batch, send ? record.device : action.peer, send ? action.peer : record.device};
}

void add_flows(const std::vector<ActionRecord>& records, int64_t origin, json& events) {
  std::map<Flow, const ActionRecord*> sends;
  for (const ActionRecord& record : records) {
    if (ir::is_send(record.action.kind)) sends.emplace(flow_of(record), &record);
  }
  int next = 0;
  for (const ActionRecord& record : records) {
    if (!ir::is_receive(record.action.kind)) continue;
    const auto send = sends.find(flow_of(record));
    if (send == sends.end()) continue;
    const int id = next++;
    const auto arrow = [&](const char* phase, DeviceId device, int64_t at_ns) {
      return json{{"ph", phase},
                  {"id", id},
                  {"name", "message"},
                  {"cat", "message"},
                  {"pid", kActual},
                  {"tid", device.index()},
                  {"ts", static_cast<double>(at_ns - origin) / 1e3},
                  {"bp", "e"}};
    };
    const int64_t sent = send->second->end_ns;
    events.push_back(arrow("s", send->second->device, sent));
    // A receive is only posted. It may end long before its message is sent; the consuming action waits.
    events.push_back(arrow("f", record.device, std::max(sent, record.end_ns)));
  }
}

}  // namespace

void TraceRecorder::finished(const ActionRecord& record) {
  const std::lock_guard lock(mutex_);
  // Devices are at most one step apart, so older records are dropped when a new step begins.
  if (!records_.empty() && record.step > records_.back().step && record.step >= steps_) {
    std::erase_if(records_, [&](const ActionRecord& old) { return old.step + steps_ <= record.step; });
  }
  records_.push_back(record);
}

std::vector<ActionRecord> TraceRecorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<ActionRecord> sorted = records_;
  sort_records(sorted);
  return sorted;
}

void sort_records(std::vector<ActionRecord>& records) {
  std::sort(records.begin(), records.end(), [](const ActionRecord& a, const ActionRecord& b) {
    return std::tuple(a.step, a.device, a.start_ns, a.end_ns) < std::tuple(b.step, b.device, b.start_ns, b.end_ns);
  });
}

std::string chrome_trace(const ir::PipelineShape& shape, const std::vector<ActionRecord>& actual,
                         const std::vector<PlannedSpan>& planned) {
  json events = json::array();
  events.push_back(metadata("process_name", kActual, 0, "actual"));
  events.push_back(metadata("process_name", kPlanned, 0, "planned"));
  for (uint32_t device = 0; device < shape.devices; ++device) {
    for (const int process : {kActual, kPlanned}) {
      events.push_back(metadata("thread_name", process, static_cast<int>(device), "device " + std::to_string(device)));
    }
  }
  int64_t origin = 0;
  int64_t last_step_start = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    origin = i == 0 ? actual[i].start_ns : std::min(origin, actual[i].start_ns);
    const bool new_step = i == 0 || actual[i].step != actual[i - 1].step;
    last_step_start = new_step ? actual[i].start_ns : std::min(last_step_start, actual[i].start_ns);
  }
  for (const ActionRecord& record : actual) {
    json entry = event(kActual, record.device, record.action, static_cast<double>(record.start_ns - origin),
                       static_cast<double>(record.end_ns - origin));
    entry["args"]["step"] = record.step;
    entry["args"]["waited_us"] = static_cast<double>(record.waited_ns) / 1e3;
    events.push_back(std::move(entry));
    events.push_back({{"ph", "C"},
                      {"pid", kActual},
                      {"name", "live bytes, device " + std::to_string(record.device.index())},
                      {"ts", static_cast<double>(record.end_ns - origin) / 1e3},
                      {"args", {{"bytes", record.live_bytes}}}});
  }
  add_flows(actual, origin, events);
  const double shift = static_cast<double>(last_step_start - origin);
  for (const PlannedSpan& span : planned) {
    events.push_back(event(kPlanned, span.device, span.action, shift + span.start_ns, shift + span.end_ns));
  }
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

std::string print_records(const std::vector<ActionRecord>& records) {
  std::ostringstream text;
  for (const ActionRecord& record : records) {
    const ir::Action& action = record.action;
    text << record.step << ' ' << record.device.index() << ' ' << static_cast<int>(action.kind) << ' ' << action.route
         << ' ' << action.stage.index() << ' ' << action.micro_batch << ' ' << action.peer.index() << ' '
         << record.start_ns << ' ' << record.end_ns << ' ' << record.waited_ns << ' ' << record.live_bytes << '\n';
  }
  return text.str();
}

Result<std::vector<ActionRecord>> parse_records(const std::string& text, const std::string& file) {
  std::vector<ActionRecord> records;
  std::istringstream lines(text);
  uint32_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream fields(line);
    ActionRecord record;
    uint32_t device = 0, kind = 0, route = 0, stage = 0, peer = 0;
    fields >> record.step >> device >> kind >> route >> stage >> record.action.micro_batch >> peer >> record.start_ns >>
        record.end_ns >> record.waited_ns >> record.live_bytes;
    if (fields.fail() || kind >= ir::kActionKinds) return error({file, number, 1, {}}, "is not an action record");
    record.device = DeviceId(device);
    record.action.kind = static_cast<ir::ActionKind>(kind);
    record.action.route = route & ir::Action::kNone;
    record.action.stage = StageId(stage);
    record.action.peer = DeviceId(peer);
    records.push_back(record);
  }
  return records;
}

}  // namespace rannc::runtime
