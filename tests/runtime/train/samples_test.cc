// Orders of samples, and samples of token files.
#include "runtime/train/samples.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/internal/permutation.h"
#include "runtime/train/token_files.h"

namespace rannc::runtime {
namespace {

std::vector<uint64_t> numbers(uint64_t count) {
  std::vector<uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<uint64_t> permuted(uint64_t size, uint64_t key) {
  std::vector<uint64_t> order = numbers(size);
  for (uint64_t& number : order) number = Permutation(size, key)(number);
  return order;
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (uint64_t size = 1; size <= 300; ++size) {
    for (uint64_t key = 0; key < 3; ++key) {
      std::vector<uint64_t> order = permuted(size, key);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order, numbers(size)) << size << " with key " << key;
    }
  }
  for (const uint64_t size : {uint64_t{1} << 40, ~uint64_t{0}}) {
    const Permutation order(size, 5);
    std::set<uint64_t> found;
    for (uint64_t i = 0; i < 1000; ++i) found.insert(order(size - 1 - i));
    EXPECT_EQ(found.size(), 1000U);
    EXPECT_LT(*found.rbegin(), size);
  }
}

TEST(Permutation, PutsEachNumberAtEachPlaceEquallyOften) {
  constexpr uint64_t kSize = 10, kKeys = 10'000;
  std::vector<std::vector<uint64_t>> counts(kSize, std::vector<uint64_t>(kSize));
  for (uint64_t key = 0; key < kKeys; ++key) {
    const std::vector<uint64_t> order = permuted(kSize, key);
    for (uint64_t i = 0; i < kSize; ++i) ++counts[i][order[i]];
  }
  // A count has a standard deviation of 30; one of 100 reaches five of them in one of 17,000 cases.
  for (const auto& row : counts) {
    for (const uint64_t count : row) EXPECT_NEAR(static_cast<double>(count), 1000, 150);
  }
}

// Logits have 10 classes, the table has 12 rows: the vocabulary is 10.
constexpr std::string_view kModel = R"(rannc.graph 1
batch n
input %tokens: i64[n,time] samples 0
input %labels/targets: i64[n,time] samples 0
parameter %table: f32[12,10]
#0 %0: f32[n,time,10] samples 0 = core.gather(%table, %tokens)
#1 %1: f32[] partial = core.cross_entropy_sum(%0, %labels/targets)
inputs [%tokens, %labels/targets]
)";

ir::Plan plan_of(std::string text, uint32_t mini_batch) {
  ir::Plan plan;
  plan.graph = ir::parse_graph(text, "t.rir").value();
  plan.mini_batch = mini_batch;
  return plan;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class TokenFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <class Token = uint16_t>
  std::string write(const std::string& name, const std::vector<Token>& tokens) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * sizeof(Token)));
    return path;
  }

  TokenInputs inputs(uint64_t length = 3) const {
    return find_token_inputs(plan_of(std::string(kModel), 2), length).value();
  }

  std::string refused(const std::string& path, TokenType type, uint64_t least = 1) const {
    const auto opened = TokenFiles::open(path, type, inputs(), least);
    return opened.ok() ? "accepted" : opened.diagnostic().str();
  }

  const std::string folder_ = fmt::format("{}/tokens-{}", ::testing::TempDir(), ::getpid());
};

TEST_F(TokenFilesTest, EachTokenButTheFirstIsPredictedOnce) {
  write("b.bin", {7, 8, 9, 0, 1, 2, 3, 4});  // two samples of three tokens, one is left
  write("a.bin", {0, 1, 2, 3, 4, 5, 6, 5});
  write("c.bin", {1, 2});  // too short for a sample
  write("d.bin", {5, 4, 3, 2});
  write("notes.txt", {99});
  const auto files = TokenFiles::open(folder_, TokenType::kUInt16, inputs()).value();
  EXPECT_EQ(files->describe(), "5 samples of 3 tokens (22 uint16 tokens in 4 files)");
  const Batch batch = files->read(numbers(5)).value();
  const at::Tensor tokens = at::tensor({0, 1, 2, 3, 4, 5, 7, 8, 9, 0, 1, 2, 5, 4, 3}, at::kLong).reshape({5, 3});
  const at::Tensor labels = at::tensor({1, 2, 3, 4, 5, 6, 8, 9, 0, 1, 2, 3, 4, 3, 2}, at::kLong).reshape({5, 3});
  EXPECT_TRUE(to_tensor(batch.at("tokens")).equal(tokens));
  EXPECT_TRUE(to_tensor(batch.at("labels/targets")).equal(labels));
  const Batch some = files->read(std::vector<uint64_t>{4, 1}).value();
  EXPECT_TRUE(to_tensor(some.at("tokens")).equal(tokens.index_select(0, at::tensor({4, 1}))));
}

TEST_F(TokenFilesTest, WideTokensAndOtherLayouts) {
  const std::string time_first = replaced(std::string(kModel), "i64[n,time] samples 0", "i64[time,n] samples 1");
  TokenInputs inputs =
      find_token_inputs(plan_of(replaced(time_first, "f32[n,time,10] samples 0", "f32[time,n,10] samples 1"), 2), 2)
          .value();
  EXPECT_TRUE(inputs.input_by_place && inputs.labels_by_place);
  inputs.vocabulary = 0;
  const std::string path = write<uint32_t>("t.bin", {1, 70000, 3, 4'000'000'000, 5});
  const Batch batch = TokenFiles::open(path, TokenType::kUInt32, inputs).value()->read(numbers(2)).value();
  EXPECT_TRUE(to_tensor(batch.at("tokens")).equal(at::tensor({1L, 3L, 70000L, 4'000'000'000L}).reshape({2, 2})));
}

TEST_F(TokenFilesTest, TheVocabularySelectsTheType) {
  EXPECT_EQ(inputs().vocabulary, 10);
  std::vector<uint32_t> wide(40, 7);
  const std::string path = write("wide.bin", wide);
  EXPECT_EQ(refused(path, TokenType::kOfVocabulary),
            path +
                ": error: every second uint16 token is 0, as in a file of uint32 tokens\n  note: specify the type: "
                "uint16 or uint32");
  EXPECT_EQ(refused(path, TokenType::kUInt16), "accepted");
  TokenInputs many = inputs();
  many.vocabulary = 65537;
  EXPECT_EQ(TokenFiles::open(path, TokenType::kOfVocabulary, many).value()->describe(),
            "13 samples of 3 tokens (40 uint32 tokens in 1 file)");
  many.vocabulary = 65536;
  EXPECT_FALSE(TokenFiles::open(path, TokenType::kOfVocabulary, many).ok());
}

TEST_F(TokenFilesTest, BadFilesAreNamed) {
  EXPECT_EQ(refused(folder_ + "/absent.bin", TokenType::kUInt16),
            folder_ + "/absent.bin: error: no such file or folder");
  EXPECT_EQ(refused(folder_, TokenType::kUInt16), folder_ + ": error: the folder contains no .bin file");
  const std::string odd = write<uint8_t>("odd.bin", {1, 2, 3, 4, 5});
  EXPECT_EQ(refused(odd, TokenType::kUInt16),
            odd + ": error: has 5 bytes, which is no multiple of the 2 bytes of a uint16 token");
  EXPECT_EQ(refused(odd, TokenType::kUInt32),
            odd + ": error: has 5 bytes, which is no multiple of the 4 bytes of a uint32 token");
  EXPECT_EQ(refused(write("empty.bin", {}), TokenType::kUInt16), folder_ + "/empty.bin: error: the file is empty");
  const std::string few = write("few.bin", {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(refused(few, TokenType::kUInt16, 2),
            few + ": error: has 1 samples of 3 tokens and a label, one mini-batch needs 2");
  const std::string path = write("t.bin", {1, 2, 3, 4, 5, 10, 7});
  const auto files = TokenFiles::open(path, TokenType::kUInt16, inputs()).value();
  EXPECT_TRUE(files->read(numbers(1)).ok());
  EXPECT_EQ(files->read(std::vector<uint64_t>{1}).diagnostic().str(),
            path + ": error: token 10 at position 5 is outside of the model's vocabulary of 10, read as uint16");
}

TEST_F(TokenFilesTest, ModelsWithOtherInputsAreRefused) {
  const auto why = [](const std::string& text, std::optional<uint64_t> length) {
    const auto found = find_token_inputs(plan_of(text, 2), length);
    return found.ok() ? "accepted" : found.diagnostic().message;
  };
  const std::string model(kModel), fixed = replaced(model, "time", "5");
  EXPECT_EQ(why(model, std::nullopt), "the number of tokens per sample of input 'tokens' is not known");
  EXPECT_EQ(why(fixed, 5), "accepted");
  EXPECT_EQ(why(fixed, 4), "input 'tokens' has 5 tokens per sample, not 4");
  EXPECT_EQ(find_token_inputs(plan_of(fixed, 2)).value().length, 5U);
  EXPECT_EQ(planned_length(plan_of(fixed, 2)), 5U);
}

/// The step's samples, as their first tokens.
std::vector<int64_t> first_tokens(const Dataset& data, uint64_t step) {
  const at::Tensor tokens = to_tensor(data.batch(step).value().at("tokens")).select(1, 0).contiguous();
  return {tokens.const_data_ptr<int64_t>(), tokens.const_data_ptr<int64_t>() + tokens.numel()};
}

TEST_F(TokenFilesTest, EveryEpochHasEachSampleOnceInAnOrderOfItsOwn) {
  std::vector<uint16_t> tokens(7 * 3 + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  TokenInputs all = inputs();
  all.vocabulary = 0;
  const std::string path = write("t.bin", tokens);
  const auto open = [&](std::optional<uint64_t> seed) {
    return mini_batches(TokenFiles::open(path, TokenType::kUInt16, all).value(), 2, seed);
  };
  const auto shuffled = open(1), again = open(1), other = open(2), plain = open(std::nullopt);
  const auto epoch = [](const Dataset& data, uint64_t number) {  // of three mini-batches; one sample is dropped
    std::vector<int64_t> order;
    for (uint64_t step = 3 * number; step < 3 * number + 3; ++step) {
      for (const int64_t first : first_tokens(data, step)) order.push_back(first);
    }
    return order;
  };
  std::set<std::vector<int64_t>> orders;
  std::set<int64_t> seen;
  for (uint64_t number = 0; number < 8; ++number) {
    const std::vector<int64_t> order = epoch(*shuffled, number);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), 6U) << number;
    EXPECT_EQ(order, epoch(*again, number));
    seen.insert(order.begin(), order.end());
    orders.insert(order);
    EXPECT_EQ(epoch(*plain, number), (std::vector<int64_t>{0, 3, 6, 9, 12, 15}));
  }
  EXPECT_EQ(orders.size(), 8U) << "7! orders of 8 epochs";
  EXPECT_EQ(seen.size(), 7U) << "the dropped sample differs between epochs";
  EXPECT_NE(epoch(*shuffled, 0), epoch(*other, 0));
  EXPECT_EQ(
      shuffled->describe(),
      "7 samples of 3 tokens (22 uint16 tokens in 1 file), shuffled, of which 1 is dropped in each epoch: it fills "
      "no mini-batch of 2");
}

}  // namespace
}  // namespace rannc::runtime
