// Folders of checkpoints: which are complete, and which are removed when a newer one is.
#include "runtime/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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
  EXPECT_EQ(version(write_slices()), 3);
  EXPECT_EQ(version(write_slices(false)), 2);
  EXPECT_TRUE(is_optimizer_key("optimizer/a/w"));
  EXPECT_TRUE(is_optimizer_key(slice_key("optimizer/a/w", 0, 5)));
  EXPECT_FALSE(is_optimizer_key(slice_key("parameter/w", 0, 5)));
}

}  // namespace
}  // namespace rannc::runtime
