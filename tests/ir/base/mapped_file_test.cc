// Files that are truncated while they are mapped.
#include "ir/base/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

namespace rannc {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytes = 64 << 10, kPage = 4096;

std::string written(const std::string& name) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << std::string(kBytes, 'x');
  return path;
}

uint64_t sum(const MappedFile& file) { return std::accumulate(file.bytes().begin(), file.bytes().end(), uint64_t{0}); }

TEST(MappedFileTest, AFileThatHasBecomeShorterIsAnError) {
  const std::string path = written("shorter");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->check().ok());
  fs::resize_file(path, 2 * kBytes);
  EXPECT_TRUE(file->check().ok());
  fs::resize_file(path, kPage);
  const auto checked = file->check();
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.diagnostic().str(), path + ": error: was truncated while it is read: it had 65536 bytes, now 4096");
}

TEST(MappedFileTest, AFileThatWasReplacedOrRemovedIsReadToItsEnd) {
  const std::string path = written("replaced"), other = path + "-other";
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  std::ofstream(other) << "short";
  fs::rename(other, path);
  EXPECT_TRUE(file->check().ok());
  fs::remove(path);
  EXPECT_TRUE(file->check().ok());
  EXPECT_EQ(sum(*file), kBytes * 'x');
}

TEST(MappedFileTest, AddressesHaveFiles) {
  std::vector<MappedFile> files;  // some of them closed again
  for (int i = 0; i < 5; ++i) files.push_back(*MappedFile::open(written("file" + std::to_string(i))));
  const char* const closed = files.back().bytes().data();
  files.pop_back();
  const auto last = MappedFile::open(written("last"));
  ASSERT_TRUE(last.ok());
  for (int i = 0; i < 4; ++i) {
    const std::string_view bytes = files[static_cast<size_t>(i)].bytes();
    EXPECT_EQ(mapped_file_at(bytes.data()), testing::TempDir() + "file" + std::to_string(i));
    EXPECT_EQ(mapped_file_at(bytes.data() + bytes.size() - 1), testing::TempDir() + "file" + std::to_string(i));
  }
  EXPECT_EQ(mapped_file_at(last->bytes().data()), testing::TempDir() + "last");
  EXPECT_TRUE(closed == last->bytes().data() || mapped_file_at(closed) == nullptr);
  EXPECT_EQ(mapped_file_at(&files), nullptr);
}

}  // namespace
}  // namespace rannc
