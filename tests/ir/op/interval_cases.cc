#include "tests/ir/op/interval_cases.h"

#include <gtest/gtest.h>

#include "ir/graph/constant.h"

namespace rannc::ir::testing {

ValueId Maker::numbers(std::vector<int64_t> shape, std::vector<int64_t> values) {
  return add_constant(graph, "c" + std::to_string(graph.value_count()), DType::kI64, shape,
                      std::span<const int64_t>(values));
}

ValueId Maker::places_of(const char* name, ValueId operand, Attributes attributes) {
  const std::vector<std::string> results = {"largest", "places"};
  const TaskId task = graph.add_task(core(name), std::span(&operand, 1), std::move(attributes), results, {});
  const auto inferred = infer_types(graph, task);
  EXPECT_TRUE(inferred.ok()) << inferred.diagnostic().str();
  return graph.outputs(task)[1];
}

ValueId Maker::op(const char* name, const std::vector<ValueId>& operands, Attributes attributes) {
  const std::vector<std::string> results = {"v" + std::to_string(graph.value_count())};
  const TaskId task = graph.add_task(core(name), operands, std::move(attributes), results, {});
  const auto inferred = infer_types(graph, task);
  EXPECT_TRUE(inferred.ok()) << inferred.diagnostic().str();
  return graph.outputs(task)[0];
}

ValueId Maker::pairs() {
  const ValueId fives = op("expand", {numbers({1, 1}, {5})}, {{"shape", Shape{batch, 1}}});
  return op("concat", {column(), fives}, {{"axis", Dim(-1)}});
}

ValueId Maker::places(const std::vector<int64_t>& pads) {
  const ValueType type{.dtype = DType::kF32, .shape = Shape{batch, 2, 4, s}, .batch = {.axis = 0}};
  const ValueId x = graph.add_value(ValueKind::kInput, "x", type);
  graph.add_input(x);
  return places_of("max_pool", x, {{"kernel", Shape{2, 2}}, {"pads", Shape(pads.begin(), pads.end())}});
}

namespace {

Attributes axes(Shape list) { return {{"axes", std::move(list)}}; }
Attributes to(DType dtype) { return {{"dtype", dtype}}; }
Attributes rounding(const char* word) { return {{"rounding", std::string(word)}}; }
constexpr const char* kNothing = nullptr;

std::vector<IntervalCase> leaves_and_views() {
  return {
      {"contents",
       [](Maker& m) {
         return m.numbers({3}, {4, -2, 7});
       },
       "0", "-2", "7"},
      {"contents_component",
       [](Maker& m) {
         return m.numbers({3}, {4, -2, 7});
       },
       "0", "7", "7", 2},
      {"contents_beyond", [](Maker& m) { return m.numbers({1}, {4}); }, kNothing, "", "", 1},
      {"argmax",
       [](Maker& m) {
         const ValueId rows = m.op("expand", {m.numbers({1, 3}, {4, 9, 7})}, {{"shape", Shape{m.batch, 3}}});
         return m.op("argmax", {rows}, {{"axis", Dim(-1)}});
       },
       "0", "0", "2"},
      {"topk",
       [](Maker& m) {
         const ValueId rows = m.op("expand", {m.numbers({1, 3}, {4, 9, 7})}, {{"shape", Shape{m.batch, 3}}});
         return m.places_of("topk", rows, {{"k", Dim(2)}});
       },
       "0", "0", "2", -1, true},
      {"one_hot",
       [](Maker& m) {
         return m.op("one_hot", {m.column()}, {{"depth", Dim(4)}});
       },
       "0", "0", "1"},
      {"argmax_of_symbols",
       [](Maker& m) {
         return m.op("argmax", {m.unknown()}, {{"axis", Dim(0)}});
       },
       "0", "0", "s - 1"},
      {"sizes", [](Maker& m) { return m.op("shape", {m.column()}); }, "0", "1", "batch"},
      {"constant",
       [](Maker& m) {
         return m.numbers({2, 2}, {1, 10, 3, 20});
       },
       "0", "1", "20"},
      {"constant_component",
       [](Maker& m) {
         return m.numbers({2, 2}, {1, 10, 3, 20});
       },
       "0", "10", "20", 1},
      {"constant_beyond",
       [](Maker& m) {
         return m.numbers({1, 1}, {1});
       },
       kNothing, "", "", 1},
      {"far",
       [](Maker& m) {
         return m.numbers({2}, {0, INT64_MAX});
       },
       kNothing, "", ""},
      {"range_of_samples", [](Maker& m) { return m.samples(); }, "1", "0", "0"},
      {"range_by_threes",
       [](Maker& m) {
         return m.op("range", {}, {{"start", Dim(2)}, {"limit", m.batch * Dim(3) + Dim(2)}, {"delta", Dim(3)}});
       },
       "3", "2", "2"},
      {"range_of_several_for_each_sample", [](Maker& m) { return m.range(m.batch * Dim(3)); }, "3", "0", "2"},
      {"places",
       [](Maker& m) {
         return m.places({1, 0, 1, 0});
       },
       "0", "0", "4*s - 1", -1, true},
      {"places_in_what_is_padded_by_hand",
       [](Maker& m) {
         return m.places({1, 0, 0, 0});
       },
       kNothing, "", "", -1, true},
      {"range_of_sizes", [](Maker& m) { return m.unknown(); }, "0", "0", "s - 1"},
      {"range_downwards",
       [](Maker& m) {
         return m.op("range", {}, {{"start", m.s}, {"limit", Dim(0)}, {"delta", Dim(-1)}});
       },
       "0", "1", "s"},
      {"identity", [](Maker& m) { return m.op("identity", {m.pairs()}); }, "0", "5", "5", 1},
      {"cast", [](Maker& m) { return m.op("cast", {m.pairs()}, to(DType::kI32)); }, "1", "0", "0", 0},
      {"cast_samples_to_bytes", [](Maker& m) { return m.op("cast", {m.samples()}, to(DType::kI8)); }, kNothing, "", ""},
      {"cast_that_wraps",
       [](Maker& m) {
         return m.op("cast", {m.numbers({1, 2}, {5, 300})}, to(DType::kI8));
       },
       kNothing, "", ""},
      {"cast_that_fits",
       [](Maker& m) {
         return m.op("cast", {m.numbers({1, 2}, {5, 100})}, to(DType::kI8));
       },
       "0", "5", "100"},
      {"cast_to_bool", [](Maker& m) { return m.op("cast", {m.samples()}, to(DType::kBool)); }, "0", "0", "1"},
      {"expand",
       [](Maker& m) {
         return m.op("expand", {m.pairs()}, {{"shape", Shape{4, m.batch, 2}}});
       },
       "1", "0", "0", 0},
      {"expand_of_one",
       [](Maker& m) {
         return m.op("expand", {m.column()}, {{"shape", Shape{m.batch, 3}}});
       },
       "1", "0", "0", 2},
      {"unsqueeze", [](Maker& m) { return m.column(); }, "1", "0", "0", 0},
      {"unsqueeze_of_components", [](Maker& m) { return m.op("unsqueeze", {m.pairs()}, axes({1})); }, kNothing, "", "",
       1},
      {"squeeze", [](Maker& m) { return m.op("squeeze", {m.column()}, axes({1})); }, "1", "0", "0"},
      {"reshape",
       [](Maker& m) {
         return m.op("reshape", {m.column()}, {{"shape", Shape{-1}}});
       },
       "1", "0", "0"},
      {"permute",
       [](Maker& m) {
         return m.op("permute", {m.column()}, {{"dims", Shape{1, 0}}});
       },
       "1", "0", "0"},
      {"permute_of_components",
       [](Maker& m) {
         return m.op("permute", {m.pairs()}, {{"dims", Shape{1, 0}}});
       },
       kNothing, "", "", 0},
      {"concat_first", [](Maker& m) { return m.pairs(); }, "1", "0", "0", 0},
      {"concat_second", [](Maker& m) { return m.pairs(); }, "0", "5", "5", 1},
      {"concat_mixed", [](Maker& m) { return m.pairs(); }, kNothing, "", ""},
      {"concat_whole",
       [](Maker& m) {
         return m.op("concat", {m.unknown(), m.numbers({2}, {-3, 1})}, {{"axis", Dim(0)}});
       },
       "0", "-3", "max(1, s - 1)"},
  };
}

std::vector<IntervalCase> arithmetic() {
  return {
      {"add",
       [](Maker& m) {
         return m.op("add", {m.column(), m.unknown()});
       },
       "1", "0", "s - 1"},
      {"add_to_components",
       [](Maker& m) {
         return m.op("add", {m.pairs(), m.scalar(2)});
       },
       "0", "7", "7", 1},
      {"add_pair_to_components",
       [](Maker& m) {
         return m.op("add", {m.pairs(), m.numbers({1, 2}, {2, 3})});
       },
       "1", "2", "2", 0},
      {"add_column_to_components",
       [](Maker& m) {
         return m.op("add", {m.pairs(), m.column()});
       },
       "1", "5", "5", 1},
      {"sub",
       [](Maker& m) {
         return m.op("sub", {m.unknown(), m.column()});
       },
       "-1", "0", "s - 1"},
      {"sub_of_intervals",
       [](Maker& m) {
         return m.op("sub", {m.numbers({1, 2}, {1, 9}), m.numbers({2, 1}, {2, 4})});
       },
       "0", "-3", "7"},
      {"mul",
       [](Maker& m) {
         return m.op("mul", {m.scalar(12), m.samples()});
       },
       "12", "0", "0"},
      {"mul_by_size",
       [](Maker& m) {
         return m.op("mul", {m.column(), m.op("shape", {m.unknown()})});
       },
       "s", "0", "0"},
      {"mul_by_negative",
       [](Maker& m) {
         return m.op("mul", {m.unknown(), m.scalar(-2)});
       },
       "0", "-2*s + 2", "0"},
      {"mul_of_naturals",
       [](Maker& m) {
         const ValueId hot = m.op("one_hot", {m.column()}, {{"depth", Dim(4)}});
         return m.op("mul", {hot, m.op("cast", {m.op("gt", {hot, m.scalar(0)})}, to(DType::kI64))});
       },
       "0", "0", "1"},
      {"mul_of_two",
       [](Maker& m) {
         return m.op("mul", {m.samples(), m.samples()});
       },
       kNothing, "", ""},
      {"div",
       [](Maker& m) {
         const ValueId places = m.op("add", {m.op("mul", {m.column(), m.scalar(12)}), m.numbers({1, 2}, {-1, 25})});
         return m.op("div", {places, m.scalar(6)}, rounding("floor"));
       },
       "2", "-1", "4"},
      {"div_by_size",
       [](Maker& m) {
         return m.op("div", {m.unknown(), m.op("shape", {m.unknown()})}, rounding("trunc"));
       },
       "0", "0", "0"},
      {"div_towards_zero",
       [](Maker& m) {
         return m.op("div", {m.numbers({1, 2}, {-5, 7}), m.scalar(2)}, rounding("trunc"));
       },
       kNothing, "", ""},
      {"div_by_negative",
       [](Maker& m) {
         return m.op("div", {m.numbers({1, 2}, {-5, 7}), m.scalar(-2)}, rounding("floor"));
       },
       kNothing, "", ""},
      {"div_of_samples",
       [](Maker& m) {
         return m.op("div", {m.samples(), m.scalar(2)}, rounding("floor"));
       },
       kNothing, "", ""},
      {"mod_in_one_turn",
       [](Maker& m) {
         const ValueId places = m.op("add", {m.op("mul", {m.column(), m.scalar(12)}), m.numbers({1, 2}, {13, 17})});
         return m.op("mod", {places, m.scalar(6)});
       },
       "0", "1", "5"},
      {"mod_over_turns",
       [](Maker& m) {
         return m.op("mod", {m.numbers({1, 2}, {-1, 1}), m.scalar(6)});
       },
       "0", "0", "5"},
      {"mod_of_samples",
       [](Maker& m) {
         return m.op("mod", {m.samples(), m.scalar(6)});
       },
       kNothing, "", ""},
      {"mod_by_negative",
       [](Maker& m) {
         return m.op("mod", {m.numbers({1, 1}, {3}), m.scalar(-6)});
       },
       kNothing, "", ""},
      {"maximum",
       [](Maker& m) {
         return m.op("maximum", {m.numbers({1, 2}, {-3, 4}), m.numbers({1, 2}, {0, 2})});
       },
       "0", "0", "4"},
      {"maximum_of_samples",
       [](Maker& m) {
         return m.op("maximum", {m.samples(), m.scalar(1)});
       },
       kNothing, "", ""},
      {"minimum",
       [](Maker& m) {
         return m.op("minimum", {m.unknown(), m.numbers({}, {3})});
       },
       "0", "0", "min(3, s - 1)"},
      {"minimum_of_samples",
       [](Maker& m) {
         return m.op("minimum", {m.samples(), m.op("add", {m.samples(), m.scalar(1)})});
       },
       "1", "0", "0"},
      {"clamp",
       [](Maker& m) {
         return m.op("clamp", {m.numbers({1, 2}, {-3, 40})}, {{"min", Dim(0)}, {"max", Dim(9)}});
       },
       "0", "0", "9"},
      {"clamp_below",
       [](Maker& m) {
         return m.op("clamp", {m.unknown()}, {{"min", Dim(2)}});
       },
       "0", "2", "max(2, s - 1)"},
      {"clamp_of_samples",
       [](Maker& m) {
         return m.op("clamp", {m.samples()}, {{"min", Dim(2)}});
       },
       kNothing, "", ""},
      {"where",
       [](Maker& m) {
         const ValueId numbers = m.column(), low = m.op("lt", {numbers, m.scalar(2)});
         return m.op("where", {low, numbers, m.op("add", {numbers, m.numbers({1, 2}, {2, 3})})});
       },
       "1", "0", "3"},
      {"where_of_two_kinds",
       [](Maker& m) {
         return m.op("where", {m.op("lt", {m.samples(), m.scalar(2)}), m.samples(), m.scalar(1)});
       },
       kNothing, "", ""},
  };
}

}  // namespace

std::vector<IntervalCase> interval_cases() {
  std::vector<IntervalCase> all = leaves_and_views();
  for (IntervalCase& each : arithmetic()) all.push_back(std::move(each));
  return all;
}

}  // namespace rannc::ir::testing
