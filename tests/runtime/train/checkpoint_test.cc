// Folders of checkpoints: which are complete, and which are removed when a newer one is.
#include "runtime/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"
#include "runtime/engine/tensor.h"
#include "tools/common/scratch.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::UnorderedElementsAre;

class Checkpoints : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return fs::path(scratch_.path()) / name; }
  void write(const std::string& name) const {
    ASSERT_TRUE(write_checkpoint_part(path(name).string(), 0, {}).ok());
    ASSERT_TRUE(finish_checkpoint(path(name).string(), {0}, {}).ok());
  }
  void write_all(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write(name);
  }
  void remove_older(const std::string& than, uint64_t kept) const {
    const Result<void> removed = remove_older_checkpoints(path(than).string(), kept);
    EXPECT_TRUE(removed.ok()) << removed.diagnostic().str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) found.push_back(entry.path().filename());
    return found;
  }

 private:
  tools::Scratch scratch_;
};

TEST_F(Checkpoints, TheNewestAreKept) {
  write_all({"step-2", "step-9", "step-10", "step-100"});
  remove_older("step-100", 0);
  EXPECT_EQ(names().size(), 4U) << "0 keeps all";
  remove_older("step-100", 4);
  EXPECT_EQ(names().size(), 4U);
  remove_older("step-100", 2);
  EXPECT_THAT(names(), UnorderedElementsAre("step-10", "step-100"));
  remove_older("step-100", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-100"));
  remove_older("step-100", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-100")) << "the only one stays";
}

TEST_F(Checkpoints, NewerOnesAndOtherFoldersStay) {
  write_all({"step-2", "step-4", "step-6", "final", "step-1b"});
  fs::create_directory(path("step-1"));  // without a manifest it is no checkpoint
  std::ofstream(path("step-3")) << "a file";
  remove_older("step-4", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-1", "step-1b", "step-3", "step-4", "step-6", "final"));
  remove_older("final", 1);
  EXPECT_EQ(names().size(), 6U) << "it has no step that others could be older than";
}

TEST_F(Checkpoints, OneThatIsNotThereRemovesNothing) {
  write("step-2");
  EXPECT_FALSE(remove_older_checkpoints(path("step-4").string(), 1).ok());
  EXPECT_THAT(names(), UnorderedElementsAre("step-2"));
}

// As if the process had been killed between the two steps of a removal, or while it wrote a checkpoint.
TEST_F(Checkpoints, AnInterruptedRemovalLeavesNoneThatCounts) {
  write_all({"step-2", "step-4"});
  fs::rename(path("step-2"), partial_checkpoint(path("step-2").string()));
  EXPECT_EQ(latest_checkpoint(path("").string()), path("step-4").string());
  fs::rename(path("step-4"), partial_checkpoint(path("step-4").string()));
  EXPECT_EQ(latest_checkpoint(path("").string()), "");
  write("step-6");
  ASSERT_TRUE(write_checkpoint_part(path("step-8").string(), 0, {}).ok());
  remove_older("step-6", 1);
  EXPECT_THAT(names(), UnorderedElementsAre("step-6", "step-8.partial")) << "step 8 is being written";
}

// A checkpoint gets its name after its manifest is written, so one without a manifest was damaged.
TEST_F(Checkpoints, NewerOnesWithoutAManifestAreReported) {
  write_all({"step-2", "step-4", "step-6", "step-8"});
  const auto reported = [&] {
    std::vector<std::string> found;
    for (const Diagnostic& damaged : newer_damaged_checkpoints(path("").string())) found.push_back(damaged.str());
    return found;
  };
  EXPECT_THAT(reported(), ::testing::IsEmpty());
  for (const char* const damaged : {"step-2", "step-6", "step-8"}) fs::remove(path(damaged) / "manifest.json");
  EXPECT_EQ(latest_checkpoint(path("").string()), path("step-4").string());
  EXPECT_THAT(
      reported(),
      ::testing::ElementsAre(path("step-6/manifest.json").string() + ": error: is missing: the checkpoint is damaged",
                             path("step-8/manifest.json").string() + ": error: is missing: the checkpoint is damaged"));
}

Value numbers(int64_t first, int64_t last) { return to_value(at::arange(first, last, at::kDouble)); }

class Slices : public Checkpoints {
 protected:
  /// Ten numbers on three devices, of which two have elements 3 and 4.
  std::string write_slices(bool sliced = true) const {
    const std::string folder = path("slices").string();
    const std::vector<std::pair<int64_t, int64_t>> ranges = {{3, 7}, {0, 5}, {7, 10}};
    for (uint32_t d = 0; d < ranges.size(); ++d) {
      const auto [first, last] = ranges[d];
      EXPECT_TRUE(
          write_checkpoint_part(folder, d, {{slice_key("optimizer/a/w", first, last), numbers(first, last)}}).ok());
    }
    EXPECT_TRUE(finish_checkpoint(folder, {0, 1, 2}, {.sliced = sliced}).ok());
    return folder;
  }
  static at::Tensor read(const std::string& folder, const std::string& key, int64_t elements) {
    const Value value = to_value(at::zeros({elements}, at::kDouble));
    const Result<void> done = read_checkpoint(folder, {{key, value}});
    EXPECT_TRUE(done.ok()) << done.diagnostic().str();
    return to_tensor(value);
  }
};

TEST_F(Slices, AreAssembledToWholeTensorsAndOtherSlices) {
  const std::string folder = write_slices();
  EXPECT_TRUE(at::equal(read(folder, "optimizer/a/w", 10), to_tensor(numbers(0, 10))));
  for (const auto& [first, last] : std::vector<std::pair<int64_t, int64_t>>{{0, 10}, {3, 7}, {2, 4}, {6, 8}, {9, 10}})
    EXPECT_TRUE(
        at::equal(read(folder, slice_key("optimizer/a/w", first, last), last - first), to_tensor(numbers(first, last))))
        << first;
}

TEST_F(Slices, AreReadFromWholeTensors) {
  const std::string folder = path("whole").string();
  ASSERT_TRUE(write_checkpoint_part(folder, 0, {{"optimizer/a/w", numbers(0, 10)}}).ok());
  ASSERT_TRUE(finish_checkpoint(folder, {0}, {}).ok());
  EXPECT_TRUE(at::equal(read(folder, slice_key("optimizer/a/w", 2, 6), 4), to_tensor(numbers(2, 6))));
}

TEST_F(Slices, ThatAreMissingOrOfAnotherTypeChangeNothing) {
  const std::string folder = write_slices();
  const Value longer = to_value(at::zeros({11}, at::kDouble)), narrow = to_value(at::zeros({10}, at::kFloat));
  const Value other = to_value(at::zeros({10}, at::kDouble));
  const auto refused = [&](const CheckpointTensors& into) {
    const Result<void> done = read_checkpoint(folder, into);
    return done.ok() ? std::string() : done.diagnostic().message;
  };
  EXPECT_EQ(refused({{"optimizer/a/w", longer}}), "checkpoint has no slice of 'optimizer/a/w' with element 10");
  EXPECT_EQ(refused({{"optimizer/a/w", narrow}}),
            "checkpoint's tensor 'slice/0-5/optimizer/a/w' has another type than the model's");
  EXPECT_EQ(refused({{"optimizer/a/w", other}, {"optimizer/b/w", other}}), "checkpoint has no tensor 'optimizer/b/w'");
  EXPECT_EQ(to_tensor(other).sum().item<double>(), 0);
}

TEST_F(Slices, WhoseNamesAreWrongAreRefused) {
  for (const char* key : {"slice/0-5", "slice/5-0/w", "slice/0-4/w", "slice/a-5/w", "slice/-1-4/w"}) {
    const std::string folder = path("wrong").string();
    ASSERT_TRUE(write_checkpoint_part(folder, 0, {{key, numbers(0, 5)}}).ok());
    ASSERT_TRUE(finish_checkpoint(folder, {0}, {.sliced = true}).ok());
    const Result<void> done = read_checkpoint(folder, {});
    ASSERT_FALSE(done.ok()) << key;
    EXPECT_EQ(done.diagnostic().message, std::string("tensor '") + key + "' is not a slice of the size in its name");
  }
}

TEST_F(Slices, HaveAVersionOfTheirOwn) {
  const auto version = [](const std::string& folder) {
    std::ifstream file(folder + "/manifest.json");
    return nlohmann::json::parse(file).at("version").get<int>();
  };
  EXPECT_EQ(version(write_slices()), 5);
  EXPECT_EQ(version(write_slices(false)), 4);
  EXPECT_TRUE(is_optimizer_key("optimizer/a/w"));
  EXPECT_TRUE(is_optimizer_key(slice_key("optimizer/a/w", 0, 5)));
  EXPECT_FALSE(is_optimizer_key(slice_key("parameter/w", 0, 5)));
}

std::string bytes_of(const fs::path& path) { return read_file(path).value(); }

void overwrite_file(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

class Damage : public Checkpoints {
 protected:
  Damage() {
    state_.settings.optimizer.learning_rate = 0.25;
    EXPECT_TRUE(write_checkpoint_part(folder_, 0, {{"parameter/w", numbers(0, 9)}}).ok());
    EXPECT_TRUE(write_checkpoint_part(folder_, 1, {{"optimizer/a/w", numbers(9, 18)}}).ok());
    EXPECT_TRUE(finish_checkpoint(folder_, {0, 1}, state_).ok());
  }
  bool export_reads() const {
    const auto listed = checkpoint_tensors(folder_);
    return listed.ok() &&
           std::all_of(listed->begin(), listed->end(), [](const auto& entry) { return entry.second.read().ok(); });
  }
  /// What is said about the checkpoint; empty if it has its content.
  std::string judged() const {
    const auto state = read_checkpoint_state(folder_);
    if (!state.ok()) return state.diagnostic().str();
    const Value w = to_value(at::zeros({9}, at::kDouble)), a = to_value(at::zeros({9}, at::kDouble));
    const auto read = read_checkpoint(folder_, {{"parameter/w", w}, {"optimizer/a/w", a}});
    EXPECT_EQ(read.ok(), export_reads());
    if (!read.ok()) return read.diagnostic().str();
    const bool same = state->step == state_.step && state->updates == state_.updates &&
                      state->settings == state_.settings && state->model_digest == state_.model_digest &&
                      state->data_state == state_.data_state && state->loss_scale.scale == state_.loss_scale.scale &&
                      at::equal(to_tensor(w), to_tensor(numbers(0, 9))) &&
                      at::equal(to_tensor(a), to_tensor(numbers(9, 18)));
    return same ? "" : "silently another checkpoint";
  }
  std::string folder_ = path("step-7").string();
  CheckpointState state_{.step = 7, .updates = 6, .model_digest = "model", .data_state = "17 4"};
};

TEST_F(Damage, OfAnyByteIsFound) {
  ASSERT_EQ(judged(), "");
  for (const char* const name : {"manifest.json", "device0.safetensors", "device1.safetensors"}) {
    const fs::path file = fs::path(folder_) / name;
    const std::string bytes = bytes_of(file);
    size_t harmless = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      overwrite_file(file, damaged);
      const std::string said = judged();
      harmless += said.empty() ? 1 : 0;
      if (!said.empty()) ASSERT_NE(said.find(folder_), std::string::npos) << name << ", byte " << i << ": " << said;
    }
    overwrite_file(file, bytes);
    EXPECT_LT(harmless, bytes.size() / 2) << "white space of " << name;
  }
}

TEST_F(Damage, OfATensorNamesIt) {
  const fs::path file = fs::path(folder_) / "device1.safetensors";
  std::string bytes = bytes_of(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  overwrite_file(file, bytes);
  EXPECT_EQ(judged(), file.string() + ": error: is damaged: tensor 'optimizer/a/w' differs from its digest");
}

TEST_F(Damage, OfManifestsOfOlderFormatsNamesTheField) {
  const std::string file = folder_ + "/manifest.json";
  const nlohmann::json written = nlohmann::json::parse(bytes_of(file));
  const auto said = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json older = written;
    older["version"] = 2;
    older.erase("digest");
    older[nlohmann::json::json_pointer(pointer)] = value;
    overwrite_file(file, older.dump());
    const std::string found = judged(), start = file + ": error: ";
    return found.starts_with(start) ? found.substr(start.size()) : found;
  };
  EXPECT_EQ(said("/version", 2), "");
  EXPECT_EQ(said("/version", nullptr), "field 'version' is null, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(said("/version", 6), "has format version 6, this program reads 2 to 5");
  EXPECT_EQ(said("/step", -1), "field 'step' is -1, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(said("/step", 7.5), "field 'step' is 7.5, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(said("/step", 0), "is of step 0 with 6 updates, in a folder of step 7");
  EXPECT_EQ(said("/updates", 8), "is of step 7 with 8 updates, in a folder of step 7");
  EXPECT_EQ(said("/settings", 3), "field 'settings' is 3, expected an object");
  EXPECT_EQ(said("/settings/optimizer", "x").find("field 'settings.optimizer': "), 0U);
  EXPECT_EQ(said("/settings/learning_rate", "x"),
            "field 'settings.learning_rate' is \"x\", expected 0 or a positive number");
  EXPECT_EQ(said("/loss_scale/scale", 0),
            "field 'loss_scale.scale' is 0, expected a number from 1 to 1.152921504606847e+18");
  EXPECT_EQ(said("/files", "x"), "field 'files' is \"x\", expected a list");
  EXPECT_EQ(said("/files/0", "../x"), "field 'files' is \"../x\", expected names of files in this folder");
  EXPECT_EQ(said("/data", 3), "field 'data' is 3, expected a string");
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(judged().find("not a regular file"), std::string::npos) << judged();
  fs::remove(file);
  overwrite_file(file, written.dump());
  fs::remove(fs::path(folder_) / "device1.safetensors");
  ASSERT_EQ(mkfifo((folder_ + "/device1.safetensors").c_str(), 0600), 0);
  EXPECT_NE(judged().find("device1.safetensors: error: no such file"), std::string::npos) << judged();
}

// Each number of the manifest, by its path.
std::vector<nlohmann::json::json_pointer> numbers_in(const nlohmann::json& manifest) {
  std::vector<nlohmann::json::json_pointer> found;
  const nlohmann::json fields = manifest.flatten();
  for (const auto& [path, value] : fields.items()) {
    if (value.is_number()) found.emplace_back(path);
  }
  return found;
}

TEST_F(Damage, OfAnyNumberOfAManifestNamesTheField) {
  const std::string file = folder_ + "/manifest.json";
  nlohmann::json older = nlohmann::json::parse(bytes_of(file));
  older["version"] = 2;
  older.erase("digest");
  const auto numbers = numbers_in(older);
  EXPECT_EQ(numbers.size(), 24U) << "numbers of a manifest";
  for (const auto& number : numbers) {
    std::string name = number.to_string().substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    for (const char* const wrong :
         {"-1", "9223372036854775808", "18446744073709551615", "1e400", "null", "\"x\"", "[]", "{}"}) {
      SCOPED_TRACE(name + " " + wrong);
      // A seed is any 64 bits, and a setting may be large.
      const bool any = name == "settings.seed" || name == "settings.learning_rate" || name == "settings.weight_decay" ||
                       name == "settings.epsilon" || name == "settings.decay_to" || name == "settings.clip_norm";
      if (any && (wrong[0] == '9' || wrong[0] == '1') && std::string(wrong) != "1e400") continue;
      nlohmann::json damaged = older;
      damaged[number] = "WRONG";
      std::string text = damaged.dump();
      text.replace(text.find("\"WRONG\""), 7, wrong);
      overwrite_file(file, text);
      const auto read = read_checkpoint_state(folder_);
      ASSERT_FALSE(read.ok());
      const std::string said = read.diagnostic().str();
      EXPECT_NE(said.find(file), std::string::npos) << said;
      const bool parsed = std::string(wrong) != "1e400";
      const std::string last = number.back();  // an unreadable number is in no object
      EXPECT_NE(said.find(parsed ? "field '" + name + "' is " : "field '" + last + "'"), std::string::npos) << said;
    }
  }
}

}  // namespace
}  // namespace rannc::runtime
