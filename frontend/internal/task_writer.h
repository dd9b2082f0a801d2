/// What translators of all frontends share: what is known of values, and tasks that are added to a graph.
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

/// Adds the tasks that an operator of a model becomes. Errors latch: the first is kept, what is asked afterwards
/// answers with something harmless, what is emitted is dropped.
class TaskWriter {
 public:
  /// `maker` is the operator in messages; names of tasks' results derive from `stem`.
  TaskWriter(ir::Graph& graph, Location where, std::string maker, std::string stem)
      : graph_(graph), where_(std::move(where)), maker_(std::move(maker)), stem_(std::move(stem)) {}

  // --- what is known of values
  ir::DType dtype(ValueId value) const { return type(value).dtype; }
  const ir::ValueType& type(ValueId value) const;
  std::string_view name(ValueId value) const;  ///< for messages; empty where absent
  /// The shape, or null and an error where the rank is not known.
  const ir::Shape* shape(ValueId value);
  /// `axis` counted from the front; an error where it is outside of [-rank, rank), or [-rank, rank] with `end`.
  int64_t axis(int64_t axis, int64_t rank, bool end = false);
  /// What makes a value, among the tasks emitted so far.
  std::optional<ir::Match> match(ValueId value, const ir::Pattern& pattern) const;
  /// Elements of an integer or boolean value of rank 0 or 1: also where the model computes them in floats, and where
  /// tasks that only rearrange made it from such contents by way of a higher rank, as exporters turn the order of Pad's
  /// amounts.
  std::optional<ir::Shape> contents(ValueId value) const;
  /// The same where all are plain integers.
  std::optional<std::vector<int64_t>> integers(ValueId value) const;
  /// Elements of a computed value of floats, of rank 0 or 1, once they are cut to integers, where sizes and constants
  /// say them.
  std::optional<ir::Shape> cut_to_sizes(ValueId value) const;
  /// The only element of a constant, seen through casts and changes of shape.
  std::optional<double> number(ValueId value) const;
  /// All elements, at most a few, of a constant.
  std::optional<std::vector<double>> numbers(ValueId value) const;
  /// All elements, in row-major order, of a value that is stored, repeats one number or has contents: at most `limit`.
  std::optional<std::vector<double>> elements(ValueId value, int64_t limit = 1 << 20) const;
  /// Whether a value is zero throughout: a stored tensor, or one number in every place, stretched or cut.
  bool is_zero(ValueId value) const;

  // --- building
  /// A task of one output, under a name derived from the operator's.
  ValueId emit(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  ValueId emit(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// A task of several outputs; invalid ones after a failure.
  std::vector<ValueId> emit_all(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                                size_t outputs);
  std::vector<ValueId> emit_all(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes,
                                size_t outputs);
  /// A scalar constant of that type.
  ValueId scalar(double value, ir::DType dtype);
  /// Random numbers like `x`, or invalid where `x` is not known; a failure where they would be no floats. An operator
  /// draws once.
  ValueId draw(ValueId x, ir::RandomInput draw);

  /// Two symbols of inputs that must be equal for a refused task to run, the earlier first.
  const std::optional<SymbolPair>& unequal_symbols() const { return unequal_symbols_; }
  void fail(std::string message);
  void fail(Diagnostic found);
  const std::optional<Diagnostic>& failure() const { return failure_; }
  /// `emit` has something to build on: no failure so far.
  bool good() const { return !failure_; }

 protected:
  /// A task whose results have those names; nothing after a failure.
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
  std::optional<SymbolPair> unequal_symbols_;
};

/// The value of a tensor of one element; nothing where there are more, or no bytes.
std::optional<double> only_element(const ir::ValueType& type, const ir::TensorData& data);

/// The nearest 64-bit integer towards zero, within the range of what fits.
int64_t whole(double value);

/// A list of plain integers as an attribute.
ir::Shape list(std::span<const int64_t> values);

}  // namespace rannc::frontend
