// Rebuilt bundles: what is stale, what is kept, and what errors leave. A script stands in for the compiler.
#include "codegen/bundle_rebuild.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::codegen {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read(const std::string& path) { return read_file(path).value(); }
void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A bundle of two stages in a folder of its own.
class Rebuild : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-rebuild-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    script("c++", "[ \"$1\" = --version ] && { cat " + at("version") + "; exit; }\n[ -e " + at("broken") +
                      " ] && exit 1\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\necho >>" +
                      at("calls") + "\necho compiled >\"$out\"\n");
    write(at("version"), "c++ 12\n");
    script("rannc-stage", "exit 0\n");
    path_ = at("toy.rannc");
    write_bundle(plan(), {.native = form(), .stage_program = at("rannc-stage")}, path_).value();
    fs::remove(at("calls"));
    written_ = files();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static ir::Plan plan() {
    return testing::build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .micro_batches = {2, 1}});
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string in_bundle(const std::string& name) const { return path_ + "/" + name; }
  void script(const std::string& name, const std::string& text) const {
    write(at(name), "#!/bin/sh\n" + text);
    fs::permissions(at(name), fs::perms::owner_all);
  }
  NativeForm form() const { return {NativeCompiler::open(at("c++"), "").value()}; }
  RebuildOptions options() const { return {.form = form(), .stage_program = at("rannc-stage")}; }
  Result<std::vector<std::string>> rebuild() const { return rebuild_bundle(path_, options()); }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.is_regular_file()) found[entry.path().filename()] = read(entry.path());
    }
    return found;
  }
  void replace_in_manifest(const std::string& from, const std::string& to) const {
    std::string text = read(in_bundle("manifest.json"));
    ASSERT_NE(text.find(from), std::string::npos);
    write(in_bundle("manifest.json"), text.replace(text.find(from), from.size(), to));
  }
  /// The only thing that is stale is `reason`; a rebuild mends it and writes what `write_bundle` writes.
  void mends(const std::string& reason) const {
    const auto stale = rebuild();
    ASSERT_TRUE(stale.ok()) << stale.diagnostic().str();
    EXPECT_THAT(*stale, ElementsAre(HasSubstr(reason)));
    EXPECT_TRUE(runtime::verify_bundle(path_).empty());
    EXPECT_EQ(files(), written_);
    EXPECT_EQ(rebuild().value().size(), 0U);
  }
  size_t siblings() const {
    size_t found = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) found += entry.is_directory() ? 1 : 0;
    return found;
  }

  fs::path folder_;
  std::string path_;
  std::map<std::string, std::string> written_;
};

TEST_F(Rebuild, OfABundleThatIsNotStaleCompilesNothing) {
  EXPECT_TRUE(rebuild().value().empty());
  EXPECT_FALSE(fs::exists(at("calls")));
  EXPECT_EQ(files(), written_);
}

TEST_F(Rebuild, MendsMissingAndDamagedFiles) {
  for (const char* name : {"stage0.so", "stage1.cc", "stage1"}) {
    fs::remove(in_bundle(name));
    mends(std::string(name) + ": file is missing");
  }
  for (const char* name : {"stage1.so", "stage0.cc"}) {
    std::string text = read(in_bundle(name));
    text[0] = static_cast<char>(text[0] ^ 1);
    write(in_bundle(name), text);
    mends(std::string(name) + ": has digest ");
    write(in_bundle(name), "longer" + text);
    mends(std::string(name) + ": has " + std::to_string(text.size() + 6) + " bytes; the manifest has ");
  }
}

TEST_F(Rebuild, MendsWhatAnotherBuildHasWritten) {
  const std::string torch = form().compiler.compilation(true).torch_version;
  replace_in_manifest("\"torch_version\": \"" + torch, "\"torch_version\": \"0.4.1");
  mends("manifest.json: the stages were compiled for LibTorch 0.4.1; this build has " + torch);
  replace_in_manifest("\"interface_version\": ", "\"interface_version\": 99");
  mends("manifest.json: the stages were compiled for version 99");
  replace_in_manifest("\"compiled\"", "\"computed\"");
  mends("manifest.json: has no field 'compiled'");
  replace_in_manifest("\"compiler_version\"", "\"version\"");
  mends("manifest.json: has no field 'compiled.compiler_version'");
  // As by a build of other functions: the manifest belongs to the source.
  write(in_bundle("stage1.cc"), "// Functions of stage 1.\n");
  const runtime::Compilation then = form().compiler.compilation(true);
  runtime::write_manifest(path_, plan(), {}, then).value();
  mends("stage1.cc: is not the source that this build writes for the plan");
  script("rannc-stage", "exit 1\n");
  written_["stage0"] = written_["stage1"] = read(at("rannc-stage"));
  const auto stale = rebuild();
  EXPECT_THAT(*stale, ElementsAre("stage0: is rannc-stage of another build"));
  EXPECT_EQ(read(in_bundle("stage1")), written_["stage1"]);
  EXPECT_TRUE(runtime::verify_bundle(path_).empty());
}

TEST_F(Rebuild, MendsAStageThatCannotBeLoadedOrHasOtherFunctions) {
  RebuildOptions other = options();
  std::vector<std::string> tried;
  Result<std::map<std::string, std::string>> second = error("cannot be loaded: no symbol");
  other.load = [&](const std::string& compiled) {
    tried.push_back(fs::path(compiled).filename());
    return tried.size() == 1 ? native_fingerprints(plan(), StageId(0)) : second;
  };
  EXPECT_THAT(rebuild_bundle(path_, other).value(), ElementsAre("stage1.so: cannot be loaded: no symbol"));
  EXPECT_THAT(tried, ElementsAre("stage0.so", "stage1.so"));
  EXPECT_TRUE(fs::exists(at("calls")));
  tried.clear();
  second = native_fingerprints(plan(), StageId(0));
  EXPECT_THAT(rebuild_bundle(path_, other).value(), ElementsAre("stage1.so: has other functions than the plan"));
  tried.clear();
  second = native_fingerprints(plan(), StageId(1));
  EXPECT_TRUE(rebuild_bundle(path_, other).value().empty());
}

TEST_F(Rebuild, ComparesCompilersOnlyOnRequest) {
  write(at("version"), "c++ 13\n");
  EXPECT_TRUE(rebuild().value().empty());
  RebuildOptions other = options();
  other.same_compiler = true;
  EXPECT_THAT(rebuild_bundle(path_, other).value(),
              ElementsAre("manifest.json: the stages were compiled by c++ 12; --cxx is c++ 13"));
  EXPECT_EQ(runtime::open_bundle(path_).value().compiled->compiler_version, "c++ 13");
}

TEST_F(Rebuild, KeepsLinksOtherFilesAndTheChoiceOfLoops) {
  write_bundle(plan(), {.replace = true, .native = NativeForm{form().compiler, {.loops = false}}}, path_).value();
  written_ = files();
  EXPECT_EQ(written_.count("stage0"), 0U);
  fs::create_directory(in_bundle("notes"));
  write(in_bundle("notes/a"), "mine");
  const std::string whole = path_;
  path_ = at("link.rannc");
  fs::create_directory_symlink(whole, path_);
  fs::remove(in_bundle("stage0.so"));
  mends("stage0.so: file is missing");
  EXPECT_EQ(read(in_bundle("notes/a")), "mine");
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(runtime::open_bundle(path_).value().compiled->instruction_sets.empty());
}

TEST_F(Rebuild, AnErrorLeavesTheBundle) {
  fs::remove(in_bundle("stage0.so"));
  const auto before = files();
  write(at("broken"), "");
  EXPECT_THAT(rebuild().diagnostic().message, HasSubstr("failed with status 1"));
  fs::remove(at("broken"));
  fs::remove(at("rannc-stage"));
  EXPECT_THAT(rebuild().diagnostic().str(), HasSubstr("rannc-stage: error: cannot read"));
  EXPECT_EQ(files(), before);
  EXPECT_EQ(siblings(), 1U);
}

TEST_F(Rebuild, IsRefusedWhereItDoesNotHelp) {
  fs::remove(in_bundle("stage0.safetensors"));
  EXPECT_THAT(rebuild().diagnostic().str(), HasSubstr("stage0.safetensors: error: file is missing [B1]"));
  EXPECT_THAT(rebuild().diagnostic().str(), HasSubstr("rebuild the whole bundle"));
  write(in_bundle("stage0.safetensors"), written_["stage0.safetensors"]);
  write(in_bundle("plan.rir"), "nonsense");
  EXPECT_EQ(rebuild().diagnostic().rule, "B3");
  write_bundle(plan(), {.replace = true}, path_).value();
  EXPECT_THAT(rebuild().diagnostic().str(), HasSubstr("has form interpreted, which has no compiled stages"));
  EXPECT_THAT(rebuild().diagnostic().str(), HasSubstr("--form native"));
  EXPECT_THAT(rebuild_bundle(at("none"), options()).diagnostic().str(), HasSubstr("no such bundle"));
}

}  // namespace
}  // namespace rannc::codegen
