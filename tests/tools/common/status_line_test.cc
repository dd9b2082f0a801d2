// When progress is said, on a terminal and elsewhere, by a clock of the test's own.
#include "tools/common/status_line.h"

#include <gtest/gtest.h>

namespace rannc::tools {
namespace {

TEST(StatusPace, SaysNothingOfShortWork) {
  StatusPace pace(/*terminal=*/false, 3, 10);
  pace.show("measuring 1 of 9 tasks", 100);
  EXPECT_FALSE(pace.due(101));
  pace.show("", 102);
  EXPECT_FALSE(pace.due(200));
}

TEST(StatusPace, SaysSparseLinesOffATerminal) {
  StatusPace pace(/*terminal=*/false, 3, 10);
  int lines = 0;
  for (int second = 0; second < 42; ++second) {
    pace.show("measuring " + std::to_string(second) + " of 42 tasks", second);
    if (const auto line = pace.due(second + 0.5)) {
      ++lines;
      EXPECT_EQ(line->substr(0, 10), "measuring ");
      EXPECT_NE(line->find(" s)"), std::string::npos) << *line;
    }
  }
  EXPECT_EQ(lines, 4) << "after 3, 13, 23 and 33 seconds: counting on is the same work";
}

TEST(StatusPace, OtherWorkBeginsAnew) {
  StatusPace pace(/*terminal=*/false, 3, 10);
  pace.show("measuring the stages side by side: step 1", 0);
  EXPECT_EQ(pace.due(4), "measuring the stages side by side: step 1 (4 s)");
  pace.show("measuring the stages side by side: step 2", 5);
  EXPECT_FALSE(pace.due(6));
  pace.show("searching for a plan", 6);
  EXPECT_FALSE(pace.due(8));
  EXPECT_EQ(pace.due(9), "searching for a plan (3 s)");
}

TEST(StatusPace, IsAlwaysNewOnATerminal) {
  StatusPace pace(/*terminal=*/true);
  pace.show("measuring 1 of 2 tasks", 0);
  EXPECT_EQ(pace.due(0), "measuring 1 of 2 tasks");
  EXPECT_FALSE(pace.due(0.5));
  pace.show("measuring 2 of 2 tasks", 0.6);
  EXPECT_EQ(pace.due(0.6), "measuring 2 of 2 tasks");
  EXPECT_EQ(pace.due(1.7), "measuring 2 of 2 tasks (2 s)") << "seconds go on";
}

}  // namespace
}  // namespace rannc::tools
