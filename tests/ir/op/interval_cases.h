/// Graphs of index arithmetic, each with the interval of the value that it ends in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/op/interval.h"

namespace rannc::ir::testing {

/// Builds a graph whose sizes `batch` and `s` are symbols, or numbers.
struct Maker {
  explicit Maker(Bindings bound = {}) : numbers_of(std::move(bound)) {
    if (numbers_of.empty()) graph.set_batch_symbol("batch");
  }
  Dim symbol(const char* name) const {
    const auto found = numbers_of.find(name);
    return found == numbers_of.end() ? Dim::symbol(name) : Dim(found->second);
  }
  ValueId numbers(std::vector<int64_t> shape, std::vector<int64_t> values);
  ValueId scalar(int64_t value) { return numbers({}, {value}); }
  /// The result of a task, of inferred type.
  ValueId op(const char* name, const std::vector<ValueId>& operands, Attributes attributes = {});
  /// The second result of a task with one operand.
  ValueId places_of(const char* name, ValueId operand, Attributes attributes);
  ValueId range(const Dim& limit) { return op("range", {}, {{"limit", limit}}); }
  ValueId samples() { return range(batch); }
  ValueId column() { return op("unsqueeze", {samples()}, {{"axes", Shape{1}}}); }
  /// [batch, 2]: each sample's number, then 5.
  ValueId pairs();
  /// Places of maxima of an input [batch, 2, 4, s], by windows of 2 and those pads.
  ValueId places(const std::vector<int64_t>& pads);
  /// 0…s-1 of unknown contents.
  ValueId unknown() { return range(s); }

  Bindings numbers_of;
  Graph graph;
  Dim batch = symbol("batch"), s = symbol("s");
};

/// The elements of what `build` gives: an interval, as text.
struct IntervalCase {
  const char* name;
  std::function<ValueId(Maker&)> build;
  const char *factor, *low, *high;  ///< no factor: nothing is known
  int64_t component = -1;
  bool of_data = false;  ///< it depends on what an input has
};

/// At least one case of each interval rule, one where it says nothing, and values that no task makes.
std::vector<IntervalCase> interval_cases();

}  // namespace rannc::ir::testing
