// One function reads every format, and refuses options that a format does not take.
#include "frontend/read_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/text/text.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

namespace fs = std::filesystem;

class ReadModel : public ::testing::Test {
 protected:
  ReadModel() : folder_(fs::temp_directory_path() / ("rannc-read-model-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ReadModel() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string onnx(const std::string& name) const {
    return write(name,
                 test::onnx_bytes(test::onnx_model("agraph (float[N, 2] x) => (float[N, 2] y) { y = Relu (x) }", 17)));
  }

  fs::path folder_;
};

TEST_F(ReadModel, DetectsTheFormat) {
  EXPECT_EQ(model_format(write("a.rir", "")), ModelFormat::kText);
  EXPECT_EQ(model_format(write("a.pt2", "")), ModelFormat::kExported);
  EXPECT_EQ(model_format(write("a.pt", "")), ModelFormat::kTorchScript);
  EXPECT_EQ(model_format(write("a.model", "PK\3\4...")), ModelFormat::kTorchScript);
  EXPECT_EQ(model_format(onnx("a.model2")), ModelFormat::kOnnx);
  EXPECT_EQ(model_format(folder_ / "absent.onnx"), ModelFormat::kOnnx);
  EXPECT_TRUE(is_torch(ModelFormat::kExported));
  EXPECT_FALSE(is_torch(ModelFormat::kText));
}

TEST_F(ReadModel, ReadsEachFormat) {
  const auto model = read_model(onnx("relu.onnx"));
  ASSERT_TRUE(model.ok()) << model.diagnostic().str();
  EXPECT_EQ(model->graph.task_count(), 1U);
  EXPECT_EQ(model->notes.nodes, 1U);
  const auto exported = read_model(std::string(RANNC_SOURCE_DIR) + "/tests/data/small_exported/model.pt2");
  ASSERT_TRUE(exported.ok()) << exported.diagnostic().str();
  EXPECT_GT(exported->graph.task_count(), 1U);
}

TEST_F(ReadModel, ImportsStartFromTheParsedForm) {
  const std::string program = std::string(RANNC_SOURCE_DIR) + "/tests/data/small_exported/model.pt2";
  fs::copy_file(program, folder_ / "program.pt2");
  const std::string text =
      "rannc.graph 1\ninput %x: f32[2]\n#0 %y: f32[2] = core.relu(%x)\ninputs [%x]\noutputs [%y]\n";
  // A node before the one that it reads: the parsed form is sorted by the first import.
  const std::string unsorted =
      write("unsorted.onnx", test::onnx_bytes(test::onnx_model(
                                 "agraph (float[N, 2] x) => (float[N, 2] y) { y = Relu (z) \n z = Neg (x) }", 17)));
  ImportOptions whole;
  whole.batching.kind = BatchKind::kWhole;
  for (const std::string& path :
       {write("a.rir", text), onnx("relu.onnx"), unsorted, (folder_ / "program.pt2").string()}) {
    SCOPED_TRACE(path);
    const Imported own = read_model(path).value(), undivided = read_model(path, whole).value();
    const ParsedModel parsed = parse_model(path).value();
    fs::remove(path);
    for (int i = 0; i < 2; ++i) {
      const Imported again = parsed.import({}).value();
      EXPECT_EQ(ir::print(again.graph), ir::print(own.graph));
      EXPECT_EQ(again.notes.counted_remarks, own.notes.counted_remarks);
      EXPECT_EQ(ir::print(parsed.import(whole)->graph), ir::print(undivided.graph));
    }
    EXPECT_FALSE(read_model(path).ok());
  }
}

TEST_F(ReadModel, NamesTheFile) {
  for (const char* name : {"absent.onnx", "absent.pt", "absent.pt2", "absent.rir"}) {
    const std::string path = (folder_ / name).string();
    const auto read = read_model(path);
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_EQ(read.diagnostic().where.file, path);
  }
}

TEST_F(ReadModel, RefusesOptionsOfOtherFormats) {
  ImportOptions inputs, outputs, values, sizes;
  inputs.inputs = {"x=f32[batch,2]"};
  outputs.outputs = {"y"};
  values.input_values = {{"x", 1}};
  const std::string model = onnx("relu.onnx");
  EXPECT_NE(read_model(model, inputs).diagnostic().message.find("--input applies"), std::string::npos);
  EXPECT_NE(read_model(model, outputs).diagnostic().message.find("--output-name applies"), std::string::npos);
  const auto module = read_model(std::string(RANNC_SOURCE_DIR) + "/tests/data/small_exported/model.pt2", values);
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.diagnostic().message.find("ONNX and TorchScript files only"), std::string::npos)
      << module.diagnostic().message;
  sizes.sizes = {{"n", 4}};
  const auto text = read_model(std::string(RANNC_SOURCE_DIR) + "/tests/data/none.rir", sizes);
  EXPECT_NE(text.diagnostic().message.find("--size applies"), std::string::npos);
}

}  // namespace
}  // namespace rannc::frontend
