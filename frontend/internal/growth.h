/// Bounds the memory of an imported graph by the size of its file.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// The part of a graph that has been counted.
struct Counted {
  uint32_t tasks = 0, values = 0, types = 0;
};

/// Nested functions and loops, sequences and tables let a file of a few bytes request any number of tasks. Therefore
/// everything that is created is counted: tasks, values, their names and numbers created by translators. Exported
/// models take about as many bytes in the file as in the graph. The smallest node, without a name, takes 30 bytes in
/// the file and 400 in the graph. The limit therefore never rejects a file that lists its nodes one by one.
class Growth {
 public:
  explicit Growth(uint64_t file_bytes) : file_bytes_(file_bytes), most_(kBase + kPerFileByte * file_bytes) {}

  /// Counts one more node or run of a body, and the part of `graph` beyond `counted`. Returns whether it is within the
  /// limit.
  bool add(const ir::Graph& graph, Counted& counted);
  /// Returns the error for an exceeded limit. `maker` is the body that contains the node at `where`.
  Diagnostic excess(const ir::Graph& graph, const std::string& maker, const Location& where) const;
  /// Counted bytes. `set_back` restores an earlier count when the graph is restored.
  uint64_t bytes() const { return bytes_; }
  void set_back(uint64_t bytes) { bytes_ = bytes; }
  uint64_t file_bytes() const { return file_bytes_; }
  /// Bytes of a copy of a graph.
  static uint64_t bytes_of_copy(const ir::Graph& graph);
  /// Whether `bytes` more are within the limit.
  bool allows(uint64_t bytes) const { return bytes_ + bytes <= most_; }

 private:
  static constexpr uint64_t kBase = uint64_t{40} << 20, kPerFileByte = 16;

  uint64_t file_bytes_, most_;
  uint64_t bytes_ = 0;
};

}  // namespace rannc::frontend
