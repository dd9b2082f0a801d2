// Loops whose condition compares what they count make a known number of trips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::HasSubstr;

/// How often a loop runs: tanh by tanh where it is unrolled, else as its task says; or why it is refused.
std::string trips_of(std::string_view text, const ImportOptions& options = {}) {
  const auto graph = test::import_graph(text, 17, options);
  if (!graph.ok()) return graph.diagnostic().str();
  EXPECT_THAT(ir::verify(*graph), ::testing::IsEmpty());
  size_t tasks = 0;
  for (const TaskId task : graph->tasks()) {
    if (graph->op(task).name == "core.loop") {
      const ir::Attribute* const trips = graph->attributes(task).find("trips");
      return trips != nullptr ? "trips " + std::get<ir::Dim>(*trips).str() : "max_trips";
    }
    if (graph->op(task).name == "core.tanh") ++tasks;
  }
  return std::to_string(tasks);
}

/// x by tanh, trip after trip; the counter starts at `start`, `n` is the length of `times`.
std::string loop(std::string_view most, std::string_view start, std::string_view condition,
                 std::string_view next = "Add (count, one)") {
  return "agraph (float[batch, 4] x, float[T] times) => (float[batch, 4] y) <int32 first = {" + std::string(start) +
         R"(}, bool yes = {1}, int64 huge = {9223372036854775807}, int64 few = {4}, int64 zero = {0},
    int32 six = {6}> {
    shape = Shape (times)
    n64 = Gather (shape, zero)
    n = Cast <to = 6> (n64)
    last, y = Loop ()" +
         std::string(most) + R"(, yes, first, x) <body = body (int64 i, bool go, int32 count, float[batch, 4] s)
        => (bool more, int32 next, float[batch, 4] t) <int32 one = {1}, int32 two = {2}> {
      t = Tanh (s)
      next = )" +
         std::string(next) + "\n      " + std::string(condition) + "\n    }>\n  }";
}

TEST(CountedTrips, OfAConditionOnCarriedIntegers) {
  struct Case {
    std::string_view start, condition, next, trips;
  };
  const Case cases[] = {
      {"0", "more = Less (next, six)", "Add (count, one)", "6"},
      {"0", "more = Less (count, six)", "Add (count, one)", "7"},
      {"2", "more = LessOrEqual (next, six)", "Add (count, one)", "5"},
      {"6", "more = Greater (next, two)", "Sub (count, one)", "4"},
      {"0", "more = Less (next, six)", "Add (two, count)", "3"},
      {"0", "e = Equal (next, six)\n more = Not (e)", "Add (count, one)", "6"},
      {"6", "e = Equal (two, next)\n more = Not (e)", "Sub (count, one)", "4"},
      {"0", "e = Greater (six, next)\n more = And (e, go)", "Add (count, one)", "6"},
      {"0", "a = Less (next, six)\n k = Cast <to = 6> (i)\n b = Less (k, two)\n more = And (a, b)", "Add (count, one)",
       "3"},
      {"9", "more = Less (next, six)", "Add (count, one)", "1"},
      {"0", "e = Mul (next, two)\n more = Less (e, six)", "Add (count, one)", "3"},
      {"1", "more = Less (next, six)", "Mul (count, two)", "3"},  // no counting, but each condition is known
  };
  for (const Case& each : cases) {
    EXPECT_EQ(trips_of(loop("huge", each.start, each.condition, each.next)), each.trips) << each.condition;
    EXPECT_EQ(trips_of(loop("\"\"", each.start, each.condition, each.next)), each.trips) << each.condition;
  }
  EXPECT_EQ(trips_of(loop("few", "0", "more = Less (next, six)")), "4");
}

TEST(CountedTrips, FollowSizes) {
  EXPECT_EQ(trips_of(loop("huge", "0", "more = Less (next, n)")), "trips T");
  EXPECT_EQ(trips_of(loop("n64", "0", "more = Less (next, n)")), "trips T");
  EXPECT_EQ(trips_of(loop("few", "0", "more = Less (next, n)")), "trips min(4, T)");
  EXPECT_EQ(trips_of(loop("huge", "0", "a = Less (next, n)\n b = Less (next, six)\n more = And (b, a)")),
            "trips min(6, T)");
  EXPECT_EQ(trips_of(loop("huge", "3", "more = Less (next, n)")), "trips max(0, T - 4) + 1");
}

TEST(CountedTrips, OfALongLoopAreATask) {
  std::string text = loop("huge", "0", "more = Less (next, six)");
  text.replace(text.find("six = {6}"), 9, "six = {9000}");
  EXPECT_EQ(trips_of(text), "trips 9000");
}

TEST(CountedTrips, AreNotGuessed) {
  // An odd number is never six; no size is below 1; nothing ends the last.
  EXPECT_THAT(trips_of(loop("huge", "1", "e = Equal (next, six)\n more = Not (e)", "Add (count, two)")),
              HasSubstr("--max-trips"));
  EXPECT_EQ(trips_of(loop("huge", "0", "more = Less (n, next)")), "1");
  EXPECT_THAT(trips_of(loop("huge", "0", "more = Identity (go)")), HasSubstr("--max-trips"));
}

}  // namespace
}  // namespace rannc::frontend
