/// Base class of all translators, which queries values and adds tasks to a graph.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using SymbolPair = std::pair<std::string, std::string>;

/// Symbols of inputs that must be equal for a rejected task to run.
struct UnequalSymbols {
  std::vector<SymbolPair> pairs;  ///< the symbol to keep first; empty: none
  bool certain = false;           ///< the operator cannot run otherwise
};

/// Asks the user to declare the symbols equal: `if these sizes are always equal, specify: --same-symbol b=a`.
std::string advice_on_equal(const std::vector<SymbolPair>& pairs);

/// Adds the tasks of one operator of a model. Errors latch: the first is kept, later queries return harmless values and
/// later tasks are dropped.
class TaskWriter {
 public:
  /// `maker` names the operator in messages. Names of results derive from `stem`.
  TaskWriter(ir::Graph& graph, Location where, std::string maker, std::string stem)
      : graph_(graph), where_(std::move(where)), maker_(std::move(maker)), stem_(std::move(stem)) {}

  // --- properties of values
  ir::DType dtype(ValueId value) const { return type(value).dtype; }
  const ir::ValueType& type(ValueId value) const;
  std::string_view name(ValueId value) const;  ///< for messages; empty if absent
  /// The shape, or null and an error if the rank is unknown.
  const ir::Shape* shape(ValueId value);
  /// `axis` counted from the front. An error if it is outside [-rank, rank), or [-rank, rank] with `end`.
  int64_t axis(int64_t axis, int64_t rank, bool end = false);
  /// Matches the tasks emitted so far that produce a value.
  std::optional<ir::Match> match(ValueId value, const ir::Pattern& pattern) const;
  /// Elements of an integer or boolean value of rank 0 or 1. Also found if the model computes them in floats, or
  /// rearranges them through a higher rank, as exporters do to reorder the amounts of Pad.
  std::optional<ir::Shape> contents(ValueId value) const;
  /// Likewise if all are plain integers.
  std::optional<std::vector<int64_t>> integers(ValueId value) const;
  /// Elements of a computed float value of rank 0 or 1, truncated to integers, if they follow from sizes and constants.
  std::optional<ir::Shape> cut_to_sizes(ValueId value) const;
  /// The only element of a constant, looking through casts and changes of shape.
  std::optional<double> number(ValueId value) const;
  /// Likewise as an attribute: an integer for types other than floats, because doubles cannot represent every integer.
  std::optional<ir::Attribute> exact_number(ValueId value) const;
  /// All elements of a constant that has at most a few.
  std::optional<std::vector<double>> numbers(ValueId value) const;
  /// All elements, at most `limit`, in row-major order, of a value that is stored, repeats one number or has contents.
  std::optional<std::vector<double>> elements(ValueId value, int64_t limit = 1 << 20) const;
  /// Likewise for types other than floats, of which doubles cannot represent every integer.
  std::optional<std::vector<int64_t>> whole_elements(ValueId value, int64_t limit = 1 << 20) const;
  /// Whether all elements are zero: of a stored tensor, or of one repeated number, expanded or sliced.
  bool is_zero(ValueId value) const;

  /// Whether no element of an integer value is negative, because of its range or because it lists places of a mask.
  bool never_negative(ValueId value) const;

  // --- building
  /// Adds a task with one output, named after the operator.
  ValueId emit(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  ValueId emit(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// Adds a task with several outputs. They are invalid after a failure.
  std::vector<ValueId> emit_all(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                                size_t outputs);
  std::vector<ValueId> emit_all(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes,
                                size_t outputs);
  /// A scalar constant of that type.
  ValueId scalar(double value, ir::DType dtype);
  /// `x` converted to an element type.
  ValueId cast(ValueId x, ir::DType dtype);
  /// `x` in float32 if it has 16-bit floats.
  ValueId widened(ValueId x) { return cast(x, ir::sum_dtype(dtype(x))); }
  /// A random input of the type of `x`, or invalid if `x` is invalid. Fails for a type other than floats. An operator
  /// may have only one.
  ValueId add_random_input(ValueId x, ir::RandomInput add_random_input);

  /// Whether an operator that removes axes of one element removes one of that size. A free size is assumed to be more
  /// than 1. The samples stay, also a single one.
  bool is_squeezed(const ir::Dim& size);
  /// The places of the nonzero elements of a mask, i64[rank, count] (`frontend/internal/rows/picked_rows.h`).
  ValueId picked_places(ValueId mask);
  /// The places of all rows in ascending order of their classes, if `x` is the choice of classes of `topk`, flattened.
  std::optional<ValueId> sorted_places(ValueId x);
  /// The rows, as i64[1] each, that places list for a loop over all rows of a mask that are not zero. Nothing for other
  /// places.
  std::optional<std::vector<ValueId>> rows_hit(ValueId places);

  const UnequalSymbols& unequal_symbols() const { return unequal_symbols_; }
  void fail(std::string message);
  void fail(Diagnostic found);
  const std::optional<Diagnostic>& failure() const { return failure_; }
  /// Whether there was no failure so far.
  bool good() const { return !failure_; }

 protected:
  /// Adds a task whose results have these names. Returns nothing after a failure.
  std::vector<ValueId> add(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                           std::span<const std::string> names);
  std::string name_of(std::string_view part) const;
  const std::string& stem() const { return stem_; }
  ir::Graph& graph() const { return graph_; }
  const Location& where() const { return where_; }

 private:
  std::optional<ir::Shape> rearranged_contents(ValueId value) const;
  void find_unequal_symbols(const ir::OpInfo& op, std::span<const ValueId> operands);

  ir::Graph& graph_;
  Location where_;
  std::string maker_, stem_;
  std::optional<Diagnostic> failure_;
  UnequalSymbols unequal_symbols_;
};

/// The value of a one-element tensor. Nothing if there are more elements or no bytes.
std::optional<double> only_element(const ir::ValueType& type, const ir::TensorData& data);

/// Truncates to a 64-bit integer, saturating at its range.
int64_t whole(double value);

/// A list of plain integers as an attribute.
ir::Shape list(std::span<const int64_t> values);

}  // namespace rannc::frontend
