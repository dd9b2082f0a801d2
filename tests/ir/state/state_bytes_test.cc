// Tensors of state out of stored values and back, and every way in which handed-in tensors fail to fit.
#include "ir/state/state_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ir/graph/rewriter.h"
#include "ir/state/state.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Sizes = std::vector<int64_t>;
using Given = std::map<std::string, StoredTensor>;

TensorData floats(const std::vector<double>& values) { return encode_numbers(DType::kF32, values); }

std::vector<double> numbers(DType dtype, const std::vector<std::byte>& bytes) {
  ValueType type;
  type.dtype = dtype;
  type.shape = Shape{Dim(static_cast<int64_t>(bytes.size() / byte_size(dtype)))};
  return decode_numbers(type, TensorData::in_memory(bytes), INT64_MAX).value();
}

StoredTensor given(const Sizes& shape, TensorData data, DType dtype = DType::kF32) {
  ValueType type;
  type.dtype = dtype;
  type.shape = Shape(shape.begin(), shape.end());
  return {type, std::move(data)};
}

std::vector<double> counting(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i));
  return values;
}

/// A graph of stored values 0, 1, 2 … each, and lines of state.
Graph stored(const std::string& values, const std::string& state) {
  Graph graph = parse_graph("rannc.graph 1\n" + values + state, "t.rir").value();
  const auto found = verify(graph);
  EXPECT_TRUE(found.empty()) << found[0].str();
  for (const ValueId value : graph.values()) {
    const ValueType& type = graph.type(value);
    if (is_float(type.dtype)) graph.set_data(value, encode_numbers(type.dtype, counting(*static_count(type))));
  }
  return graph;
}

const std::string kWeight = "parameter %w: f32[2,3]\n";

std::vector<double> read(const Graph& graph, const StateTensor& tensor) {
  return numbers(graph.type(tensor.parts[0].value).dtype, state_bytes(graph, tensor, stored_in(graph)).value());
}

TEST(StateBytes, AreTheStoredOnesReordered) {
  const Graph graph = stored(kWeight + "constant %u: f32[2,2,3]\nparameter %s: f32[]\n",
                             "state \"same\" [2,3] = %w\n"
                             "state \"turned\" [3,2] = %w from [0,0] extent [2,3] axes [1,0]\n"
                             "state \"column\" [2] = %w from [0,1] extent [2,1] axes [0,1]\n"
                             "state \"gates\" [4,2] = %u from [1,0,1] extent [1,2,2] axes [0,1,2] + "
                             "%u from [0,0,1] extent [1,2,2] axes [0,2,1]\n"
                             "state \"scale\" [] = %s\n"
                             "state \"none\" [0] = %w from [0,0] extent [0,3] axes [0,1]\n");
  const auto& state = graph.state();
  EXPECT_THAT(read(graph, state[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read(graph, state[1]), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(read(graph, state[2]), ElementsAre(1, 4));
  EXPECT_THAT(read(graph, state[3]), ElementsAre(7, 8, 10, 11, 1, 4, 2, 5));
  EXPECT_THAT(read(graph, state[4]), ElementsAre(0));
  EXPECT_THAT(read(graph, state[5]), ElementsAre());
}

TEST(StateBytes, OfNoBytesOrTheWrongNumberAreErrors) {
  Graph graph = stored(kWeight, "state \"fc.weight\" [6] = %w\n");
  const auto short_of = [](ValueId) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(5); };
  EXPECT_THAT(state_bytes(graph, graph.state()[0], short_of).diagnostic().str(),
              HasSubstr("\"fc.weight\": stored value %w has 5 bytes, its type f32[2,3] has 24"));
  graph.set_data(graph.find("w"), {});
  EXPECT_THAT(state_bytes(graph, graph.state()[0], stored_in(graph)).diagnostic().str(), HasSubstr("fc.weight"));
}

TEST(StateBytes, WhatHasNoNameGoesByItsOwn) {
  const Graph graph = stored(kWeight + "buffer %mean: f32[2]\nconstant %c: f32[2]\nparameter %part: f32[2,2]\n",
                             "state \"mean\" [3,2] = %w from [0,0] extent [2,3] axes [1,0]\n"
                             "state \"half\" [2] = %part from [0,0] extent [1,2] axes [0,1]\n");
  const FullState state = full_state(graph);
  std::vector<std::string> names;
  for (const StateTensor& tensor : state.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("mean", "half", "mean.1"));
  EXPECT_THAT(state.own_names, ElementsAre("mean.1"));
  EXPECT_THAT(state.partly, ElementsAre(graph.find("part")));
  const Graph both = stored("parameter %part: f32[2,2]\n",
                            "state \"a\" [2] = %part from [0,0] extent [1,2] axes [0,1]\n"
                            "state \"b\" [2] = %part from [1,0] extent [1,2] axes [0,1]\n");
  EXPECT_THAT(full_state(both).partly, ElementsAre());
}

TensorData taken(const Graph& graph, const Given& tensors, const char* value, TakeState how = {}) {
  const StateMatch match = match_state(graph, tensors, how).value();
  const ValueId id = graph.find(value);
  return taken_bytes(graph, id, match.sources.at(id), stored_in(graph)).value();
}

TEST(TakenState, FillsStoredValues) {
  const Graph graph = stored(kWeight + "parameter %u: f32[2,2,2]\n",
                             "state \"turned\" [3,2] = %w from [0,0] extent [2,3] axes [1,0]\n"
                             "state \"back\" [2,2] = %u from [1,0,0] extent [1,2,2] axes [0,1,2]\n");
  const Given tensors = {{"turned", given({3, 2}, floats({10, 11, 12, 13, 14, 15}))},
                         {"back", given({2, 2}, floats({20, 21, 22, 23}))}};
  EXPECT_THAT(numbers(DType::kF32, taken(graph, tensors, "w").read().value()), ElementsAre(10, 12, 14, 11, 13, 15));
  EXPECT_THAT(numbers(DType::kF32, taken(graph, tensors, "u").read().value()), ElementsAre(0, 1, 2, 3, 20, 21, 22, 23))
      << "what has no name keeps its value";
}

TEST(TakenState, StaysInItsFileWhereItIsTheValue) {
  const Graph graph = stored(kWeight, "");
  const TensorData data = TensorData::in_file("there is no such file", 40, 24);
  EXPECT_EQ(taken(graph, {{"w", given({2, 3}, data)}}, "w"), data);
}

TEST(TakenState, TiedTensorsAreEqualOrAnError) {
  const Graph graph = stored("parameter %w: f32[2,2]\n",
                             "state \"embed\" [2,2] = %w\n"
                             "state \"head\" [2,2] = %w from [0,0] extent [2,2] axes [1,0]\n");
  const StoredTensor embed = given({2, 2}, floats({1, 2, 3, NAN}));
  const StoredTensor equal = given({2, 2}, floats({1, 3, 2, NAN})), other = given({2, 2}, floats({1, 3, 9, NAN}));
  EXPECT_THAT(taken(graph, {{"embed", embed}, {"head", equal}}, "w"), embed.data);
  EXPECT_THAT(taken(graph, {{"embed", embed}}, "w"), embed.data) << "a file may hold it once";
  const StateMatch match = match_state(graph, {{"embed", embed}, {"head", other}}, {}).value();
  const auto refused = taken_bytes(graph, ValueId(0), match.sources.at(ValueId(0)), stored_in(graph));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().message, HasSubstr("\"embed\" and \"head\" are one in this model"));
  EXPECT_THAT(refused.diagnostic().message, HasSubstr("%w"));
}

TEST(TakenState, EverythingWrongIsListedAtOnce) {
  const Graph graph = stored(kWeight + "parameter %b: f32[2]\nparameter %c: f32[2]\nparameter %d: f32[2]\n", "");
  const Given tensors = {{"w", given({3, 2}, floats(counting(6)))},
                         {"b", given({2}, encode_numbers(DType::kF64, counting(2)), DType::kF64)},
                         {"e", given({2}, floats({1, 2}))},
                         {"f", given({2}, floats({1, 2}))}};
  const auto refused = match_state(graph, tensors, {.file = "w.safetensors"});
  ASSERT_FALSE(refused.ok());
  const std::string text = refused.diagnostic().str();
  EXPECT_THAT(text, HasSubstr("w.safetensors: error: does not fit the 4 tensors of the model's state: 2 missing, 2 "
                              "unexpected, 2 of another type or shape"));
  EXPECT_THAT(text, HasSubstr("missing: c, d"));
  EXPECT_THAT(text, HasSubstr("unexpected: e, f"));
  EXPECT_THAT(text, HasSubstr("w is f32[3,2], expected f32[2,3]"));
  EXPECT_THAT(text, HasSubstr("b is f64[2], expected f32[2]"));
  const auto partial = match_state(graph, tensors, {.partial = true});
  ASSERT_FALSE(partial.ok()) << "shapes count all the same";
  EXPECT_THAT(partial.diagnostic().str(), Not(HasSubstr("missing")));
}

TEST(TakenState, NamesMayBeMissingOrUnexpectedOnDemand) {
  const Graph graph = stored(kWeight + "parameter %b: f32[2]\n", "");
  const StateMatch match =
      match_state(graph, {{"b", given({2}, floats({5, 6}))}, {"e", given({}, floats({1}))}}, {.partial = true}).value();
  EXPECT_THAT(match.missing, ElementsAre("w"));
  EXPECT_THAT(match.unexpected, ElementsAre("e"));
  EXPECT_EQ(match.sources.size(), 1U);
}

TEST(TakenState, CountersOfBatchesAreNotUnexpected) {
  const Graph graph = stored("buffer %mean: f32[2]\n", "");
  const auto count = given({}, encode_integers(DType::kI64, std::vector<int64_t>{3}), DType::kI64);
  const auto mean = given({2}, floats({1, 2}));
  EXPECT_TRUE(match_state(graph, {{"mean", mean}, {"bn.num_batches_tracked", count}}, {}).ok());
  EXPECT_FALSE(match_state(graph, {{"mean", mean}, {"bn.num_batches_tracked", mean}}, {}).ok());
  EXPECT_FALSE(match_state(graph, {{"mean", mean}, {"my_num_batches_tracked", count}}, {}).ok());
}

TEST(TakenState, FloatsOfAnotherWidthAreConvertedOnDemandAlone) {
  const Graph graph =
      stored("parameter %w: f64[2]\nconstant %i: i64[1]\n", "state \"w\" [2] = %w\nstate \"i\" [1] = %i\n");
  Given tensors = {{"w", given({2}, floats({0.5, -2}))},
                   {"i", given({1}, encode_integers(DType::kI64, std::vector<int64_t>{3}), DType::kI64)}};
  EXPECT_FALSE(match_state(graph, tensors, {}).ok());
  EXPECT_THAT(numbers(DType::kF64, taken(graph, tensors, "w", {.converts = true}).read().value()),
              ElementsAre(0.5, -2));
  tensors["i"] = given({1}, encode_integers(DType::kI32, std::vector<int64_t>{3}), DType::kI32);
  EXPECT_FALSE(match_state(graph, tensors, {.converts = true}).ok()) << "integers are not";
}

/// One random box of a value of these sizes.
StatePart random_part(const Graph& graph, ValueId value, std::mt19937_64& random) {
  StatePart part = whole(graph, value);
  for (size_t i = 0; i < part.extent.size(); ++i) {
    part.begin[i] = static_cast<int64_t>(random() % static_cast<uint64_t>(part.extent[i]));
    part.extent[i] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(part.extent[i] - part.begin[i]));
  }
  std::shuffle(part.axes.begin(), part.axes.end(), random);
  return part;
}

TEST(TakenState, ComesBackAsItWasHandedIn) {
  const uint64_t seed = 20240607;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 1000; ++round) {
    Graph graph = stored("parameter %a: f32[3,1,4,2]\nparameter %b: f32[5]\nparameter %c: f32[3,4]\n", "");
    StateTensor tensor{"t", {0}, {}};
    for (const ValueId value : graph.values()) {
      tensor.parts.push_back(random_part(graph, value, random));
      int64_t elements = 1;
      for (const int64_t extent : tensor.parts.back().extent) elements *= extent;
      tensor.shape[0] += elements;
    }
    graph.add_state(tensor);
    ASSERT_TRUE(verify(graph).empty());
    std::vector<double> values = counting(tensor.shape[0]);
    std::shuffle(values.begin(), values.end(), random);
    const StateMatch match = match_state(graph, {{"t", given(tensor.shape, floats(values))}}, {.file = "t"}).value();
    for (const auto& [value, sources] : match.sources) {
      graph.set_data(value, taken_bytes(graph, value, sources, stored_in(graph)).value());
    }
    ASSERT_EQ(read(graph, tensor), values) << "round " << round;
  }
}

TEST(DeadCode, LeavesWhatTheStateNames) {
  Graph graph = parse_graph(
                    "rannc.graph 1\ninput %x: f32[2]\nparameter %unread: f32[3]\nparameter %lost: f32[2]\n"
                    "parameter %w: f32[2]\nbuffer %b: f32[1]\n"
                    "#0 %y: f32[2] = core.add(%x, %w)\ninputs [%x]\noutputs [%y]\n"
                    "state \"unread\" [3] = %unread\nstate \"w\" [2] = %w\nstate \"b\" [1] = %b\n",
                    "t.rir")
                    .value();
  EXPECT_TRUE(remove_dead(graph));
  EXPECT_FALSE(graph.find("lost").valid());
  ASSERT_TRUE(graph.find("unread").valid());
  EXPECT_EQ(graph.kind(graph.find("unread")), ValueKind::kConstant) << "nothing trains it";
  EXPECT_EQ(graph.kind(graph.find("w")), ValueKind::kParameter);
  EXPECT_EQ(graph.state().size(), 3U);
  EXPECT_FALSE(remove_dead(graph)) << "it is idempotent";
}

}  // namespace
}  // namespace rannc::ir
