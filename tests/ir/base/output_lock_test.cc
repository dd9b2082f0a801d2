// One run at a time writes to an output.
#include "ir/base/output_lock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "ir/base/process_mark.h"

namespace rannc {
namespace {

namespace fs = std::filesystem;

class OutputLockTest : public testing::Test {
 protected:
  OutputLockTest() : root_(testing::TempDir() + "lock-XXXXXX") { EXPECT_NE(mkdtemp(root_.data()), nullptr); }
  ~OutputLockTest() override { fs::remove_all(root_); }
  std::string file() const { return root_ + "/run.lock"; }
  Result<OutputLock> take() const { return OutputLock::take(file(), root_, "rannc-run"); }
  std::string root_;
};

TEST_F(OutputLockTest, AnotherRunIsRefusedByTheNameOfTheFirst) {
  {
    const auto first = take();
    ASSERT_TRUE(first.ok());
    const auto second = take();
    ASSERT_FALSE(second.ok());
    const std::string text = second.diagnostic().str();
    EXPECT_TRUE(text.starts_with(root_ + ": error: another run writes to it: rannc-run of user ")) << text;
    EXPECT_NE(text.find(fmt::format("process {} on host ", getpid())), std::string::npos) << text;
    EXPECT_NE(text.find(" s ago); wait for its end"), std::string::npos) << text;
  }
  EXPECT_TRUE(fs::is_empty(root_)) << "the last owner removes it";
  EXPECT_TRUE(take().ok());
}

TEST_F(OutputLockTest, ItEndsWithItsProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = take();
    _exit(lock.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(file())) << "nobody removed it";
  EXPECT_TRUE(take().ok());
}

TEST_F(OutputLockTest, OfManyAtOnceOneHasIt) {
  constexpr size_t kThreads = 12;
  for (int round = 0; round < 20; ++round) {
    std::vector<Result<OutputLock>> taken;
    for (size_t i = 0; i < kThreads; ++i) taken.emplace_back(OutputLock());
    {
      std::vector<std::jthread> threads;
      for (auto& each : taken) threads.emplace_back([&] { each = take(); });
    }
    EXPECT_EQ(std::count_if(taken.begin(), taken.end(), [](const auto& each) { return each.ok(); }), 1);
  }
}

TEST_F(OutputLockTest, ALinkIsNotFollowed) {
  std::ofstream(root_ + "/precious") << "kept";
  fs::create_symlink("precious", file());
  EXPECT_FALSE(take().ok());
  std::string content;
  EXPECT_TRUE(std::getline(std::ifstream(root_ + "/precious"), content));
  EXPECT_EQ(content, "kept");
}

TEST_F(OutputLockTest, AFileOfAStrangerIsNoTrouble) {
  std::ofstream(file()) << std::string(10000, '\x1b');
  EXPECT_TRUE(take().ok());
  fs::create_directory(file());
  EXPECT_FALSE(take().ok());
}

TEST(ProcessMarkTest, TellsProcessesApart) {
  const std::string own = process_mark();
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(state_of(own), ProcessState::kRuns);
  const std::string later = own.substr(0, own.rfind('-') + 1) + "1";
  EXPECT_EQ(state_of(later), ProcessState::kGone) << "its number was used before";
  EXPECT_EQ(state_of("0badcafe-1-1"), ProcessState::kUnknown);
  for (const char* text : {"", "-", "12", "of-mine"}) EXPECT_EQ(state_of(text), ProcessState::kUnknown) << text;
}

}  // namespace
}  // namespace rannc
