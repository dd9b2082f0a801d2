// The rules of bundles of form native that need no compiled stage: the record of the compilation and its files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/bundle_writer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// The record of a compilation.
Compilation compilation() {
  return {.compiler = "/usr/bin/c++",
          .compiler_version = "c++ 12.2.0",
          .function_flags = {"-Og"},
          .loop_flags = {"-O3"},
          .instruction_sets = {{"baseline", {}}, {"avx2", {"-mavx2"}}},
          .interface_version = 3,
          .torch_version = "2.4.0"};
}

/// A bundle of two stages whose sources and compiled stages are their names.
class NativeBundleRules : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() / ("rannc-native-rules-" + std::to_string(::getpid()))).string();
    plan_ = testing::build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .micro_batches = {2, 1}});
    codegen::write_bundle(plan_, {}, path_).value();
    for (const char* name : {"stage0.cc", "stage0.so", "stage1.cc", "stage1.so"}) write(at(name), name);
    write_manifest(path_, plan_, {}, compilation()).value();
    advice_ = "note: `rannc-compile --rebuild " + path_ + "` compiles the stages again";
  }
  void TearDown() override { fs::remove_all(path_); }

  std::string at(const std::string& name) const { return path_ + "/" + name; }
  nlohmann::json manifest() const {
    std::ifstream in(at(kManifestFile));
    return nlohmann::json::parse(in);
  }
  void set_manifest(const nlohmann::json& json) const { write(at(kManifestFile), json.dump()); }
  void breaks(const char* rule, const std::string& thing, const HostedStages& hosted = {}) const {
    const auto found = verify_bundle(path_, hosted);
    ASSERT_FALSE(found.empty()) << "expected " << rule;
    EXPECT_EQ(found[0].rule, rule) << found[0].str();
    EXPECT_THAT(found[0].str(), HasSubstr(thing));
  }

  std::string path_, advice_;
  ir::Plan plan_;
};

TEST_F(NativeBundleRules, B2FormNativeStatesHowItWasCompiled) {
  EXPECT_EQ(open_bundle(path_).value().compiled, compilation());
  const auto good = manifest();
  for (const auto& [field, value] : good["compiled"].items()) {
    auto json = good;
    json["compiled"].erase(field);
    set_manifest(json);
    breaks("B2", "manifest.json: error: has no field 'compiled." + field + "'");
    breaks("B2", advice_);
    json["compiled"][field] = {{"another", "type"}};
    set_manifest(json);
    breaks("B2", "manifest.json: error: field 'compiled." + field + "' is {\"another\":\"type\"}, expected a ");
  }
  auto json = good;
  json["compiled"]["instruction_sets"][1]["flags"] = "-mavx2";
  set_manifest(json);
  breaks("B2", "field 'compiled.instruction_sets[1].flags' is \"-mavx2\", expected a list of strings");
  json.erase("compiled");
  set_manifest(json);
  breaks("B2", "has no field 'compiled'");
}

TEST_F(NativeBundleRules, B3StaleCompiledFilesNameTheRebuild) {
  for (const char* name : {"stage0.cc", "stage1.so"}) {
    write(at(name), "another__");
    breaks("B3", std::string(name) + ": error: has digest");
    breaks("B3", advice_);
    write(at(name), name);
  }
  fs::remove(at("stage1.so"));
  breaks("B1", "stage1.so: error: file is missing: device 1 runs stage 1", {.device = DeviceId(1)});
  breaks("B1", advice_, {.device = DeviceId(1)});
  EXPECT_TRUE(verify_bundle(path_, {.device = DeviceId(0)}).empty());
  write(at("stage1.so"), "stage1.so");
  write(at("stage1.safetensors"), "another");
  EXPECT_TRUE(verify_bundle(path_)[0].notes.empty()) << "compiling does not restore weights";
}

}  // namespace
}  // namespace rannc::runtime
