// Tensors in external files: read from inside the model's folder, refused everywhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "frontend/onnx/import.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string key, value;
};

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / ("rannc-external-" + std::to_string(::getpid()) + "-" + test->name());
    fs::create_directories(root_ / "model" / "sub");
    write(root_ / "model" / "weights.bin", 64);
    write(root_ / "secret.bin", 64);
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path, size_t bytes) {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
      const auto value = static_cast<float>(i);
      file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }

  static void describe(ONNX_NAMESPACE::TensorProto& tensor, const std::vector<Entry>& entries) {
    tensor.clear_float_data();
    tensor.set_data_location(ONNX_NAMESPACE::TensorProto::EXTERNAL);
    for (const Entry& entry : entries) {
      auto* const made = tensor.add_external_data();
      made->set_key(entry.key);
      made->set_value(entry.value);
    }
  }

  Result<ir::Graph> import(const ONNX_NAMESPACE::ModelProto& model) const {
    const fs::path path = root_ / "model" / "model.onnx";
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return import_onnx(path);
  }

  /// Imports y = x + w, w a float[4] in the external data that `entries` describe.
  Result<ir::Graph> import(const std::vector<Entry>& entries) const {
    ONNX_NAMESPACE::ModelProto model;
    model.ParseFromString(test::onnx_bytes(test::onnx_model(
        "agraph (float[N, 4] x) => (float[N, 4] y) <float[4] w = {0, 0, 0, 0}> { y = Add (x, w) }", 17)));
    describe(*model.mutable_graph()->mutable_initializer(0), entries);
    return import(model);
  }

  /// The same where a Constant node has w.
  Result<ir::Graph> import_constant(const std::vector<Entry>& entries) const {
    ONNX_NAMESPACE::ModelProto model;
    model.ParseFromString(
        test::onnx_bytes(test::onnx_model("agraph (float[N, 4] x) => (float[N, 4] y) { [w] w = Constant <value = "
                                          "float[4] {0, 0, 0, 0}> () y = Add (x, w) }",
                                          17)));
    describe(*model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_t(), entries);
    return import(model);
  }

  void expect_refused(const std::vector<Entry>& entries, const std::string& reason) const {
    for (const auto& graph : {import(entries), import_constant(entries)}) {
      ASSERT_FALSE(graph.ok());
      EXPECT_EQ(graph.diagnostic().where.node, "w");
      EXPECT_NE(graph.diagnostic().message.find(reason), std::string::npos) << graph.diagnostic().str();
    }
  }

  fs::path root_;
};

TEST_F(ExternalData, IsARangeOfTheFile) {
  const auto graph = import({{"location", "weights.bin"}, {"offset", "16"}, {"length", "16"}});
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto& data = graph->value(graph->find("w")).data;
  EXPECT_TRUE(data.in_file());
  const auto bytes = data.read();
  ASSERT_TRUE(bytes.ok());
  float first = 0;
  std::memcpy(&first, bytes->data(), sizeof(first));
  EXPECT_EQ(first, 4.0f);
}

TEST_F(ExternalData, MayLieInASubfolderOrBehindALinkInside) {
  fs::rename(root_ / "model" / "weights.bin", root_ / "model" / "sub" / "weights.bin");
  EXPECT_TRUE(import({{"location", "sub/weights.bin"}}).ok());
  fs::create_symlink("sub/weights.bin", root_ / "model" / "link");
  const auto graph = import({{"location", "link"}});
  ASSERT_TRUE(graph.ok());
  // What the link leads to later has not been checked.
  EXPECT_EQ(graph->value(graph->find("w")).data.path(), root_ / "model" / "sub" / "weights.bin");
}

TEST_F(ExternalData, OfAttributesLiesInTheModelsFolderToo) {
  for (const std::string location : {"weights.bin", "./weights.bin"}) {
    const auto graph = import_constant({{"location", location}, {"offset", "32"}});
    ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
    const auto bytes = graph->value(graph->find("w")).data.read();
    ASSERT_TRUE(bytes.ok());
    float first = 0;
    std::memcpy(&first, bytes->data(), sizeof(first));
    EXPECT_EQ(first, 8.0f);
  }
}

TEST_F(ExternalData, RefusesPathsThatLeaveTheFolder) {
  expect_refused({{"location", "../secret.bin"}}, "'..'");
  expect_refused({{"location", "sub/../../secret.bin"}}, "'..'");
  expect_refused({{"location", (root_ / "secret.bin").string()}}, "relative");
  expect_refused({{"location", "/etc/passwd"}}, "relative");
}

TEST_F(ExternalData, RefusesLinksThatLeaveTheFolder) {
  fs::create_symlink(root_ / "secret.bin", root_ / "model" / "link");
  expect_refused({{"location", "link"}}, "symbolic link");
  fs::create_directory_symlink(root_, root_ / "model" / "up");
  expect_refused({{"location", "up/secret.bin"}}, "symbolic link");
}

TEST_F(ExternalData, RefusesWhatIsNoRegularFile) {
  expect_refused({{"location", "sub"}}, "not a regular file");
  expect_refused({{"location", "."}}, "not a regular file");
  expect_refused({{"location", ""}}, "no file is named");
  expect_refused({}, "no file is named");
  expect_refused({{"location", "absent.bin"}}, "absent.bin");
  expect_refused({{"location", std::string("weights.bin\0x", 13)}}, "zero byte");
}

TEST_F(ExternalData, RefusesRangesThatAreNoneOrDoNotFit) {
  const Entry file = {"location", "weights.bin"};
  expect_refused({file, {"offset", "-16"}}, "offset '-16'");
  expect_refused({file, {"offset", "1e3"}}, "offset '1e3'");
  expect_refused({file, {"offset", ""}}, "offset ''");
  expect_refused({file, {"offset", "99999999999999999999999"}}, "offset '9999");
  expect_refused({file, {"offset", "18446744073709551615"}}, "the file has 64");
  expect_refused({file, {"offset", "56"}}, "16 bytes at offset 56, but the file has 64");
  expect_refused({file, {"length", "-1"}}, "length '-1'");
  expect_refused({file, {"length", "18446744073709551615"}}, "need 16 bytes");
  expect_refused({file, {"length", "8"}}, "need 16 bytes");
}

TEST_F(ExternalData, RefusesPipesWithoutWaitingForOne) {
  ASSERT_EQ(::mkfifo((root_ / "model" / "pipe").c_str(), 0600), 0);
  expect_refused({{"location", "pipe"}}, "not a regular file");
  const auto graph = import({{"location", "weights.bin"}, {"length", "16"}});
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  fs::rename(root_ / "model" / "pipe", root_ / "model" / "weights.bin");
  const auto bytes = graph->value(graph->find("w")).data.read();
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.diagnostic().str().find("is not a regular file"), std::string::npos) << bytes.diagnostic().str();
}

TEST_F(ExternalData, ThatIsCutOffLaterIsAnErrorOfTheRead) {
  const auto graph = import({{"location", "weights.bin"}, {"offset", "48"}});
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  fs::resize_file(root_ / "model" / "weights.bin", 60);
  const auto bytes = graph->value(graph->find("w")).data.read();
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.diagnostic().str().find("the file has 60 bytes"), std::string::npos) << bytes.diagnostic().str();
}

/// The file has as many bytes, none of them stored.
TEST_F(ExternalData, LargerThanMemoryIsAnErrorOfTheRead) {
  constexpr int64_t kRows = int64_t{1} << 37;
  fs::resize_file(root_ / "model" / "weights.bin", 16 * kRows);
  ONNX_NAMESPACE::ModelProto model;
  model.ParseFromString(test::onnx_bytes(test::onnx_model(
      "agraph (float[N, 4] x) => (float[N, M] y) <float[4] w = {0, 0, 0, 0}> { y = MatMul (x, w) }", 17)));
  auto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.clear_dims();
  for (const int64_t extent : {int64_t{4}, kRows}) tensor.add_dims(extent);
  describe(tensor, {{"location", "weights.bin"}});
  auto graph = import(model);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  const auto bytes = graph->value(graph->find("w")).data.read();
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.diagnostic().str(),
              testing::AllOf(testing::HasSubstr("weights.bin"), testing::HasSubstr("memory")));
}

// What has been published about ONNX's own reading of external data; a name is the id of an advisory.
class Advisory : public ExternalData {};

/// `..` in front.
TEST_F(Advisory, CVE_2022_25882) { expect_refused({{"location", "../secret.bin"}}, "must not contain '..'"); }

/// `..` behind something that a check of the beginning takes for harmless.
TEST_F(Advisory, CVE_2024_27318) {
  for (const char* const location :
       {"sub/../../secret.bin", "./../secret.bin", "sub/./../..//secret.bin", "weights.bin/../../secret.bin"}) {
    expect_refused({{"location", location}}, "must not contain '..'");
  }
}

/// Files that are written where a model's entry says. Only what a model reads has names from it here: what is there
/// stays as it is.
TEST_F(Advisory, CVE_2025_51480) {
  const auto before = fs::last_write_time(root_ / "secret.bin");
  expect_refused({{"location", "../absent.bin"}}, "must not contain '..'");
  expect_refused({{"location", "absent.bin"}}, "absent.bin");
  EXPECT_FALSE(fs::exists(root_ / "absent.bin"));
  EXPECT_FALSE(fs::exists(root_ / "model" / "absent.bin"));
  EXPECT_EQ(fs::last_write_time(root_ / "secret.bin"), before);
  EXPECT_EQ(fs::file_size(root_ / "secret.bin"), 64u);
}

/// A link among the folders of the path.
TEST_F(Advisory, CVE_2026_27489) {
  fs::create_directory_symlink("..", root_ / "model" / "up");
  fs::create_directory_symlink("/", root_ / "model" / "root");
  expect_refused({{"location", "up/secret.bin"}}, "symbolic link leads out");
  expect_refused({{"location", "sub/./../up/secret.bin"}}, "must not contain '..'");
  expect_refused({{"location", "root" + (root_ / "secret.bin").string()}}, "symbolic link leads out");
}

/// The file itself is a link, or leads to one.
TEST_F(Advisory, CVE_2026_34447) {
  fs::create_symlink("../secret.bin", root_ / "model" / "link");
  fs::create_symlink("link", root_ / "model" / "chain");
  fs::create_symlink("circle", root_ / "model" / "circle");
  expect_refused({{"location", "link"}}, "symbolic link leads out");
  expect_refused({{"location", "chain"}}, "symbolic link leads out");
  expect_refused({{"location", "circle"}}, "circle");
}

/// A second name of a file that lies outside.
TEST_F(Advisory, CVE_2026_34446) {
  fs::create_hard_link(root_ / "secret.bin", root_ / "model" / "twin");
  expect_refused({{"location", "twin"}}, "the file has 2 names (hard links)");
  fs::create_symlink("twin", root_ / "model" / "link");
  expect_refused({{"location", "link"}}, "the file has 2 names (hard links)");
}

/// Keys that the format does not know, and sizes that make a reader allocate or seek at will.
TEST_F(Advisory, CVE_2026_34445) {
  const Entry file = {"location", "weights.bin"};
  const auto graph =
      import({file, {"__class__", "x"}, {"path", "../secret.bin"}, {"basepath", ".."}, {"checksum", "0"}});
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(graph->value(graph->find("w")).data.path(), root_ / "model" / "weights.bin");
  expect_refused({file, {"length", "9223372036854775807"}}, "need 16 bytes");
  expect_refused({file, {"length", "-1"}}, "length '-1'");
  expect_refused({file, {"offset", "-9223372036854775808"}}, "offset '-9223372036854775808'");
}

}  // namespace
}  // namespace rannc::frontend
