// What a program says before the truncation of a file ends it.
#include "tools/common/truncated_files.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>

#include "ir/base/mapped_file.h"

namespace rannc::tools {
namespace {

constexpr uint64_t kBytes = 64 << 10, kPage = 4096;

uint64_t sum_of(std::string_view bytes) { return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}); }

TEST(TruncatedFilesDeathTest, ReadingBytesThatAreGoneNamesTheFile) {
  const std::string path = testing::TempDir() + "gone";
  std::ofstream(path) << std::string(kBytes, 'x');
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto read_truncated = [&](const std::string& before) {
    report_truncated_files(2, before);
    std::filesystem::resize_file(path, kPage);
    if (sum_of(file->bytes()) != kBytes * 'x') std::abort();
  };
  EXPECT_EXIT(read_truncated(""), testing::ExitedWithCode(1),
              "^" + path + ": error: was truncated while it was read\n$");
  EXPECT_EXIT(read_truncated("worker 1: "), testing::ExitedWithCode(1),
              "^worker 1: " + path + ": was truncated while it was read$");
}

TEST(TruncatedFilesDeathTest, OtherFaultsEndTheProcessAsEver) {
  EXPECT_EXIT(
      {
        report_truncated_files();
        raise(SIGBUS);
        raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace rannc::tools
