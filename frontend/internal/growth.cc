#include "frontend/internal/growth.h"

#include <fmt/format.h>

namespace rannc::frontend {

namespace {

// Records, index entries and spare capacity of tables. A node counts even if nothing of it remains, because it takes
// time.
constexpr uint64_t kNodeBytes = 64, kTaskBytes = 160, kOperandBytes = 24, kValueBytes = 160, kTypeBytes = 400;

uint64_t task_bytes(const ir::Graph& graph, TaskId task) {
  return kTaskBytes + kOperandBytes * (graph.inputs(task).size() + graph.outputs(task).size());
}

uint64_t value_bytes(const ir::Graph& graph, ValueId id) {
  const ir::Graph::Value& value = graph.value(id);
  const uint64_t numbers =
      value.data.present() && !value.data.in_file() && !value.data.is_shared() ? value.data.size() : 0;
  return kValueBytes + 3 * value.name.size() + numbers;  // the node has a similar name, and its scope stores it too
}

}  // namespace

bool Growth::add(const ir::Graph& graph, Counted& counted) {
  bytes_ += kNodeBytes;
  for (; counted.tasks < graph.task_count(); ++counted.tasks) bytes_ += task_bytes(graph, TaskId(counted.tasks));
  for (; counted.values < graph.value_count(); ++counted.values) bytes_ += value_bytes(graph, ValueId(counted.values));
  bytes_ += kTypeBytes * (graph.type_count() - counted.types);
  counted.types = graph.type_count();
  return bytes_ <= most_;
}

Diagnostic Growth::excess(const ir::Graph& graph, const std::string& maker, const Location& where) const {
  constexpr double kMiB = 1 << 20;
  return error(where, fmt::format("{} brings the graph to {} tasks and {} values, of {:.1f} MiB in all; a file of {} "
                                  "bytes may become {:.1f} MiB",
                                  maker, graph.task_count(), graph.value_count(), static_cast<double>(bytes_) / kMiB,
                                  file_bytes_, static_cast<double>(most_) / kMiB));
}

uint64_t Growth::bytes_of_copy(const ir::Graph& graph) {
  return (kTaskBytes + kOperandBytes * 3) * graph.task_count() + kValueBytes * graph.value_count();
}

}  // namespace rannc::frontend
