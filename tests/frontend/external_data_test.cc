// Tensors in external files: read from inside the model's folder, refused everywhere else.
#include <gtest/gtest.h>
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

  /// Imports y = x + w, w a float[4] in the external data that `entries` describe.
  Result<ir::Graph> import(const std::vector<Entry>& entries) const {
    ONNX_NAMESPACE::ModelProto model;
    model.ParseFromString(test::onnx_bytes(test::onnx_model(
        "agraph (float[N, 4] x) => (float[N, 4] y) <float[4] w = {0, 0, 0, 0}> { y = Add (x, w) }", 17)));
    auto* const tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_float_data();
    tensor->set_data_location(ONNX_NAMESPACE::TensorProto::EXTERNAL);
    for (const Entry& entry : entries) {
      auto* const made = tensor->add_external_data();
      made->set_key(entry.key);
      made->set_value(entry.value);
    }
    const fs::path path = root_ / "model" / "model.onnx";
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return import_onnx(path);
  }

  void expect_refused(const std::vector<Entry>& entries, const std::string& reason) const {
    const auto graph = import(entries);
    ASSERT_FALSE(graph.ok());
    EXPECT_EQ(graph.diagnostic().where.node, "w");
    EXPECT_NE(graph.diagnostic().message.find(reason), std::string::npos) << graph.diagnostic().str();
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
  EXPECT_TRUE(import({{"location", "link"}}).ok());
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

}  // namespace
}  // namespace rannc::frontend
