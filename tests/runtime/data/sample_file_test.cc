// Which axis of a file's tensors is cut into samples, and which labels are refused before a step.
#include "runtime/data/sample_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "ir/base/replacement.h"
#include "ir/text/text.h"
#include "runtime/bundle/safetensors.h"
#include "runtime/data/dataset.h"
#include "runtime/data/index_ranges.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

// Time in front; a scale and a mask that all samples share; labels batch-first.
constexpr std::string_view kTimeFirst = R"(rannc.graph 1
batch n
input %x: f32[time,n] samples 1
input %scale: f32[]
input %mask: f32[time,time]
input %labels/y: i64[n,time] samples 0
#0 %0: f32[time,n] samples 1 = core.mul(%x, %scale)
#1 %1: f32[time,n] samples 1 = core.matmul(%mask, %0)
#2 %2: f32[n,time] samples 0 = core.permute(%1) {dims = [1,0]}
#3 %3: f32[] partial = core.cross_entropy_sum(%2, %labels/y)
inputs [%x, %scale, %mask, %labels/y]
outputs [%1]
)";

ir::Plan plan_of(std::string_view graph, uint32_t mini_batch) {
  ir::Plan plan;
  plan.graph = ir::parse_graph(graph, "t.rir").value();
  plan.mini_batch = mini_batch;
  return plan;
}

ir::Plan without_loss(uint32_t mini_batch) {
  std::string text(kTimeFirst);
  const size_t at = text.find("#3"), end = text.find("inputs [");
  text.erase(at, end - at);
  return plan_of(text, mini_batch);
}

class SampleFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fmt::format("{}/samples-{}", ::testing::TempDir(), ::getpid());
    path_ = folder_ + "/samples.safetensors";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::map<std::string, at::Tensor>& tensors) const { return write_to(path_, tensors); }
  static std::string write_to(const std::string& path, const std::map<std::string, at::Tensor>& tensors) {
    std::vector<SafetensorsTensor> all;
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor own = tensor.contiguous();
      all.push_back({name, to_value(own)->spec(), [own]() -> Result<std::span<const std::byte>> {
                       return std::span(static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes());
                     }});
    }
    EXPECT_TRUE(write_safetensors(path, std::move(all)).ok());
    return path;
  }

  /// Writes samples [first, last) of `all` to a file of the folder.
  std::string write_part(const std::string& name, std::map<std::string, at::Tensor> all, int64_t first,
                         int64_t last) const {
    all.at("x/x") = all.at("x/x").narrow(1, first, last - first);
    all.at("labels/y") = all.at("labels/y").narrow(0, first, last - first);
    return write_to(folder_ + "/" + name, all);
  }

  static std::map<std::string, at::Tensor> tensors(int64_t samples, int64_t labelled) {
    return {{"x/x", at::arange(3 * samples, at::kFloat).reshape({3, samples})},
            {"x/scale", at::scalar_tensor(2, at::kFloat)},
            {"x/mask", at::ones({3, 3})},
            {"labels/y", at::arange(3 * labelled, at::kLong).remainder(3).reshape({labelled, 3})}};
  }

  std::string folder_, path_;
};

TEST_F(SampleFileTest, EachInputIsCutAlongItsOwnAxis) {
  const ir::Plan plan = without_loss(2);
  const auto all = tensors(5, 5);
  const auto data = open_samples(write(all), plan_of(kTimeFirst, 2));
  ASSERT_TRUE(data.ok()) << data.diagnostic().str();
  EXPECT_EQ((*data)->describe(), "5 samples, of which the last 1 is dropped: it fills no mini-batch of 2");
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = (*data)->batch(step).value();
    const int64_t first = 2 * static_cast<int64_t>(step % 2);
    EXPECT_TRUE(to_tensor(batch.at("x")).equal(all.at("x/x").narrow(1, first, 2)));
    EXPECT_TRUE(to_tensor(batch.at("labels/y")).equal(all.at("labels/y").narrow(0, first, 2)));
    EXPECT_TRUE(to_tensor(batch.at("mask")).equal(all.at("x/mask")));
    EXPECT_TRUE(to_tensor(batch.at("scale")).equal(all.at("x/scale")));
  }
  EXPECT_EQ(count_samples(plan.graph, {{"x", {ir::DType::kF32, {3, 7}}}}, "f").value(), 7U);
}

TEST_F(SampleFileTest, NarrowIntegersAreWidened) {
  for (const at::ScalarType type : {at::kInt, at::kShort, at::kByte}) {
    auto all = tensors(4, 4);
    const at::Tensor wide = all.at("labels/y");
    all.at("labels/y") = wide.to(type);
    const Batch batch = open_samples(write(all), plan_of(kTimeFirst, 4)).value()->batch(0).value();
    EXPECT_TRUE(to_tensor(batch.at("labels/y")).equal(wide));
    EXPECT_EQ(to_tensor(batch.at("labels/y")).scalar_type(), at::kLong);
    all.at("labels/y")[1][2] = 9;
    const auto wrong = open_samples(write(all), plan_of(kTimeFirst, 4));
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.diagnostic().str(),
                ::testing::HasSubstr("'labels/y': error: holds 9 in sample 1, but the classes are 0 to 2"));
  }
  auto floats = tensors(4, 4);
  floats.at("labels/y") = floats.at("labels/y").to(at::kFloat);
  EXPECT_FALSE(open_samples(write(floats), plan_of(kTimeFirst, 4)).ok());
  Batch batch{{"x", to_value(at::ones({3, 4}))}, {"labels/y", to_value(at::ones({4, 3}, at::kInt))}};
  batch = to_model_types(plan_of(kTimeFirst, 4), batch);
  EXPECT_EQ(to_tensor(batch.at("labels/y")).scalar_type(), at::kLong);
}

TEST_F(SampleFileTest, AFolderHasTheSamplesOfItsFilesInTheOrderOfTheirNames) {
  const auto all = tensors(9, 9);
  write_part("c.safetensors", all, 7, 9);
  write_part("a.safetensors", all, 0, 3);
  write_part("b.safetensors", all, 3, 7);
  std::filesystem::create_directory(folder_ + "/d.safetensors");
  const auto data = open_samples(folder_, plan_of(kTimeFirst, 2)).value();
  EXPECT_EQ(data->describe(), "9 samples of 3 files, of which the last 1 is dropped: it fills no mini-batch of 2");
  for (uint64_t step = 0; step < 5; ++step) {
    const Batch batch = data->batch(step).value();
    const int64_t first = 2 * static_cast<int64_t>(step % 4);
    EXPECT_TRUE(to_tensor(batch.at("x")).equal(all.at("x/x").narrow(1, first, 2))) << step;
    EXPECT_TRUE(to_tensor(batch.at("labels/y")).equal(all.at("labels/y").narrow(0, first, 2))) << step;
    EXPECT_TRUE(to_tensor(batch.at("mask")).equal(all.at("x/mask")));
  }
  const auto shuffled = open_samples(folder_, plan_of(kTimeFirst, 2), 3).value();
  std::vector<int64_t> order;
  for (uint64_t step = 0; step < 4; ++step) {
    const Batch batch = shuffled->batch(step).value();
    const at::Tensor x = to_tensor(batch.at("x"));
    for (int64_t i = 0; i < 2; ++i) {
      order.push_back(static_cast<int64_t>(x[0][i].item<float>()));
      EXPECT_TRUE(x.select(1, i).equal(all.at("x/x").select(1, order.back())));
      EXPECT_TRUE(to_tensor(batch.at("labels/y"))[i].equal(all.at("labels/y")[order.back()]));
    }
  }
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), 8U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(SampleFileTest, FilesOfAFolderThatDifferAreNamed) {
  const auto why = [&](std::map<std::string, at::Tensor> changed) {
    const auto all = tensors(4, 4);
    write_part("a.safetensors", all, 0, 4);
    write_to(folder_ + "/b.safetensors", changed);
    const auto opened = open_samples(folder_, plan_of(kTimeFirst, 2));
    return opened.ok() ? "accepted" : opened.diagnostic().str();
  };
  const std::string a = folder_ + "/a.safetensors", b = folder_ + "/b.safetensors";
  EXPECT_EQ(why(tensors(2, 2)), "accepted");
  auto changed = tensors(2, 2);
  changed.at("x/scale") = at::scalar_tensor(3, at::kFloat);
  EXPECT_EQ(why(changed),
            b + ": 'scale': error: differs from that in " + a + ", but has no samples: it must be equal in all files");
  changed = tensors(2, 2);
  changed.at("x/x") = changed.at("x/x").to(at::kDouble);
  EXPECT_EQ(why(changed), b + ": 'x': error: is f64[3,2], but f32[3,4] in " + a);
  changed = {{"x/x", at::ones({2, 2})},
             {"x/scale", at::scalar_tensor(2, at::kFloat)},
             {"x/mask", at::ones({2, 2})},
             {"labels/y", at::zeros({2, 2}, at::kLong)}};
  EXPECT_NE(why(changed).find(a), std::string::npos) << "another number of time steps: " << why(changed);
  changed = tensors(2, 2);
  changed.at("labels/y")[1][2] = 5;
  EXPECT_EQ(why(changed),
            b + ": 'labels/y': error: holds 5 in sample 1, but the classes are 0 to 2, and -100 is ignored");
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  EXPECT_EQ(open_samples(folder_, plan_of(kTimeFirst, 2)).diagnostic().str(),
            folder_ + ": error: the folder contains no .safetensors file");
}

// The format allows headers of any length, which move the data to odd addresses.
TEST_F(SampleFileTest, TensorsThatAreNotAlignedAreCopied) {
  const auto all = tensors(4, 4);
  write(all);
  std::string bytes = rannc::read_file(path_).value();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  ++length;
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(7 + length, " ");
  ASSERT_TRUE(rannc::write_file(path_, bytes).ok());
  const Batch batch = open_samples(path_, plan_of(kTimeFirst, 4)).value()->batch(0).value();
  EXPECT_TRUE(to_tensor(batch.at("x")).equal(all.at("x/x")));
  EXPECT_TRUE(to_tensor(batch.at("labels/y")).equal(all.at("labels/y")));
}

/// A .npy file as NumPy writes it.
std::string npy(const std::string& type, const std::string& shape, const at::Tensor& tensor,
                const std::string& order = "False") {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", type, order, shape);
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  const auto* const data = static_cast<const char*>(tensor.const_data_ptr());
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(reinterpret_cast<const char*>(&length), 2) + header +
         std::string(data, tensor.nbytes());
}

TEST_F(SampleFileTest, AFolderMayHaveNumPyFiles) {
  const auto all = tensors(5, 5);
  std::filesystem::create_directories(folder_ + "/x");
  std::filesystem::create_directories(folder_ + "/labels");
  const auto write_npy = [&](const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(rannc::write_file(folder_ + "/" + name + ".npy", bytes).ok());
  };
  const std::string x = npy("<f4", "3, 5", all.at("x/x"));
  write_npy("x/x", x);
  write_npy("x/scale", npy("<f4", "", all.at("x/scale")));
  write_npy("x/mask", npy("<f4", "3, 3", all.at("x/mask")));
  write_npy("labels/y", npy("<i8", "5, 3", all.at("labels/y")));
  const Batch batch = open_samples(folder_, plan_of(kTimeFirst, 2)).value()->batch(1).value();
  EXPECT_TRUE(to_tensor(batch.at("x")).equal(all.at("x/x").narrow(1, 2, 2)));
  EXPECT_TRUE(to_tensor(batch.at("labels/y")).equal(all.at("labels/y").narrow(0, 2, 2)));
  EXPECT_TRUE(to_tensor(batch.at("scale")).equal(all.at("x/scale")));
  const std::pair<std::string, std::string> kBad[] = {
      {x + "x", "has 61 bytes of data, but its type and shape need 60"},
      {x.substr(0, 100), "is not a .npy file as NumPy writes it"},
      {npy(">f4", "3, 5", all.at("x/x")), "has elements '>f4', expected little-endian numbers"},
      {npy("<c8", "3, 5", all.at("x/x")), "has elements '<c8', expected little-endian numbers"},
      {npy("<f4", "3, 5", all.at("x/x"), "True"), "is column-major (fortran_order), expected row-major data"},
      {npy("<f4", "9223372036854775807, 9", all.at("x/x")),
       "has 60 bytes of data, but its type and shape need more than 64 bits can count"},
      {npy("<f4", "99223372036854775807", all.at("x/x")),
       "has the shape (99223372036854775807), which has too large sizes"}};
  for (const auto& [bytes, message] : kBad) {
    write_npy("x/x", bytes);
    EXPECT_EQ(open_samples(folder_, plan_of(kTimeFirst, 2)).diagnostic().str(),
              folder_ + "/x/x.npy: error: " + message);
  }
}

TEST_F(SampleFileTest, NumbersOfSamplesThatDifferNameBothTensors) {
  const auto data = open_samples(write(tensors(5, 4)), plan_of(kTimeFirst, 2));
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.diagnostic().str(), path_ + ": 'x': error: has 5 samples (axis 1), but 'labels/y' has 4 (axis 0)");
}

TEST_F(SampleFileTest, TrainingNeedsAWholeMiniBatchAndEveryInput) {
  const auto few = open_samples(write(tensors(2, 2)), plan_of(kTimeFirst, 4));
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.diagnostic().message, "has 2 samples, one mini-batch needs 4");
  auto all = tensors(4, 4);
  all.erase("x/mask");
  const auto missing = open_samples(write(all), plan_of(kTimeFirst, 4));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.diagnostic().message.find("'x/mask'"), std::string::npos);
}

TEST_F(SampleFileTest, LabelsOutsideTheirClassesAreLocated) {
  auto all = tensors(4, 4);
  all.at("labels/y")[2][1] = 9;
  const auto data = open_samples(write(all), plan_of(kTimeFirst, 4));
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.diagnostic().str(),
            path_ + ": 'labels/y': error: holds 9 in sample 2, but the classes are 0 to 2, and -100 is ignored");
  all.at("labels/y")[2][1] = -100;
  EXPECT_TRUE(open_samples(write(all), plan_of(kTimeFirst, 4)).ok());
}

// A fused loss: labels below 0 count from the end, those of -1 are masked.
constexpr std::string_view kWrapped = R"(rannc.graph 1
batch n
input %x: f32[n,3] samples 0
input %y: i64[n] samples 0
#0 %zero: i64[] contents [0] = core.full() {dtype = i64, shape = [], value = 0}
#1 %low: bool[n] samples 0 = core.lt(%y, %zero)
#2 %three: i64[] contents [3] = core.full() {dtype = i64, shape = [], value = 3}
#3 %end: i64[n] samples 0 = core.add(%y, %three)
#4 %label: i64[n] samples 0 = core.where(%low, %end, %y)
#5 %loss: f32[] partial = core.cross_entropy_sum(%x, %label) {ignore_index = -2147483648}
inputs [%x, %y]
)";

TEST(IndexFaults, LabelsThatTheModelWrapsAreJudgedAfterThat) {
  const auto parsed = ir::parse_graph(kWrapped, "t.rir");
  ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().str();
  const auto fault = [&](std::vector<int64_t> labels) {
    const auto count = static_cast<int64_t>(labels.size());
    const Batch batch = {{"x", to_value(at::zeros({count, 3}))}, {"y", to_value(at::tensor(labels))}};
    return find_index_fault(*parsed, batch, {{"n", count}});
  };
  EXPECT_FALSE(fault({0, 2, -3, -1}));
  const auto found = fault({0, 2, -4, -1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->input, "y");
  EXPECT_EQ(found->message,
            "holds -4 in sample 2, but the classes are 0 to 2, or values that the model itself counts from the end or "
            "ignores");
}

constexpr const char* kMasked = R"(rannc.graph 1
batch n
input %x: f32[n,1,places,4] samples 0
input %mask: i64[n,places] samples 0
#0 %places: i64[places] = core.range() {limit = places, dtype = !i64}
#1 %same: i64[n,places] samples 0 = core.gather(%mask, %places) {axis = 1}
#2 %rows: i64[n,1,1,places] samples 0 = core.reshape(%same) {shape = [n,1,1,places]}
#3 %seen: bool[n,1,1,places] samples 0 = core.cast(%rows) {dtype = !bool}
#4 %y: f32[n,1,places,4] samples 0 = core.attention(%x, %x, %x, %seen) {scale = 0x1p+0, order = [0,1,2,3], checked = "ROWS"}
inputs [%x, %mask]
outputs [%y]
)";

// Without a check, gradients of such samples would be others than those of the file's operators.
TEST(MaskFaults, SamplesThatSeeNoPlaceAreNamed) {
  const auto fault = [](const std::string& checked, const at::Tensor& mask, bool present = true) {
    std::string text = kMasked;
    text.replace(text.find("ROWS"), 4, checked);
    const auto graph = ir::parse_graph(text, "t.rir");
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
    const ir::Bindings sizes = {{"n", mask.size(0)}, {"places", mask.size(1)}};
    Batch batch;
    if (present) batch.emplace("mask", to_value(mask));
    return find_mask_fault(*graph, batch, sizes);
  };
  at::Tensor mask = at::ones({3, 5}, at::kLong);
  mask[1].fill_(0);
  EXPECT_FALSE(fault("rows", mask, false)) << "another process has the input";
  const auto found = fault("rows", mask);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->input, "mask");
  EXPECT_EQ(found->message,
            "hides every place in sample 1, of which fused attention has no gradient: leave such samples out, or "
            "compile with --no-fuse attention");
  mask[1][4] = 2;
  EXPECT_FALSE(fault("rows", mask)) << "a truth value";
  const auto number = fault("rows_of_ones", mask);
  ASSERT_TRUE(number);
  EXPECT_EQ(number->message,
            "holds 2 in sample 1, but it masks attention: 1 stands for a place that is seen, 0 for a hidden one");
  mask[1][4] = 1;
  EXPECT_FALSE(fault("rows_of_ones", mask));
  const auto large = fault("rows", at::ones({1 << 10, (1 << 10) + 1}, at::kLong));
  ASSERT_TRUE(large && large->unknown);
  EXPECT_TRUE(large->message.starts_with("masks attention, and it cannot be checked")) << large->message;
}

TEST(IndexFaults, PlacesOutsideOfATableAreNamed) {
  const auto graph = ir::parse_graph(R"(rannc.graph 1
batch n
input %ids: i64[4,n] samples 1
parameter %table: f32[7,2]
#0 %rows: f32[4,n,2] samples 1 = core.gather(%table, %ids)
inputs [%ids]
outputs [%rows]
)",
                                     "t.rir");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  at::Tensor ids = at::zeros({4, 3}, at::kLong);
  ids[0][0] = -7;
  EXPECT_FALSE(find_index_fault(*graph, {{"ids", to_value(ids)}}, {{"n", 3}}));
  ids = ids.clone();
  ids[1][2] = 7;
  const auto found = find_index_fault(*graph, {{"ids", to_value(ids)}}, {{"n", 3}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->message, "holds 7 in sample 2, but the valid indices are 0 to 6, or -7 to -1 from the end");
}

// Tokens and labels of sequences, at least two tokens long and of an even number.
constexpr std::string_view kSequences = R"(rannc.graph 1
batch n
assume equal [s,2*floor(s/2)]
input %tokens: i64[n,s] samples 0
input %labels/y: i64[n,s] samples 0
parameter %table: f32[7,4]
#0 %0: f32[n,s,4] samples 0 = core.gather(%table, %tokens)
#1 %1: f32[] partial = core.cross_entropy_sum(%0, %labels/y)
inputs [%tokens, %labels/y]
outputs [%0]
loss %1 weight 0x1p+0
)";

class Lengths : public SampleFileTest {
 protected:
  /// Sequences of `length` tokens, all of them `token`.
  void write_length(const std::string& name, int64_t samples, int64_t length, int64_t token) const {
    write_to(folder_ + "/" + name, {{"x/tokens", at::full({samples, length}, token, at::kLong)},
                                    {"labels/y", at::full({samples, length}, token % 4, at::kLong)}});
  }
  static ir::Plan plan() { return plan_of(kSequences, 2); }
  Result<std::unique_ptr<Dataset>> open(const SampleSizes& sizes, std::optional<uint64_t> seed = {}) const {
    return open_samples(folder_, plan(), seed, sizes);
  }
  std::string fault(const SampleSizes& sizes) const {
    const auto opened = open(sizes);
    return opened.ok() ? "" : opened.diagnostic().str();
  }
};

TEST_F(Lengths, MiniBatchesHaveSamplesOfOneLength) {
  write_length("a.safetensors", 5, 4, 1);
  write_length("b.safetensors", 4, 2, 2);
  write_length("c.safetensors", 2, 4, 3);
  EXPECT_THAT(fault({}), ::testing::HasSubstr("b.safetensors: 'labels/y': error: is i64[4,2], but i64[5,4] in"));
  EXPECT_THAT(fault({}), ::testing::HasSubstr("with --bucket-by-length, files may have other sizes"));
  const auto data = open({.vary = true, .pads = {}}).value();
  EXPECT_EQ(data->describe(),
            "11 samples of 3 files in 2 sizes, of which 1 is dropped: it fills no mini-batch of 2 with "
            "others of their size");
  EXPECT_EQ(data->steps_per_epoch(), 5U);
  const std::vector<std::vector<int64_t>> expected = {{2, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 3}, {2, 2}};
  for (uint64_t step = 0; step < expected.size(); ++step) {
    const at::Tensor tokens = to_tensor(data->batch(step).value().at("tokens"));
    EXPECT_EQ(tokens.size(1), expected[step][0] == 2 ? 2 : 4);
    EXPECT_EQ(tokens[0][0].item<int64_t>(), expected[step][0]);
    EXPECT_EQ(tokens[1][1].item<int64_t>(), expected[step][1]);
  }
  // Shuffled, an epoch has as many of each, mixed.
  const auto shuffled = open({.vary = true, .pads = {}}, 3).value();
  std::vector<int64_t> lengths;
  for (uint64_t step = 0; step < 10; ++step)
    lengths.push_back(to_tensor(shuffled->batch(step).value().at("tokens")).size(1));
  for (const auto begin : {lengths.begin(), lengths.begin() + 5}) {
    EXPECT_EQ(std::count(begin, begin + 5, 4), 3);
    EXPECT_EQ(std::count(begin, begin + 5, 2), 2);
  }
  EXPECT_FALSE(std::is_sorted(lengths.begin(), lengths.begin() + 5) &&
               std::is_sorted(lengths.begin() + 5, lengths.end()));
  // A worker reads its samples of the same mini-batch.
  const Batch part = shuffled->part(3, {.inputs = {"tokens"}, .ranges = {{1, 2}}}).value();
  EXPECT_TRUE(to_tensor(part.at("tokens")).equal(to_tensor(shuffled->batch(3).value().at("tokens")).narrow(0, 1, 1)));
}

TEST_F(Lengths, ArePaddedToMultiples) {
  write_length("a.safetensors", 1, 3, 1);
  write_length("b.safetensors", 3, 4, 2);
  write_length("c.safetensors", 2, 5, 3);
  const SampleSizes sizes{.vary = true, .multiple = 4, .pads = {{"tokens", 6}, {"labels/y", -100}}};
  const auto data = open(sizes).value();
  const Batch first = data->batch(0).value(), last = data->batch(2).value();
  EXPECT_TRUE(to_tensor(first.at("tokens")).equal(at::tensor({1, 1, 1, 6, 2, 2, 2, 2}, at::kLong).view({2, 4})));
  EXPECT_TRUE(to_tensor(first.at("labels/y")).equal(at::tensor({1, 1, 1, -100, 2, 2, 2, 2}, at::kLong).view({2, 4})));
  EXPECT_EQ(to_tensor(last.at("tokens")).sizes(), (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(to_tensor(last.at("labels/y")).eq(-100).sum().item<int64_t>(), 6);
  const auto with = [&](const std::map<std::string, double>& pads) {
    return fault({.vary = true, .multiple = 4, .pads = pads});
  };
  EXPECT_THAT(with({{"tokens", 6}}),
              ::testing::HasSubstr("'labels/y': error: has 3 elements on axis 1, to be padded to 4, but "
                                   "no number to pad it with"));
  EXPECT_THAT(with({{"tokens", 6}}), ::testing::HasSubstr("give --pad labels/y=NUMBER"));
  EXPECT_THAT(with({{"tokens", 6}, {"labels/y", -100}, {"mask", 0}}),
              ::testing::HasSubstr("'mask': error: the model has no such input"));
  EXPECT_THAT(with({{"tokens", 0.5}, {"labels/y", -100}}),
              ::testing::HasSubstr("is padded with 0.5, but has whole numbers"));
  EXPECT_THAT(with({{"tokens", 7}, {"labels/y", -100}}),
              ::testing::HasSubstr("'tokens': error: is padded with a number that does not fit"));
}

TEST_F(Lengths, OfNarrowIntegersArePaddedInTheModelsType) {
  write_to(folder_ + "/a.safetensors",
           {{"x/tokens", at::full({2, 2}, 1, at::kByte)}, {"labels/y", at::full({2, 2}, 1, at::kByte)}});
  const auto data = open({.vary = true, .multiple = 4, .pads = {{"tokens", 6}, {"labels/y", -100}}}).value();
  EXPECT_EQ(to_tensor(data->batch(0).value().at("labels/y")).eq(-100).sum().item<int64_t>(), 4);
}

TEST_F(Lengths, AreThoseThatTheModelAllows) {
  write_length("a.safetensors", 2, 4, 1);
  write_length("b.safetensors", 2, 3, 2);
  EXPECT_THAT(fault({.vary = true, .pads = {}}), ::testing::HasSubstr("b.safetensors: error: "));
  EXPECT_EQ(fault({.vary = true, .multiple = 2, .pads = {{"tokens", 0}, {"labels/y", -100}}}), "");
  write_length("b.safetensors", 1, 2, 2);
  write_length("a.safetensors", 1, 4, 2);
  EXPECT_THAT(fault({.vary = true, .pads = {}}),
              ::testing::HasSubstr("has 2 samples of several sizes, one mini-batch needs 2"));
}

}  // namespace
}  // namespace rannc::runtime
