// Orders of samples, and samples of token files.
#include "runtime/data/samples.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <tuple>

#include "ir/text/text.h"
#include "runtime/data/internal/permutation.h"
#include "runtime/data/token_files.h"
#include "runtime/internal/torch_value.h"

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
  EXPECT_EQ(
      refused(path, TokenType::kOfVocabulary),
      path +
          ": error: has no header, and looks like a file of int32 or uint32 tokens, not of uint16 tokens\n  note: "
          "specify the type: --token-type uint16, uint32, int32 or int64; or write a .npy file, which has it");
  EXPECT_EQ(refused(path, TokenType::kUInt16), "accepted");
  TokenInputs many = inputs();
  many.vocabulary = 65537;
  EXPECT_EQ(TokenFiles::open(path, TokenType::kOfVocabulary, many).value()->describe(),
            "13 samples of 3 tokens (40 uint32 tokens in 1 file)");
  many.vocabulary = 65536;
  EXPECT_FALSE(TokenFiles::open(path, TokenType::kOfVocabulary, many).ok());
}

TEST_F(TokenFilesTest, PartsOfWiderNumbersAreNoTokens) {
  const auto file_of = [this](auto number, auto largest, size_t count) {
    std::vector<decltype(number)> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = static_cast<decltype(number)>((i * i * 7919 + 31 * i) % largest);
    return write("raw.bin", all);
  };
  const auto why = [this](const std::string& path, int64_t vocabulary) {
    TokenInputs any = inputs();
    any.vocabulary = vocabulary;
    const auto opened = TokenFiles::open(path, TokenType::kOfVocabulary, any);
    return opened.ok() ? "accepted" : opened.diagnostic().message;
  };
  const std::string looks = "has no header, and looks like a file of ";
  for (const size_t count : {size_t{16}, size_t{1000}, size_t{100'000}}) {
    for (const uint64_t largest : {uint64_t{10}, uint64_t{50'257}, uint64_t{128'256}}) {
      for (const int64_t vocabulary : {int64_t{0}, int64_t{10}, int64_t{65'536}}) {
        EXPECT_EQ(why(file_of(int64_t{}, largest, count), vocabulary), looks + "int64 tokens, not of uint16 tokens");
        EXPECT_EQ(why(file_of(uint32_t{}, largest, count), vocabulary),
                  looks + "int32 or uint32 tokens, not of uint16 tokens");
        EXPECT_EQ(why(file_of(0.0F, largest, count), vocabulary), looks + "float32 numbers, not of uint16 tokens");
        EXPECT_EQ(why(file_of(0.0, largest, count), vocabulary), looks + "float64 numbers, not of uint16 tokens");
        if (largest > 65'536) continue;
        EXPECT_EQ(why(file_of(uint16_t{}, largest, count), vocabulary), "accepted");
      }
      EXPECT_EQ(why(file_of(int64_t{}, largest, count), 128'256), looks + "int64 tokens, not of uint32 tokens");
      EXPECT_EQ(why(file_of(uint32_t{}, largest, count), 128'256), "accepted");
    }
  }
  // Padding by -1 or -100 extends the sign.
  std::vector<int64_t> padded(64, 500);
  padded[5] = -100;
  EXPECT_EQ(why(write("padded.bin", padded), 0), looks + "int64 tokens, not of uint16 tokens");
  const auto read = TokenFiles::open(folder_ + "/padded.bin", TokenType::kInt64, inputs()).value()->read(numbers(2));
  EXPECT_EQ(read.diagnostic().message,
            "token 500 at position 0 is outside of the model's vocabulary of 10, read as int64");
  padded.assign(64, 5);
  padded[5] = -100;
  EXPECT_EQ(TokenFiles::open(write("padded.bin", padded), TokenType::kInt64, inputs())
                .value()
                ->read(numbers(2))
                .diagnostic()
                .message,
            "token -100 at position 5 is negative, read as int64");
}

/// Little-endian bytes of numbers.
template <class... Numbers>
std::string bytes_of(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

template <class Token>
std::string bytes_of_all(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

/// A .npy file as NumPy writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of(static_cast<uint16_t>(header.size())) + header + data;
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(uint64_t{header.size()}) + header + data;
}

std::string llm_c(int32_t magic, int32_t version, int32_t count, const std::string& data) {
  return bytes_of(magic, version, count) + std::string(1024 - 12, '\0') + data;
}

/// An index of Megatron of documents with these lengths.
std::string megatron(uint8_t code, uint64_t width, const std::vector<int32_t>& lengths) {
  std::string index = std::string("MMIDIDX\0\0", 9) +
                      bytes_of(uint64_t{1}, code, uint64_t{lengths.size()}, uint64_t{lengths.size() + 1});
  index += bytes_of_all(lengths);
  int64_t place = 0;
  for (const int32_t length : lengths) {
    index += bytes_of(place);
    place += static_cast<int64_t>(width) * length;
  }
  for (size_t i = 0; i <= lengths.size(); ++i) index += bytes_of(static_cast<int64_t>(i));
  return index;
}

template <class Token>
std::string seven() {
  return bytes_of_all(std::vector<Token>{3, 1, 4, 1, 5, 9, 2});
}

struct Format {
  std::string name, bytes, described;
};

std::vector<Format> formats() {
  return {
      {"a.npy", npy("<u2", "7,", seven<uint16_t>()), "7 uint16 tokens in 1 .npy file"},
      {"a.npy", npy("<u4", "7,", seven<uint32_t>()), "7 uint32 tokens in 1 .npy file"},
      {"a.npy", npy("<i4", "7, 1", seven<int32_t>()), "7 int32 tokens in 1 .npy file"},
      {"a.dat", npy("<i8", "1, 7", seven<int64_t>()), "7 int64 tokens in 1 .npy file"},
      {"a.safetensors",
       safetensors(
           R"({"ids":{"dtype":"I64","shape":[7],"data_offsets":[0,56]},"w":{"dtype":"F32","shape":[1],"data_offsets":[56,60]}})",
           seven<int64_t>() + bytes_of(0.5F)),
       "7 int64 tokens in 1 .safetensors file"},
      {"a.bin", llm_c(20240520, 1, 7, seven<uint16_t>()), "7 uint16 tokens in 1 llm.c file"},
      {"a.bin", llm_c(20240801, 7, 7, seven<uint32_t>()), "7 uint32 tokens in 1 llm.c file"},
      {"a.bin", seven<uint16_t>(), "7 uint16 tokens in 1 file"}};
}

TEST_F(TokenFilesTest, FormatsAreRecognizedByTheirBytes) {
  const at::Tensor tokens = at::tensor({3, 1, 4, 1, 5, 9}, at::kLong).reshape({2, 3});
  const at::Tensor labels = at::tensor({1, 4, 1, 5, 9, 2}, at::kLong).reshape({2, 3});
  const auto judge = [&](const std::string& path, const std::string& described) {
    const auto files = TokenFiles::open(path, TokenType::kOfVocabulary, inputs());
    ASSERT_TRUE(files.ok()) << files.diagnostic().str();
    EXPECT_EQ((*files)->describe(), fmt::format("2 samples of 3 tokens ({})", described));
    const Batch batch = (*files)->read(numbers(2)).value();
    EXPECT_TRUE(to_tensor(batch.at("tokens")).equal(tokens)) << described;
    EXPECT_TRUE(to_tensor(batch.at("labels/targets")).equal(labels)) << described;
  };
  for (const Format& format : formats())
    judge(write(format.name, std::vector(format.bytes.begin(), format.bytes.end())), format.described);
  const std::string bin = write("m.bin", std::vector<int32_t>{3, 1, 4, 1, 5, 9, 2});
  const std::string index = megatron(4, 4, {3, 4});
  for (const std::string& named : {write("m.idx", std::vector(index.begin(), index.end())), bin})
    judge(named, "7 int32 tokens in 1 Megatron file");
  EXPECT_EQ(refused(bin, TokenType::kUInt16),
            bin + ": error: has int32 tokens, as it specifies itself, not the explicit uint16");
}

TEST_F(TokenFilesTest, OtherFormatsAreNamed) {
  const std::string zeros(64, '\0'), text = "To be, or not to be, that is the question.\n";
  const std::string numbers = npy("<i8", "7,", seven<int64_t>());
  const std::string index = megatron(4, 4, {3, 4});
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"PAR1" + zeros + "PAR1", "is a Parquet file, not a file of tokens", "parquet.read_table(\"{}\")[\"input_ids\"]"},
      {"ARROW1" + zeros, "is an Arrow file", "feather.read_table(\"{}\")"},
      {bytes_of(int32_t{-1}, int32_t{32}) + zeros, "is a stream of Arrow", "ipc.open_stream"},
      {"\x1f\x8b\x08" + zeros, "is compressed by gzip", "decompress it first"},
      {"\x28\xb5\x2f\xfd" + zeros, "is compressed by zstd", "decompress it first"},
      {"PK\x03\x04" + zeros, "is a zip archive, such as .npz and .pt", "numpy.save"},
      {"\x89HDF\r\n\x1a\n" + zeros, "is an HDF5 file", "numpy.save"},
      {std::string("SQLite format 3\0", 16) + zeros, "is an SQLite database", "numpy.save"},
      {"\x80\x04\x95" + zeros + ".", "is a Python pickle", "numpy.save"},
      {"\x80\x02]q" + zeros + ".", "is a Python pickle", "numpy.save"},
      {R"({"input_ids": [1, 2, 3]})"
       "\n",
       "is JSON text", "json.loads(line)[\"input_ids\"] for line in open(\"{}\")"},
      {text, "is text, not a file of tokens", "--text"},
      {"Stra\xc3\x9f"
       "e zum Fu\xc3\x9f der Stra\xc3\x9f"
       "e\n",
       "is text", "--text"},
      {npy("<f4", "7,", seven<float>()), "has float32 numbers, but tokens are integers", ""},
      {npy("|b1", "7,", "1234567"), "has bool numbers, but tokens are integers", ""},
      {npy("<i8", "", seven<int64_t>().substr(0, 8)), "has 0 axes; tokens have one or two", ""},
      {npy("<i8", "1, 7, 1", seven<int64_t>()), "has 3 axes", ""},
      {npy("<i8", "0,", ""), "has no tokens", ""},
      {npy("<i8", "8,", seven<int64_t>()), "has 56 bytes of data, but its type and shape need 64", ""},
      {safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", bytes_of(0.5F)),
       "has 0 tensors of integers, expected one with the tokens", "--data"},
      {safetensors(
           R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}})",
           bytes_of(int32_t{1}, int32_t{2})),
       "has 2 tensors of integers, expected one with the tokens: 'a', 'b'", "--data"},
      {llm_c(20240520, 2, 7, seven<uint16_t>()), "is a llm.c file of version 2, expected 1", ""},
      {llm_c(20240520, 1, 8, seven<uint16_t>()), "has 8 uint16 tokens by its llm.c header, but 14 bytes of them", ""},
      {llm_c(20240801, 7, -1, seven<uint32_t>()), "has -1 uint32 tokens by its llm.c header", ""},
      {llm_c(20240520, 1, 7, "").substr(0, 100), "has 100 bytes, but the header of a llm.c file alone has 1024", ""},
      {llm_c(20240522, 1, 7, seven<uint16_t>()), "is an evaluation set of llm.c", "numpy.save"}};
  for (const auto& [bytes, message, advice] : cases) {
    const std::string path = write("any.bin", std::vector(bytes.begin(), bytes.end()));
    for (const TokenType type : {TokenType::kOfVocabulary, TokenType::kUInt16}) {
      const std::string found = refused(path, type);
      EXPECT_EQ(found.find(path), 0U) << found;
      EXPECT_NE(found.find("error: " + message), std::string::npos) << found << "\nexpected: " << message;
      EXPECT_NE(found.find(replaced(advice, "{}", path)), std::string::npos) << found;
    }
    EXPECT_EQ(refused(path, TokenType::kUInt8).find("error: is "), std::string::npos) << "bytes of text may be any";
  }
}

TEST_F(TokenFilesTest, AnIndexMustMatchItsFile) {
  const std::string bin = write("m.bin", std::vector<uint16_t>{3, 1, 4, 1, 5, 9, 2}), path = folder_ + "/m.idx";
  const std::string good = megatron(8, 2, {3, 4});
  const std::pair<std::string, std::string> cases[] = {
      {good, "accepted"},
      {good + "01", "accepted"},  // a mode per sequence
      {good + "0", "has 83 bytes, which do not match its 2 sequences and 3 documents"},
      {good.substr(0, 20), "is too short for an index of Megatron"},
      {megatron(6, 8, {7}), "specifies no integer type of the tokens: its code is 6"},
      {megatron(99, 8, {7}), "specifies no integer type of the tokens: its code is 99"},
      {megatron(8, 2, {3, 3}), "ends after 12 bytes of tokens, but the .bin file has 14"},
      {megatron(4, 4, {3, 4}), "ends after 28 bytes of tokens, but the .bin file has 14"},
      {good.substr(0, 9) + bytes_of(uint64_t{2}) + good.substr(17), "is an index of Megatron of version 2, expected 1"},
      {good.substr(0, 18) + bytes_of(~uint64_t{0}, ~uint64_t{0}) + good.substr(34),
       "has 82 bytes, which do not match its"}};
  for (const auto& [bytes, message] : cases) {
    write("m.idx", std::vector(bytes.begin(), bytes.end()));
    const std::string found = refused(bin, TokenType::kOfVocabulary);
    EXPECT_NE(found.find(message), std::string::npos) << found;
    if (message == "accepted") continue;
    EXPECT_EQ(found.find(path), 0U) << found;
  }
  std::filesystem::remove(bin);
  write("m.idx", std::vector(good.begin(), good.end()));
  EXPECT_EQ(refused(path, TokenType::kOfVocabulary), bin + ": error: cannot open: No such file or directory");
}

// Headers are untrusted: damaged ones give an error or tokens inside of the file.
TEST_F(TokenFilesTest, DamagedFilesAreReadWithinTheirBounds) {
  const auto judge = [this](const std::string& name, const std::string& bytes, const std::string& opened) {
    write(name, std::vector(bytes.begin(), bytes.end()));
    const auto files = TokenFiles::open(opened, TokenType::kOfVocabulary, inputs());
    if (files.ok()) (void)(*files)->read(numbers((*files)->samples()));
  };
  std::vector<Format> all = formats();
  const std::string bin = write("m.bin", std::vector<int32_t>{3, 1, 4, 1, 5, 9, 2});
  all.push_back({"m.idx", megatron(4, 4, {3, 4}), {}});
  for (const Format& format : all) {
    const std::string path = format.name == "m.idx" ? bin : folder_ + "/" + format.name;
    const size_t header = std::min<size_t>(format.bytes.size(), 150);
    for (size_t i = 0; i < header; i += i < 40 ? 1 : 3) {
      if (i > 0) judge(format.name, format.bytes.substr(0, i), path);
      for (const char changed : {'\0', '\xff'}) {
        std::string damaged = format.bytes;
        damaged[i] = changed;
        judge(format.name, damaged, path);
      }
    }
  }
}

TEST_F(TokenFilesTest, BadFilesAreNamed) {
  EXPECT_EQ(refused(folder_ + "/absent.bin", TokenType::kUInt16),
            folder_ + "/absent.bin: error: no such file or folder");
  EXPECT_EQ(refused(folder_, TokenType::kUInt16),
            folder_ + ": error: the folder contains no .bin or .npy or .safetensors file");
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
