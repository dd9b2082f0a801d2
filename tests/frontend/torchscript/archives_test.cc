// Archives as strangers may hand them over, and as large ones come.
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "frontend/torchscript/import.h"
#include "ir/base/replacement.h"
#include "tests/frontend/torchscript/program.h"
#include "tests/support/tier.h"

namespace rannc::test {
namespace {

class Mutants {
 public:
  Mutants()
      : module_("def forward(self, x):\n  for i in range(2):\n    x = torch.relu(x @ self.w) + i\n  return x\n",
                [](torch::jit::Module& m) {
                  m.register_parameter("w", at::randn({16, 16}).requires_grad_(true), false);
                }),
        bytes_(read_file(module_.path()).value()),
        path_(::testing::TempDir() + "mutant.pt") {}

  /// Whether the archive of those bytes is read; its diagnostic names the file where not.
  bool read(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    const auto imported = frontend::read_torch(path_, {.inputs = {"x=f32[batch,16]"}});
    EXPECT_TRUE(imported.ok() || !imported.diagnostic().message.empty());
    return imported.ok();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  SavedModule module_;
  std::string bytes_, path_;
};

TEST(TorchScriptMutants, EndInADiagnostic) {
  const Mutants mutants;
  std::mt19937 random(5);
  size_t refused = 0;
  const int mutants_read = rannc::testing::tests_everything() ? 500 : 100;
  for (int i = 0; i < mutants_read; ++i) {
    std::string bytes = mutants.bytes();
    for (uint32_t change = 0; change <= random() % 3; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += !mutants.read(bytes);
  }
  EXPECT_GT(refused, static_cast<size_t>(mutants_read / 10));
  EXPECT_LT(refused, static_cast<size_t>(mutants_read)) << "bytes between the records may be anything";
}

TEST(TorchScriptMutants, ThatAreCutOffEndInADiagnostic) {
  const Mutants mutants;
  ASSERT_TRUE(mutants.read(mutants.bytes()));
  for (size_t length = 0; length < mutants.bytes().size(); length += 61)
    EXPECT_FALSE(mutants.read(mutants.bytes().substr(0, length)));
}

TEST(TorchScriptArchives, ImportsStartFromTheLoadedModule) {
  constexpr int64_t kWide = 10 << 20;  // 40 MiB as a copy; an import may make 64 MiB of a small file
  const SavedModule module("def forward(self, x):\n  return x * self.w + self.wide\n", [](torch::jit::Module& m) {
    m.register_parameter("w", at::randn({1}).requires_grad_(true), false);
    m.register_buffer("wide", at::ones({1}).expand({kWide}));
  });
  const std::string path = ::testing::TempDir() + "parsed.pt";
  std::filesystem::copy_file(module.path(), path, std::filesystem::copy_options::overwrite_existing);
  const auto import = frontend::parse_torch(path, 1 << 20).value();
  std::filesystem::remove(path);
  const std::vector<std::string> inputs = {"x=f32[batch,10485760]"};
  for (int i = 0; i < 2; ++i) {
    const auto own = import({.inputs = inputs});
    ASSERT_TRUE(own.ok()) << own.diagnostic().str();
    EXPECT_EQ(own->graph.batch_symbol(), "batch");
    EXPECT_EQ(own->graph.task_count(), 2U);
    const auto whole = import({.batching = {.kind = BatchKind::kWhole}, .inputs = inputs});
    ASSERT_TRUE(whole.ok()) << whole.diagnostic().str();
    EXPECT_EQ(whole->graph.batch_symbol(), "");
    EXPECT_EQ(whole->graph.task_count(), 2U);
  }
}

/// Seconds of the processor.
double took(const std::function<void()>& run) {
  const std::clock_t start = std::clock();
  run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// LibTorch's loader is a part of the import, which does not take as long once more and a half.
TEST(TorchScriptScale, ThousandsOfOperatorsTakeLittleMoreThanTheirLoader) {
  // 30,000 in tier full: LibTorch takes ten times as long to write them as to read them.
  const size_t lines = rannc::testing::tests_everything() ? 10'000 : 2'000;
  std::string source = "def forward(self, x):\n";
  for (size_t i = 0; i < lines; ++i) source += "  x = torch.relu(x * 2 + x)\n";
  const SavedModule module(source + "  return x\n");
  const double loader = took([&] { torch::jit::load(module.path()); });
  const double import = took([&] {
    const auto imported = frontend::read_torch(module.path(), {.inputs = {"x=f32[batch,16]"}});
    ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
    EXPECT_GE(imported->graph.task_count(), 3 * lines);
  });
  std::cout << 3 * lines << " operators: loader " << loader << " s, import " << import << " s\n";
  EXPECT_LT(import, 2.5 * loader);
}

}  // namespace
}  // namespace rannc::test
