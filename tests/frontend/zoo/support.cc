#include "tests/frontend/zoo/support.h"

#include <onnx/checker.h>
#include <unistd.h>

#include <filesystem>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_types.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::test {

namespace fs = std::filesystem;
using frontend::zoo::OnnxWriter;
using frontend::zoo::Weights;

namespace {

/// A folder of this test that goes with the object.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("rannc-zoo-" + std::to_string(::getpid()) + "-" +
                                               testing::UnitTest::GetInstance()->current_test_info()->name());
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string interface_of(const ir::Graph& graph) {
  std::string text;
  for (const auto* values : {&graph.inputs(), &graph.outputs()}) {
    for (const ValueId value : *values) {
      text += std::string(graph.value(value).name) + ":";
      for (const ir::Dim& dim : graph.value(value).type.shape.value()) text += " " + dim.str();
      text += "\n";
    }
  }
  return text;
}

void expect_batch_first(const ir::Graph& graph) {
  for (const auto* values : {&graph.inputs(), &graph.outputs()}) {
    for (const ValueId value : *values) {
      const auto& type = graph.value(value).type;
      ASSERT_TRUE(type.shape && !type.shape->empty()) << graph.value(value).name;
      EXPECT_EQ(type.shape->front().str(), "batch") << graph.value(value).name;
    }
  }
}

}  // namespace

uint64_t parameters_of(const Build& build) {
  OnnxWriter writer("model", {});
  const auto built = build(writer);
  EXPECT_TRUE(built.ok()) << built.diagnostic().str();
  return writer.parameters();
}

std::optional<ir::Graph> written_and_read(const Build& build, Weights weights) {
  const Folder folder;
  const fs::path file = folder.path / "model.onnx";
  frontend::zoo::WriterOptions options;
  options.weights = weights;
  OnnxWriter writer("model", options);
  const auto built = build(writer);
  EXPECT_TRUE(built.ok()) << built.diagnostic().str();
  const auto saved = writer.save(file);
  EXPECT_TRUE(saved.ok()) << saved.diagnostic().str();
  if (weights == Weights::kStored) {
    EXPECT_NO_THROW(ONNX_NAMESPACE::checker::check_model(file.string(), true));
  } else {
    EXPECT_FALSE(frontend::import_onnx(file).ok()) << "a missing weight file is an error unless it is allowed";
  }
  frontend::ImportOptions import;
  import.missing_weights = weights == Weights::kAbsent;
  auto graph = frontend::import_onnx(file, import);
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  if (!graph.ok()) return std::nullopt;
  const auto wrong = ir::verify(*graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  ONNX_NAMESPACE::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(read_file(file)));
  for (const std::string& fault : faults_of_types(model, *graph)) ADD_FAILURE() << fault;
  return std::move(graph).value();
}

void expect_readable(const Build& build) {
  const auto stored = written_and_read(build, Weights::kStored);
  const auto absent = written_and_read(build, Weights::kAbsent);
  ASSERT_TRUE(stored && absent);
  expect_batch_first(*stored);
  EXPECT_EQ(interface_of(*stored), interface_of(*absent));
  EXPECT_EQ(stored->task_count(), absent->task_count());
  uint64_t without_data = 0;
  for (const ValueId id : absent->values()) {
    const auto& value = absent->value(id);
    if (value.kind != ir::ValueKind::kConstant || value.data.present()) continue;
    ++without_data;
  }
  EXPECT_GT(without_data, 0U);
  for (const ValueId id : stored->values()) {
    const auto& value = stored->value(id);
    EXPECT_TRUE(value.kind != ir::ValueKind::kConstant || value.data.present()) << value.name;
  }
}

void expect_refused(const Build& build, const std::string& part) {
  OnnxWriter writer("model", {});
  const auto built = build(writer);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.diagnostic().str().find(part), std::string::npos) << built.diagnostic().str();
}

}  // namespace rannc::test
