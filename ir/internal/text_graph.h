/// Statements of a graph, which texts of graphs and of plans share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/graph/graph.h"
#include "ir/internal/text_cursor.h"

namespace rannc::ir {

/// Appends all statements of a graph, in the order of value ids, without the version line.
void append_graph(std::string& to, const Graph& graph);

/// Appends `bernoulli drop 0x1p-2 key 7`. Adds the probability to `comment`.
void append_random_input(std::string& to, const RandomInput& random_input, std::string& comment);
/// Reads the same.
Result<RandomInput> read_random_input(TextCursor& line);

/// Builds a graph statement by statement.
class GraphReader {
 public:
  /// `depth`: number of enclosing bodies.
  explicit GraphReader(const std::string& file, int depth = 0);
  /// Reads a statement of a graph. Returns false and leaves the cursor unmoved if the keyword is another.
  Result<bool> read(TextCursor& line);
  const Graph& graph() const { return graph_; }
  /// Checks at the end of the text that every body is closed.
  Result<void> check_end(const std::string& file) const;
  Graph take() && {
    graph_.set_totals(std::move(totals_));
    return std::move(graph_);
  }

 private:
  Result<bool> read_in_body(TextCursor& line);
  Result<void> open_body(TextCursor& line);
  Result<void> read_leaf(TextCursor& line, ValueKind kind);
  Result<void> read_task(TextCursor& line);
  Result<void> read_loss(TextCursor& line);
  Result<void> read_statistics(TextCursor& line);
  Result<void> read_state(TextCursor& line);
  Result<StatePart> read_state_part(TextCursor& line);
  Result<void> read_name(TextCursor& line);
  Result<void> read_batch(TextCursor& line);
  Result<void> read_assumption(TextCursor& line);
  Result<void> read_list(TextCursor& line, bool inputs);
  Result<std::vector<ValueId>> read_values(TextCursor& line);
  Result<bool> read_totals(TextCursor& line);
  Result<uint32_t> read_coefficient(TextCursor& line);
  Result<Body> read_body(TextCursor& line);
  Result<std::string> fresh_name(TextCursor& line);
  Result<TensorData> read_data(TextCursor& line);
  Result<void> add_factor(TextCursor& line, const Attributes& given);
  Result<ValueId> read_value(TextCursor& line);
  Result<const OpInfo*> read_op(TextCursor& line);
  Result<Location> read_location(TextCursor& line);

  std::string folder_;  ///< of the text's file, with a trailing slash; paths of data files are relative to it
  Graph graph_;
  Totals totals_;  ///< of the graph, until it is taken
  int depth_;
  std::unique_ptr<GraphReader> inner_;  ///< reader of the open body
  std::vector<Body> bodies_;
  bool has_inputs_ = false, has_outputs_ = false;
  std::vector<std::string> output_names_;  ///< of the task being read; a member to save allocations
  std::vector<ValueType> output_types_;
  std::vector<ValueId> operands_;
};

/// Reads the first line of a text: `format` and its version, 1.
inline Result<void> expect_version(TextCursor& line, std::string_view format) {
  if (!line.accept_word(format)) return line.expected("the first line `" + std::string(format) + " 1`");
  const size_t column = line.column();
  RANNC_ASSIGN(const uint64_t version, line.unsigned_integer("a version"));
  if (version != 1) {
    return line.fault(column, "version " + std::to_string(version) + " of " + std::string(format) +
                                  " is not known here; this program reads version 1");
  }
  return line.expect_end();
}

/// Checks that the first line is `format` 1. Then calls `statement(TextCursor&)`, which returns Result<void>, for each
/// line that contains more than blanks and a comment.
template <class Statement>
Result<void> each_statement(std::string_view text, const std::string& file, std::string_view format,
                            Statement&& statement) {
  bool versioned = false;
  DimCache dims;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    TextCursor line(text.substr(0, end), number, file, &dims);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!versioned) {
      RANNC_TRY(expect_version(line, format));
      versioned = true;
    } else if (!line.at_end()) {
      RANNC_TRY(statement(line));
    }
  }
  if (versioned) return {};
  return TextCursor({}, 1, file).expected("the first line `" + std::string(format) + " 1`");
}

}  // namespace rannc::ir
