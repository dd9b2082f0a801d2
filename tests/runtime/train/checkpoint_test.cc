// Folders of checkpoints: which are complete, and which are removed when a newer one is.
#include "runtime/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/common/scratch.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::UnorderedElementsAre;

class Checkpoints : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return fs::path(scratch_.path()) / name; }
  void write(const std::string& name) const {
    ASSERT_TRUE(write_checkpoint_part(path(name).string(), 0, {}).ok());
    ASSERT_TRUE(finish_checkpoint(path(name).string(), {0}, {}).ok());
  }
  void write_all(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write(name);
  }
  void remove_older(const std::string& than, uint64_t kept) const {
    const Result<void> removed = remove_older_checkpoints(path(than).string(), kept);
    EXPECT_TRUE(removed.ok()) << removed.diagnostic().str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) found.push_back(entry.path().filename());
    return found;
  }

 private:
  tools::Scratch scratch_;
};

TEST_F(Checkpoints, TheNewestAreKept) {
  write_all({"step-2", "step-9", "step-10", "step-100"});
  remove_older("step-100", 0);
  EXPECT_EQ(names().size(), 4U) << "0 keeps all";
  remove_older("step-100", 4);
  EXPECT_EQ(names().size(), 4U);
  remove_older("step-100", 2);
  EXPECT_THAT(names(), UnorderedElementsAre("step-10", "step-100"));
  remove_older("step-100", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-100"));
  remove_older("step-100", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-100")) << "the only one stays";
}

TEST_F(Checkpoints, NewerOnesAndOtherFoldersStay) {
  write_all({"step-2", "step-4", "step-6", "final", "step-1b"});
  fs::create_directory(path("step-1"));  // without a manifest it is no checkpoint
  std::ofstream(path("step-3")) << "a file";
  remove_older("step-4", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-1", "step-1b", "step-3", "step-4", "step-6", "final"));
  remove_older("final", 1);
  EXPECT_EQ(names().size(), 6U) << "it has no step that others could be older than";
}

TEST_F(Checkpoints, OneThatIsNotThereRemovesNothing) {
  write("step-2");
  EXPECT_FALSE(remove_older_checkpoints(path("step-4").string(), 1).ok());
  EXPECT_THAT(names(), UnorderedElementsAre("step-2"));
}

// As if the process had been killed between the two steps of a removal, or while it wrote a checkpoint.
TEST_F(Checkpoints, AnInterruptedRemovalLeavesNoneThatCounts) {
  write_all({"step-2", "step-4"});
  fs::rename(path("step-2"), partial_checkpoint(path("step-2").string()));
  EXPECT_EQ(latest_checkpoint(path("").string()), path("step-4").string());
  fs::rename(path("step-4"), partial_checkpoint(path("step-4").string()));
  EXPECT_EQ(latest_checkpoint(path("").string()), "");
  write("step-6");
  ASSERT_TRUE(write_checkpoint_part(path("step-8").string(), 0, {}).ok());
  remove_older("step-6", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-6", "step-8.partial")) << "step 8 is being written";
}

}  // namespace
}  // namespace rannc::runtime
