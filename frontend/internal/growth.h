/// What the importer may make of a file: a graph whose memory the file's size bounds.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// How far a graph has been counted.
struct Counted {
  uint32_t tasks = 0, values = 0, types = 0;
};

/// Functions that call functions, loops in loops, sequences and tables let a file of a few bytes ask for any number of
/// tasks, so all that is made is counted: tasks, values, their names, numbers of translators' own. What exporters write
/// takes about as many bytes in the file as in the graph; the barest node, without a name, takes 30 bytes there and 400
/// here. What the limit refuses is nothing that anybody wrote down node by node.
class Growth {
 public:
  explicit Growth(uint64_t file_bytes) : file_bytes_(file_bytes), most_(kBase + kPerFileByte * file_bytes) {}

  /// Counts one more node, or one more run of a body, and what `graph` has beyond `counted`; whether that may be.
  bool add(const ir::Graph& graph, Counted& counted);
  /// What is said where it may not: `maker` is the body that the node at `where` stands in.
  Diagnostic excess(const ir::Graph& graph, const std::string& maker, const Location& where) const;
  /// Counted bytes: handed to `set_back` they are those of a graph that is as it was.
  uint64_t bytes() const { return bytes_; }
  void set_back(uint64_t bytes) { bytes_ = bytes; }
  uint64_t file_bytes() const { return file_bytes_; }
  /// What a copy of a graph takes while it is there, and whether there is room for as much.
  static uint64_t bytes_of_copy(const ir::Graph& graph);
  bool allows(uint64_t bytes) const { return bytes_ + bytes <= most_; }

 private:
  static constexpr uint64_t kBase = uint64_t{40} << 20, kPerFileByte = 16;

  uint64_t file_bytes_, most_;
  uint64_t bytes_ = 0;
};

}  // namespace rannc::frontend
