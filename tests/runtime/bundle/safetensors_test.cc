// Reading and writing .safetensors files, and every way in which a header can lie.
#include "runtime/bundle/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "ir/base/replacement.h"

namespace rannc::runtime {
namespace {

using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("rannc-safetensors-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name = "t.safetensors") const { return (folder_ / name).string(); }
  std::string put(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }
  /// A file with this header and so many bytes of data.
  std::string file(const std::string& header, size_t data) const {
    std::string bytes(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return put(bytes + header + std::string(data, '\1'));
  }
  void refuses(const std::string& header, size_t data, const std::string& node, const std::string& message) const {
    const auto opened = SafetensorsFile::open(file(header, data));
    ASSERT_FALSE(opened.ok()) << header;
    EXPECT_THAT(opened.diagnostic().message, HasSubstr(message)) << header;
    EXPECT_EQ(opened.diagnostic().where.node, node) << header;
    EXPECT_EQ(opened.diagnostic().where.file, path());
  }

  std::filesystem::path folder_;
};

SafetensorsTensor tensor(const std::string& name, TensorSpec spec, const std::vector<std::byte>& bytes) {
  return {name, std::move(spec), [&bytes]() -> Result<std::span<const std::byte>> { return std::span(bytes); }};
}

std::vector<std::byte> counting(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST_F(Safetensors, ReadsBackWhatItWrote) {
  const auto a = counting(24), b = counting(3), c = counting(0), d = counting(8);
  ASSERT_TRUE(write_safetensors(
                  path(),
                  {tensor("a.weight", {ir::DType::kF32, {2, 3}}, a), tensor("flag", {ir::DType::kBool, {3}}, b),
                   tensor("empty", {ir::DType::kF64, {0, 5}}, c), tensor("scalar \"é\"", {ir::DType::kI64, {}}, d)},
                  {{"format", "pt"}})
                  .ok());
  const SafetensorsFile file = SafetensorsFile::open(path()).value();
  ASSERT_EQ(file.entries().size(), 4U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("a.weight")->spec, (TensorSpec{ir::DType::kF32, {2, 3}}));
  EXPECT_EQ(file.data(*file.find("a.weight")).read().value(), a);
  EXPECT_EQ(file.data(*file.find("flag")).read().value(), b);
  EXPECT_EQ(file.data(*file.find("scalar \"é\"")).read().value(), d);
  EXPECT_EQ(file.data(*file.find("empty")).size(), 0U);
  EXPECT_EQ(file.find("a"), nullptr);
  for (const auto& entry : file.entries()) EXPECT_EQ(entry.offset % ir::byte_size(entry.spec.dtype), 0U) << entry.name;
}

TEST_F(Safetensors, EqualInputGivesEqualBytesInAnyOrder) {
  const auto a = counting(8), b = counting(4);
  const auto bytes_of = [&](std::vector<SafetensorsTensor> tensors) {
    EXPECT_TRUE(write_safetensors(path(), std::move(tensors)).ok());
    return read_file(path()).value();
  };
  const auto first = tensor("a", {ir::DType::kI64, {1}}, a), second = tensor("b", {ir::DType::kI32, {1}}, b);
  EXPECT_EQ(bytes_of({first, second}), bytes_of({second, first}));
}

TEST_F(Safetensors, RefusesFilesThatAreNone) {
  const auto refused = [&](const std::string& where, const std::string& message) {
    const auto opened = SafetensorsFile::open(where);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.diagnostic().str(), HasSubstr(message));
    EXPECT_THAT(opened.diagnostic().str(), HasSubstr(where));
  };
  refused(path("absent"), "no such file");
  refused(folder_.string(), "no such file");
  refused(put(""), "file has 0 bytes");
  refused(put("1234567"), "file has 7 bytes");
  refused(put(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}"), "header of 16 bytes in a file of 10");
  refused(put(std::string("\0\xe1\xf5\x05\0\0\0\x80", 8) + "{}"), "at most 100000000 allowed");
}

TEST_F(Safetensors, RefusesHeadersThatAreNoObjects) {
  refuses("", 0, "", "not a JSON object");
  refuses("[]", 0, "", "not a JSON object");
  refuses("{", 0, "", "not a JSON object");
  refuses(std::string(5000, '['), 0, "", "not a JSON object");
  refuses(R"({"a": 1})", 0, "a", "expected an object");
  refuses(R"({"__metadata__": []})", 0, "__metadata__", "expected an object of strings");
  refuses(R"({"__metadata__": {"k": 1}})", 0, "__metadata__", "`k` is not a string");
  refuses(R"({"a": {}, "a": {}})", 0, "a", "occurs twice");
}

TEST_F(Safetensors, RefusesFieldsThatAreMissingOrWrong) {
  refuses(R"({"a": {"shape": [], "data_offsets": [0, 4]}})", 4, "a", "`dtype` is missing");
  refuses(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4, "a", "`shape` is missing");
  refuses(R"({"a": {"dtype": "F32", "shape": []}})", 4, "a", "`data_offsets` is missing");
  refuses(R"({"a": {"dtype": "F99", "shape": [], "data_offsets": [0, 4]}})", 4, "a", "unknown dtype \"F99\"");
  refuses(R"({"a": {"dtype": 3, "shape": [], "data_offsets": [0, 4]}})", 4, "a", "unknown dtype 3");
  refuses(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4, "a", "size -1");
  refuses(R"({"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", 4, "a", "size 1.5");
  refuses(R"({"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}})", 4, "a", "shape must be a list");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", 4, "a", "two non-negative integers");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}})", 4, "a", "two non-negative integers");
}

TEST_F(Safetensors, RefusesSizesThatOverflow) {
  refuses(R"({"a": {"dtype": "F32", "shape": [9223372036854775808], "data_offsets": [0, 4]}})", 4, "a", "63-bit");
  refuses(R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0, "a",
          "overflow 64 bits");
}

TEST_F(Safetensors, RefusesRangesThatLieAboutTheData) {
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}})", 4, "a", "leave the file's 4 bytes");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", 4, "a", "leave the file's 4 bytes");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 18446744073709551615]}})", 4, "a",
          "leave the file");
  refuses(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4, "a",
          "hold 4 bytes, but dtype and shape need 8");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 8, "a", "4 bytes before this tensor");
  refuses(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 6, "", "2 bytes at the end");
  refuses(
      R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
      4, "b", "overlap");
}

TEST_F(Safetensors, MutatedFilesNeverDoHarm) {
  const auto a = counting(24), b = counting(16);
  ASSERT_TRUE(write_safetensors(path("good"),
                                {tensor("a", {ir::DType::kF32, {2, 3}}, a), tensor("b", {ir::DType::kI64, {2}}, b)})
                  .ok());
  const std::string good = read_file(path("good")).value();
  const uint64_t seed = 20240131;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 600; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const auto opened = SafetensorsFile::open(put(bytes));
    if (!opened.ok()) continue;
    for (const auto& entry : opened->entries()) EXPECT_TRUE(opened->data(entry).read().ok());
  }
}

TEST_F(Safetensors, RefusesNamesThatTheFormatCannotHold) {
  const std::vector<float> data = {1};
  const auto bytes = [&]() -> Result<std::span<const std::byte>> { return std::as_bytes(std::span(data)); };
  const struct {
    const char *name, *message;
  } cases[] = {{"\xff.weight", "not UTF-8"}, {"__metadata__", "reserved by the format"}};
  for (const auto& bad : cases) {
    const auto written = write_safetensors(path(), {{bad.name, {ir::DType::kF32, {1}}, bytes}});
    ASSERT_FALSE(written.ok());
    EXPECT_THAT(written.diagnostic().str(), HasSubstr(bad.message));
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
}

TEST_F(Safetensors, AFailedWriteLeavesNothing) {
  const auto a = counting(4);
  const auto wrong = write_safetensors(path(), {tensor("a", {ir::DType::kF32, {2}}, a)});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.diagnostic().message, HasSubstr("has 4 bytes, but dtype and shape need 8"));
  const auto failing = write_safetensors(
      path(), {{"a", {ir::DType::kF32, {1}}, []() -> Result<std::span<const std::byte>> { return error("gone"); }}});
  EXPECT_EQ(failing.diagnostic().message, "gone");
  EXPECT_FALSE(write_safetensors(path("no/such/folder"), {}).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace rannc::runtime
