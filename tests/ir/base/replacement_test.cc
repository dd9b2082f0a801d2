// Files and folders appear whole or not at all.
#include "ir/base/replacement.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace rannc {
namespace {

namespace fs = std::filesystem;

class ReplacementTest : public testing::Test {
 protected:
  ReplacementTest() : root_(testing::TempDir() + "replacement-XXXXXX") { EXPECT_NE(mkdtemp(root_.data()), nullptr); }
  ~ReplacementTest() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return root_ + "/" + name; }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  std::string root_;
};

TEST_F(ReplacementTest, AFileIsWrittenOverAnother) {
  ASSERT_TRUE(write_file(at("a"), "first").ok());
  ASSERT_TRUE(write_file(at("a"), "second").ok());
  EXPECT_EQ(read(at("a")), "second");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, NothingIsLeftOfWhatWasNotCommitted) {
  ASSERT_TRUE(write_file(at("a"), "old").ok());
  {
    const Replacement half(at("a"));
    std::ofstream(half.temporary()) << "ha";
    EXPECT_EQ(entries(), 2U);
  }
  EXPECT_EQ(read(at("a")), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(at("elsewhere"));
  fs::create_symlink("elsewhere/b", at("a"));
  for (const char* content : {"first", "second"}) {  // the first: the target is not there
    ASSERT_TRUE(write_file(at("a"), content).ok());
    EXPECT_TRUE(fs::is_symlink(at("a")));
    EXPECT_EQ(read(at("elsewhere/b")), content);
  }
  EXPECT_EQ(entries(), 2U);
}

TEST_F(ReplacementTest, ADeviceIsWrittenTo) {
  EXPECT_TRUE(is_stream("/dev/null"));
  ASSERT_TRUE(write_file("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const auto full = write_file("/dev/full", "text");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.diagnostic().str(), "/dev/full: error: cannot be written: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(ReplacementTest, AFifoIsWrittenTo) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read(at("fifo")); });
  EXPECT_TRUE(write_file(at("fifo"), "text").ok());
  reader.join();
  EXPECT_EQ(received, "text");
  EXPECT_TRUE(fs::is_fifo(at("fifo")));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, AFolderIsNotReplacedByAFile) {
  fs::create_directory(at("f"));
  std::ofstream(at("f/kept")) << "kept";
  const auto written = write_file(at("f"), "text");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.diagnostic().message, "cannot be written: it is a folder");
  EXPECT_EQ(read(at("f/kept")), "kept");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, AFileOrDeviceIsNotReplacedByAFolder) {
  ASSERT_TRUE(write_file(at("a"), "kept").ok());
  for (const std::string& path : {at("a"), std::string("/dev/null")}) {
    Replacement folder(path);
    fs::create_directory(folder.temporary());
    EXPECT_FALSE(folder.commit().ok()) << path;
  }
  EXPECT_EQ(read(at("a")), "kept");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, AFolderTakesTheOldOnesPlace) {
  for (const char* content : {"first", "second"}) {
    Replacement folder(at("f"));
    fs::create_directory(folder.temporary());
    std::ofstream(folder.temporary() + "/" + content) << content;
    ASSERT_TRUE(folder.commit().ok());
  }
  EXPECT_TRUE(fs::exists(at("f/second")));
  EXPECT_FALSE(fs::exists(at("f/first")));
  EXPECT_EQ(entries(), 1U);
}

// Returns after the child has ended, as killed processes do: without destructors.
void in_killed_process(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ReplacementTest, TheNextOneRemovesWhatKilledProcessesLeft) {
  for (int i = 0; i < 2; ++i) {
    in_killed_process([&] {
      const Replacement folder(at("f"));
      fs::create_directory(folder.temporary());
      std::ofstream(folder.temporary() + "/x") << "half";
      _exit(0);
    });
    in_killed_process([&] {
      const Replacement file(at("a"));
      std::ofstream(file.temporary()) << "half";
      _exit(0);
    });
    EXPECT_EQ(entries(), 2U + (i == 0 ? 0U : 2U)) << "a partial file and folder, and what was committed";
    ASSERT_TRUE(write_file(at("a"), "whole").ok());
    Replacement folder(at("f"));
    fs::create_directory(folder.temporary());
    ASSERT_TRUE(folder.commit().ok());
    EXPECT_EQ(entries(), 2U);
  }
}

TEST_F(ReplacementTest, WhatLivingProcessesAndOtherHostsWriteStays) {
  const Replacement file(at("a"));
  std::ofstream(file.temporary()) << "half";
  const std::string foreign = at("a.partial-0badcafe-1-1"), named = at("a.partial-of-mine");
  std::ofstream{foreign};
  std::ofstream{named};
  const Replacement again(at("a"));
  EXPECT_TRUE(fs::exists(file.temporary()));
  EXPECT_TRUE(fs::exists(foreign));
  fs::last_write_time(foreign, fs::file_time_type::clock::now() - std::chrono::hours(30));
  const Replacement later(at("a"));
  EXPECT_FALSE(fs::exists(foreign)) << "nobody writes for so long without a change";
  EXPECT_TRUE(fs::exists(named));
}

TEST_F(ReplacementTest, AFolderThatWasMovedAsideReturns) {
  fs::create_directory(at("f"));
  std::ofstream(at("f/kept")) << "kept";
  in_killed_process([&] {
    fs::rename(at("f"), Replacement(at("f")).temporary() + ".old");
    _exit(0);
  });
  EXPECT_FALSE(fs::exists(at("f")));
  const Replacement next(at("f"));
  EXPECT_EQ(read(at("f/kept")), "kept");
  EXPECT_EQ(entries(), 1U);
}

// A process that is killed in between leaves one of both.
TEST_F(ReplacementTest, AFolderIsThereAtAnyTimeWhileItIsReplaced) {
  fs::create_directory(at("f"));
  std::atomic<bool> done = false;
  std::thread replacing([&] {
    for (int i = 0; i < 2000; ++i) {
      Replacement folder(at("f"));
      fs::create_directory(folder.temporary());
      EXPECT_TRUE(folder.commit().ok());
    }
    done = true;
  });
  size_t looks = 0, missed = 0;
  for (; !done; ++looks) missed += fs::exists(at("f")) ? 0 : 1;
  replacing.join();
  EXPECT_EQ(missed, 0U) << "of " << looks << " looks";
  EXPECT_EQ(entries(), 1U);
}

TEST_F(ReplacementTest, WhatWasThereStaysWhereTheMoveFails) {
  fs::create_directory(at("f"));
  std::ofstream(at("f/kept")) << "kept";
  Replacement folder(at("f"));  // nothing was made
  const Result<void> moved = folder.commit();
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.diagnostic().where.file, at("f"));
  EXPECT_TRUE(fs::exists(at("f/kept")));
}

TEST_F(ReplacementTest, AFileInAFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const Result<void> written = write_file(at("none/a"), "x");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.diagnostic().where.file, at("none/a"));
}

TEST_F(ReplacementTest, WhatIsNoFileIsNotRead) {
  ASSERT_TRUE(write_file(at("a"), "bytes").ok());
  EXPECT_EQ(read_file(at("a")).value(), "bytes");
  for (const std::string& path : {at("none"), root_}) {
    const auto bytes = read_file(path);
    ASSERT_FALSE(bytes.ok()) << path;
    EXPECT_EQ(bytes.diagnostic().where.file, path);
  }
}

}  // namespace
}  // namespace rannc
