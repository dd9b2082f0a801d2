// Measurements of a run's steps outlive its ends.
#include "tools/run/step_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ir/base/replacement.h"
#include "tools/common/scratch.h"

namespace rannc::tools {
namespace {

class StepLogTest : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string text() const { return read_file(path).value(); }

  const Scratch scratch;
  const std::string path = scratch.path() + "/run.jsonl";
};

TEST_F(StepLogTest, ALineHasWhatIsKnownOfItsStep) {
  StepLog log = StepLog::open(path, 0).value();
  StepFacts facts{.done = 1, .loss = 0.1, .learning_rate = 0.5, .seconds = 0.25, .samples = 8};
  ASSERT_TRUE(log.add(facts).ok());
  facts.tokens = 64;
  facts.gradient_norm = 1.5;
  facts.validation = {.loss = 2, .accuracy = 0.75, .samples = 3};
  ASSERT_TRUE(log.add(facts).ok());
  EXPECT_EQ(text(),
            R"({"step":1,"loss":0.1,"learning_rate":0.5,"seconds":0.25,"samples_per_second":32.0}
{"step":1,"loss":0.1,"learning_rate":0.5,"seconds":0.25,"samples_per_second":32.0,"tokens_per_second":256.0,)"
            R"("gradient_norm":1.5,"validation_loss":2.0,"validation_accuracy":0.75}
)");
}

TEST_F(StepLogTest, LinesAfterTheCheckpointAreRemoved) {
  write("{\"step\":2,\"loss\":1}\n{\"step\":3}\n{\"step\":4}\n{\"step\":5,\"lo");
  StepLog log = StepLog::open(path, 3).value();
  EXPECT_EQ(text(), "{\"step\":2,\"loss\":1}\n{\"step\":3}\n");
  ASSERT_TRUE(log.add({.done = 4, .loss = 1, .seconds = 1}).ok());
  EXPECT_TRUE(StepLog::open(path, 4).ok());
  EXPECT_NE(text().find("\"step\":4"), std::string::npos);
  write("{\"step\":4}\n{\"step\":5");  // torn behind the checkpoint
  EXPECT_TRUE(StepLog::open(path, 9).ok());
  EXPECT_EQ(text(), "{\"step\":4}\n");
}

TEST_F(StepLogTest, ANewRunBeginsANewFile) {
  write("{\"step\":2}\n");
  EXPECT_TRUE(StepLog::open(path, 0).ok());
  EXPECT_EQ(text(), "");
  EXPECT_TRUE(StepLog::open(scratch.path() + "/other.jsonl", 5).ok()) << "of a run that had none";
}

TEST_F(StepLogTest, AFileOfSomethingElseIsLeftAlone) {
  for (const char* other : {"hello\n", "hello", "{\"step\":-1}\n", "{\"step\":\"1\"}\n", "[1]\n", "{\"loss\":1}\n"}) {
    write(other);
    const auto refused = StepLog::open(path, 2);
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_NE(refused.diagnostic().str().find("run.jsonl:1"), std::string::npos) << refused.diagnostic().str();
    EXPECT_EQ(text(), other);
  }
  EXPECT_FALSE(StepLog::open(scratch.path() + "/no/run.jsonl", 0).ok());
}

}  // namespace
}  // namespace rannc::tools
