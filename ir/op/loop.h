/// Tasks as statements of loops over rows and columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/op/loop_expression.h"
#include "ir/op/op_call.h"

namespace rannc::ir {

/// One statement: an expression over operands and earlier statements of the task.
struct LoopStatement {
  enum class Kind : uint8_t {
    kEach,       ///< for each element
    kRow,        ///< once per row, from values per row
    kRowSum,     ///< sum of the expression over the columns
    kRowMax,     ///< maximum of the expression over the columns
    kColumnSum,  ///< sum of the expression over the rows; only a result
    kTotal,      ///< sum of the expression, a value per row, over the rows; only a result
  };
  Kind kind = Kind::kEach;
  LoopExpression expression;
  std::optional<uint32_t> result = {};  ///< of the task, that the statement makes
  bool operator==(const LoopStatement&) const = default;
};
using LoopBody = std::vector<LoopStatement>;

/// Returns the text form of statements, which refer to earlier ones by number and name results:
/// `{row_sum x0; row (div s0 n); each y0 (sub x0 s1)}`. Numbers are hexadecimal.
std::string print(const LoopBody& body);
/// Reads the text form. `file` is the location of errors.
Result<LoopBody> parse_loop_body(std::string_view text, const std::string& file);

/// Labels: integers per row that number columns. One that is neither a column nor `ignored` is an error.
struct LoopLabels {
  uint32_t operand = 0;
  int64_t ignored = 0;
  bool operator==(const LoopLabels&) const = default;
};

/// How a value lies over rows and columns. The index of row r is
/// r / divisor % period + r / outer_divisor % outer_period * period.
struct LoopValue {
  enum class Kind : uint8_t {
    kFull,     ///< an element per row and column; period is the number of rows
    kRows,     ///< elements of all columns, for periodic rows
    kScalars,  ///< one element per row, for periodic rows
  };
  Kind kind = Kind::kFull;
  Dim divisor = 1, period = 1;
  Dim outer_divisor = 1, outer_period = 1;
  bool operator==(const LoopValue&) const = default;
};

/// Whether row r of a value is row r of a loop of that many rows.
bool has_all_rows(const LoopValue& value, const Dim& rows);

/// A task as a loop.
struct LoopTask {
  LoopBody body;
  Dim rows, columns;
  std::optional<DType> dtype;  ///< of its floats; nothing: it has none
  std::optional<LoopLabels> labels;
  bool by_rows = false;             ///< a statement reduces rows or columns, or an operand does not have all elements
  std::vector<LoopValue> operands;  ///< parallel to the task's; meaningless if absent
  std::vector<LoopStatement::Kind> results;  ///< how each result is made
};

/// Whether a result exists only after the last row, so that no statement of the same loop can read it.
bool is_known_late(LoopStatement::Kind made);

/// Returns the task as a loop. Nothing if its operator has no loop rule, or types, layouts or sizes are such that
/// LibTorch's kernels are used instead. Depends on the task alone, so that a cut does not change how a task is
/// computed.
std::optional<LoopTask> loop_task(const Graph& graph, TaskId task);

/// Whether a task changes only how rows are counted: a reshape that keeps the last axis.
bool keeps_columns(const Graph& graph, TaskId task);

}  // namespace rannc::ir
