// Bundles on disk: written and opened, and each rule B broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/bundle_writer.h"
#include "codegen/stage_writer.h"
#include "ir/base/replacement.h"
#include "ir/graph/constant.h"
#include "ir/state/state.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using testing::build_plan;
using ::testing::HasSubstr;

std::string read(const std::string& path) { return read_file(path).value(); }
void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

class Bundles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / ("rannc-bundle-" + std::to_string(::getpid()))).string();
    fs::create_directory(folder_);
    path_ = folder_ + "/toy.rannc";
    plan_ = build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .micro_batches = {2, 1}});
    codegen::write_bundle(plan_, {}, path_).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return path_ + "/" + name; }
  nlohmann::json manifest() const { return nlohmann::json::parse(read(at(kManifestFile))); }
  void set_manifest(const nlohmann::json& json) const { write(at(kManifestFile), json.dump()); }
  /// Makes the manifest say what the files now are, so that later rules are reached.
  void resign() const { write_manifest(path_, plan_).value(); }

  void breaks(const char* rule, const std::string& thing, const HostedStages& hosted = {}) const {
    const auto found = verify_bundle(path_, hosted);
    ASSERT_FALSE(found.empty()) << "expected " << rule;
    EXPECT_EQ(found[0].rule, rule) << found[0].str();
    EXPECT_THAT(found[0].str(), HasSubstr(thing));
    EXPECT_FALSE(open_bundle(path_, hosted).ok());
  }

  std::string folder_, path_;
  ir::Plan plan_;
};

TEST_F(Bundles, OpenAsTheyWereWritten) {
  EXPECT_TRUE(verify_bundle(path_).empty());
  const Bundle bundle = open_bundle(path_).value();
  EXPECT_EQ(bundle.plan.micro_batches, plan_.micro_batches);
  EXPECT_EQ(bundle.plan.schedule, plan_.schedule);
  for (ValueId value : plan_.graph.values()) {
    const ir::TensorData& data = plan_.graph.value(value).data;
    if (!data.present()) continue;
    EXPECT_EQ(bundle.plan.graph.value(value).data.read().value(), data.read().value());
  }
  EXPECT_EQ(read(at(kPlanFile)).find("hex"), std::string::npos) << "weights stand in the weights files alone";
  ASSERT_EQ(bundle.signatures.size(), 2U);
  EXPECT_EQ(bundle.signatures[1], signature(plan_, StageId(1)));
  EXPECT_NE(bundle.weights[0].find("w1"), nullptr) << "weights keep the model's names";
}

// Its rows have no transfer, collective or step: that they are lowered is what the schedule says.
TEST_F(Bundles, OfInferenceByOneStageOpen) {
  const std::string path = folder_ + "/inference.rannc";
  const ir::Plan plan =
      build_plan(testing::skip_and_tie(ir::DType::kF32), {.micro_batches = {2, 1}, .training = false});
  const auto written = codegen::write_bundle(plan, {}, path);
  ASSERT_TRUE(written.ok()) << written.diagnostic().str();
  const auto bundle = open_bundle(path);
  ASSERT_TRUE(bundle.ok()) << bundle.diagnostic().str();
  EXPECT_EQ(bundle->plan.schedule, plan.schedule);
}

TEST_F(Bundles, OfRowsThatWereNotLoweredAreRefused) {
  plan_.schedule.lowered = false;
  const auto written = codegen::write_bundle(plan_, {}, folder_ + "/other.rannc");
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.diagnostic().str(), HasSubstr("not lowered"));
}

TEST_F(Bundles, AreTheSameBytesEachTime) {
  codegen::write_bundle(plan_, {}, folder_ + "/again.rannc").value();
  EXPECT_EQ(read(folder_ + "/again.rannc/manifest.json"), read(at(kManifestFile)));
}

TEST_F(Bundles, AreReplacedOnlyWhenAsked) {
  const auto refused = codegen::write_bundle(plan_, {}, path_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("exists already"));
  EXPECT_TRUE(codegen::write_bundle(plan_, {.replace = true}, path_).ok());
  EXPECT_TRUE(verify_bundle(path_).empty());
  fs::create_directory(folder_ + "/photos");
  EXPECT_THAT(codegen::write_bundle(plan_, {.replace = true}, folder_ + "/photos").diagnostic().str(),
              HasSubstr("is not a bundle"));
}

TEST_F(Bundles, LeaveNothingBehindWhenTheyCannotBeWritten) {
  const auto nowhere = codegen::write_bundle(plan_, {}, folder_ + "/no/such/place.rannc");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.diagnostic().str(), HasSubstr("/no/such/place.rannc"));
  ir::Plan bare = build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}});
  bare.graph.set_data(bare.graph.find("w2"), {});
  const auto weightless = codegen::write_bundle(bare, {}, folder_ + "/bare.rannc");
  ASSERT_FALSE(weightless.ok());
  EXPECT_THAT(weightless.diagnostic().str(), HasSubstr("'w2': error: has no data"));
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++entries;
  EXPECT_EQ(entries, 1U) << "only the good bundle";
}

TEST_F(Bundles, B1FilesArePresent) {
  fs::remove(at("stage1.safetensors"));
  breaks("B1", "stage1.safetensors");
  fs::remove(at(kPlanFile));
  breaks("B1", "plan.rir");
  fs::remove_all(path_);
  breaks("B1", "toy.rannc");
}

// Device i runs stage i. Files of other hosts are absent.
TEST_F(Bundles, B1OfOneDeviceNeedTheFilesOfItsStages) {
  const HostedStages second{.device = DeviceId(1)};
  fs::remove(at("stage0.safetensors"));
  EXPECT_TRUE(verify_bundle(path_, second).empty());
  const Bundle bundle = open_bundle(path_, second).value();
  EXPECT_TRUE(bundle.weights[0].entries().empty());
  EXPECT_FALSE(bundle.weights[1].entries().empty());
  ASSERT_EQ(bundle.files.size(), 2U);
  EXPECT_EQ(bundle.files[1].name, "stage1.safetensors");
  EXPECT_EQ(bundle.files[1].digest, file_digest(at("stage1.safetensors")).value());
  breaks("B1", "stage0.safetensors: error: file is missing [B1]", {});
  breaks("B1", "stage0.safetensors: error: file is missing: device 0 runs stage 0", {.device = DeviceId(0)});
  breaks("B1", "stage0.safetensors", {.stage = StageId(0)});
  fs::remove(at("stage1.safetensors"));
  breaks("B1", "stage1.safetensors: error: file is missing: device 1 runs stage 1", second);
}

TEST_F(Bundles, B3AndB5AreJudgedForHostedStages) {
  const HostedStages second{.device = DeviceId(1)};
  write(at("stage0.safetensors"), "another host's");
  EXPECT_TRUE(verify_bundle(path_, second).empty());
  resign();
  EXPECT_TRUE(verify_bundle(path_, second).empty());
  breaks("B5", "stage0.safetensors", {.device = DeviceId(0)});
  auto json = manifest();
  json["files"].erase("stage0.safetensors");
  set_manifest(json);
  breaks("B3", "stage0.safetensors", second);
}

TEST_F(Bundles, B3ExecutablesAreOfAllStagesOrOfNone) {
  const std::string program = folder_ + "/program";
  write(program, "#!/bin/true");
  fs::permissions(program, fs::perms::owner_all);
  codegen::write_bundle(plan_, {.replace = true, .stage_program = program}, path_).value();
  EXPECT_TRUE(verify_bundle(path_).empty());
  EXPECT_EQ(read(at("stage1")), "#!/bin/true");
  EXPECT_NE(fs::status(at("stage1")).permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_EQ(fs::hard_link_count(at("stage0")), 2U) << "one file with two names";
  auto json = manifest();
  EXPECT_TRUE(json["files"].contains("stage0") && json["files"].contains("stage1"));
  json["files"].erase("stage1");
  set_manifest(json);
  breaks("B3", "'stage1': error: lacks `bytes` or `digest`");
  resign();
  write(at("stage1"), "another");  // both names
  breaks("B3", "stage0: error: has 7 bytes");
  fs::remove(at("stage1"));
  breaks("B1", "stage1: error: file is missing: device 1 runs stage 1", {.device = DeviceId(1)});
  const auto refused = codegen::write_bundle(plan_, {.stage_program = folder_ + "/none"}, folder_ + "/other.rannc");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("/none: error: cannot be copied"));
}

TEST_F(Bundles, B2ManifestIsOneOfThisVersion) {
  auto json = manifest();
  json["version"] = 1;
  set_manifest(json);
  breaks("B2", "bundle version 1; this build reads version 2");
  for (const char* text :
       {"", "[]", "{}", "{\"format\": 3}", "{\"format\": \"rannc.bundle\", \"version\": 2, \"stages\": -1}",
        "{\"format\": \"rannc.bundle\", \"version\": 2, \"stages\": 99999999999, \"files\": {}}"}) {
    write(at(kManifestFile), text);
    breaks("B2", "manifest.json");
  }
}

TEST_F(Bundles, B2NumbersHaveRanges) {
  const auto good = manifest();
  size_t numbers = 0;
  const auto fields = good.flatten();
  for (const auto& [path, value] : fields.items()) {
    if (!value.is_number()) continue;
    const nlohmann::json::json_pointer number(path);
    ++numbers;
    for (const char* const wrong :
         {"-1", "9223372036854775808", "18446744073709551615", "1e400", "null", "\"x\"", "[]", "{}"}) {
      SCOPED_TRACE(path + " " + wrong);
      auto damaged = good;
      damaged[number] = "WRONG";
      std::string text = damaged.dump();
      text.replace(text.find("\"WRONG\""), 7, wrong);
      write(at(kManifestFile), text);
      breaks("B2", "manifest.json: error: ");
      breaks("B2", path == "/version" ? "version" : "field '");
      breaks("B2", number.back());
    }
  }
  EXPECT_EQ(numbers, 5U) << "version, stages and the sizes of three files";
}

// Names for a million stages would be made otherwise.
TEST_F(Bundles, B3StagesHaveFiles) {
  auto json = manifest();
  json["stages"] = 1'000'000;
  set_manifest(json);
  breaks("B3", "has 1000000 stages, but lists 3 files");
}

TEST_F(Bundles, B1FilesAreNeitherPipesNorDevices) {
  for (const char* const name : {"manifest.json", "plan.rir", "stage0.safetensors"}) {
    const std::string content = read(at(name));
    fs::remove(at(name));
    ASSERT_EQ(::mkfifo(at(name).c_str(), 0600), 0);
    breaks("B1", std::string(name) + ": error: file is missing");
    fs::remove(at(name));
    fs::create_symlink("/dev/zero", at(name));
    breaks("B1", std::string(name) + ": error: file is missing");
    fs::remove(at(name));
    write(at(name), content);
  }
  EXPECT_TRUE(verify_bundle(path_).empty());
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(file_digest(pipe).diagnostic().str(), HasSubstr("/pipe: error: cannot read: not a regular file"));
}

TEST_F(Bundles, B2LibrariesHavePathAndDigest) {
  auto json = manifest();
  EXPECT_TRUE(open_bundle(path_)->libraries.empty());
  json["libraries"] = {{{"path", "/a.so"}, {"digest", "00"}}};
  set_manifest(json);
  ASSERT_EQ(open_bundle(path_)->libraries.size(), 1U);
  EXPECT_EQ(open_bundle(path_)->libraries[0].path, "/a.so");
  for (const char* wrong : {"3", "[3]", "[{\"path\": \"/a.so\"}]", "[{\"path\": 1, \"digest\": \"00\"}]"}) {
    json["libraries"] = nlohmann::json::parse(wrong);
    set_manifest(json);
    breaks("B2", "manifest.json: error: ");
    breaks("B2", "libraries");
  }
}

TEST_F(Bundles, B3FilesAreThoseOfTheManifest) {
  const auto json = manifest();
  std::string weights = read(at("stage0.safetensors"));
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write(at("stage0.safetensors"), weights);
  breaks("B3", "stage0.safetensors: error: has digest");
  write(at("stage0.safetensors"), weights + "x");
  breaks("B3", "bytes; the manifest has");
  resign();
  auto without = manifest();
  without["files"].erase("stage1.safetensors");
  set_manifest(without);
  breaks("B3", "stage1.safetensors");
  auto more = json;
  more["files"]["../../etc/passwd"] = {{"bytes", 1}, {"digest", ""}};
  set_manifest(more);
  breaks("B3", "../../etc/passwd");
}

TEST_F(Bundles, B3StagesForOtherRuntimesMayBeListed) {
  const std::string path = folder_ + "/more.rannc";
  codegen::write_bundle(plan_, {.add_files = [](const std::string& folder) -> Result<void> {
                          write(folder + "/stage1.onnx", "model");
                          write(folder + "/stage1.onnx.data", "data");
                          return {};
                        }},
                        path)
      .value();
  path_ = path;
  EXPECT_TRUE(verify_bundle(path_).empty());
  EXPECT_TRUE(manifest()["files"].contains("stage1.onnx"));
  write(at("stage1.onnx.data"), "dada");
  breaks("B3", "stage1.onnx.data: error: has digest");
  write(at("stage1.onnx.data"), "data");
  auto more = manifest();
  more["files"]["stage2.onnx"] = more["files"]["stage1.onnx"];
  set_manifest(more);
  breaks("B3", "stage2.onnx");
  more["files"].erase("stage2.onnx");
  set_manifest(more);
  fs::remove(at("stage1.onnx"));
  breaks("B1", "stage1.onnx");
}

TEST_F(Bundles, B4PlanHolds) {
  write(at(kPlanFile), "rannc.plan 1\nnonsense here\n");
  resign();
  breaks("B4", "plan.rir");
}

TEST_F(Bundles, B5WeightsAreThere) {
  fs::copy_file(at("stage1.safetensors"), at("stage0.safetensors"), fs::copy_options::overwrite_existing);
  resign();
  breaks("B5", "w0");
  write(at("stage0.safetensors"), "short");
  resign();
  breaks("B5", "file has 5 bytes");
}

TEST_F(Bundles, B6WeightsHaveThePlansTypes) {
  const ir::Plan wide = build_plan(testing::skip_and_tie(ir::DType::kF64), {.cuts = {3}});
  codegen::write_weights(wide, StageId(0), path_).value();
  resign();
  breaks("B6", "'w0': error: is f64[6,6]; the plan expects f32[6,6]");
}

TEST_F(Bundles, B7WeightsHoldNothingElse) {
  const ir::Plan whole = build_plan(testing::skip_and_tie(ir::DType::kF32), {});
  codegen::write_weights(whole, StageId(0), folder_).value();
  fs::copy_file(folder_ + "/stage0.safetensors", at("stage0.safetensors"), fs::copy_options::overwrite_existing);
  resign();
  breaks("B7", "does not use this tensor");
}

TEST_F(Bundles, B9StateHasWhatNoStageTakes) {
  ir::Plan plan = build_plan(testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}});
  const auto add = [&](const char* name) {
    const ir::ValueType type = {.dtype = ir::DType::kF32, .shape = ir::Shape{1}};
    plan.graph.add_value(ir::ValueKind::kConstant, name, type,
                         ir::encode_numbers(ir::DType::kF32, std::vector<double>{1}));
    plan.graph.add_state(ir::state_of(plan.graph, name, plan.graph.find(name), {0}));
  };
  add("mask");
  path_ = folder_ + "/state.rannc";
  codegen::write_bundle(plan, {}, path_).value();
  EXPECT_TRUE(verify_bundle(path_).empty());
  const ir::Plan plain = plan.clone();
  const auto with_file_of = [&](const char* name) {
    plan = plain.clone();
    plan.graph.set_state({});
    add(name);
    codegen::write_unread_state(plan, path_).value();
    plan_ = plain.clone();
    resign();
  };
  with_file_of("bias");
  breaks("B9", "'mask': error: tensor is missing");
  with_file_of("mask");
  EXPECT_TRUE(verify_bundle(path_).empty());
  plan.graph.set_state({});
  add("other");
  plan.graph.add_state(ir::state_of(plan.graph, "mask", plan.graph.find("mask"), {0}));
  codegen::write_unread_state(plan, path_).value();
  resign();
  breaks("B9", "'other': error: is read by a stage or does not belong to the state");
  write(at(kStateFile), "short");
  resign();
  breaks("B9", "file has 5 bytes");
  breaks("B9", "file has 5 bytes", {.device = DeviceId(0)});
  EXPECT_TRUE(verify_bundle(path_, {.device = DeviceId(1)}).empty()) << "device 0 exports weights";
  fs::remove(at(kStateFile));
  breaks("B1", "file is missing: device 0 needs it", {.device = DeviceId(0)});
  EXPECT_TRUE(verify_bundle(path_, {.device = DeviceId(1)}).empty());
  resign();
  breaks("B9", "'mask': error: file is missing");
  fs::copy_file(at("stage0.safetensors"), folder_ + "/toy.rannc/" + kStateFile);
  path_ = folder_ + "/toy.rannc";
  resign();
  breaks("B9", "every value of the state is in a stage's file");
}

}  // namespace
}  // namespace rannc::runtime
