// Losses of a run outlive its ends.
#include "tools/run/loss_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ir/base/replacement.h"
#include "tools/common/scratch.h"

namespace rannc::tools {
namespace {

class LossLogTest : public ::testing::Test {
 protected:
  std::string text() const { return read_file(path).value(); }
  void write(const std::string& text) const { std::ofstream(path) << text; }

  const Scratch scratch;
  const std::string path = scratch.path() + "/losses.txt";
};

TEST_F(LossLogTest, GoesOnWhereACheckpointWas) {
  {
    LossLog log = LossLog::open(path, 0).value();
    for (uint64_t step = 0; step < 5; ++step) ASSERT_TRUE(log.add(step, 1.0 / static_cast<double>(step + 3)).ok());
  }
  std::ofstream(path, std::ios::app) << "5 0x1.8";  // a run that was killed in the middle of a line
  LossLog log = LossLog::open(path, 3).value();
  EXPECT_EQ(text(), "0 0x1.5555555555555p-2\n1 0x1p-2\n2 0x1.999999999999ap-3\n");
  ASSERT_TRUE(log.add(3, 7).ok());
  EXPECT_EQ(log.first(), 0U);
  EXPECT_EQ(log.losses(), (std::vector<double>{1.0 / 3, 0.25, 0.2, 7}));
}

TEST_F(LossLogTest, ANewRunBeginsANewFile) {
  write("0 0x1p+0\n");
  LossLog log = LossLog::open(path, 0).value();
  EXPECT_EQ(text(), "");
  EXPECT_TRUE(log.losses().empty());
}

TEST_F(LossLogTest, StepsThatNobodyWroteDownAreNotMadeUp) {
  write("0 0x1p+0\n1 0x1p+0\n4 0x1p+1\n");
  LossLog gap = LossLog::open(path, 5).value();
  EXPECT_EQ(gap.first(), 4U);
  EXPECT_EQ(gap.losses(), std::vector<double>{2});
  EXPECT_EQ(text(), "0 0x1p+0\n1 0x1p+0\n4 0x1p+1\n") << "lines of earlier steps stay";
  LossLog later = LossLog::open(path, 9).value();
  EXPECT_TRUE(later.losses().empty());
  ASSERT_TRUE(later.add(9, 3).ok());
  EXPECT_EQ(later.first(), 9U);
  EXPECT_EQ(text(), "0 0x1p+0\n1 0x1p+0\n4 0x1p+1\n9 0x1.8p+1\n");
}

TEST_F(LossLogTest, AFileOfSomethingElseIsLeftAlone) {
  for (const char* other : {"hello\n", "hello", "1 2 3\n", "1\n", "x 0x1p+0\n", "0 0x1p+0!\n", "-1 0x1p+0\n",
                            "18446744073709551616 0x1p+0\n"}) {
    SCOPED_TRACE(other);
    write(other);
    const auto refused = LossLog::open(path, 2);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.diagnostic().str().find("losses.txt:1"), std::string::npos) << refused.diagnostic().str();
    EXPECT_EQ(text(), other);
  }
}

TEST_F(LossLogTest, AFolderThatIsNotThere) { EXPECT_FALSE(LossLog::open(scratch.path() + "/no/losses.txt", 0).ok()); }

}  // namespace
}  // namespace rannc::tools
