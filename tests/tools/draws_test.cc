// Random numbers of every operator that draws are the same bits however a mini-batch is split and a model is cut.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

#include "codegen/bundle_writer.h"
#include "runtime/data/numbers.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "tests/frontend/support/onnx_text.h"
#include "tools/common/scratch.h"
#include "tools/compiler/compiler.h"

namespace rannc::test {
namespace {

constexpr int64_t kSamples = 8, kWidth = 4, kSteps = 2;

/// What a model does to h of [B, 4] to make n of [B, 4], B being its number of samples as the file has it.
struct Drawing {
  std::string name;
  std::string nodes;
  std::string stored;  ///< beside the others' constants
};

// As PyTorch's exporters write them, and by ONNX's operators as they stand.
const Drawing kDrawings[] = {
    {"Dropout", "n = Dropout (h, ratio, on)", ""},
    {"DropoutMask", "d, m = Dropout (h, ratio, on)\n f = Cast <to = 1> (m)\n n = Mul (h, f)", ""},
    {"RandnLike", "r = RandomNormalLike <dtype = 1> (h)\n n = Mul (h, r)", ""},
    {"NormalOfMoments", "r = RandomNormalLike <mean = 1.0, scale = 2.0> (h)\n n = Mul (h, r)", ""},
    {"RandLike", "r = RandomUniformLike <dtype = 1> (h)\n n = Mul (h, r)", ""},
    {"UniformOfBounds", "r = RandomUniformLike <low = -1.0, high = 2.0> (h)\n n = Mul (h, r)", ""},
    {"Rsample", "s = Abs (h)\n r = RandomNormalLike (h)\n e = Mul (r, s)\n n = Add (e, h)", ""},
    {"Bernoulli", "p = Sigmoid (h)\n b = Bernoulli (p)\n n = Mul (h, b)", ""},
    {"BernoulliOfADraw", "u = RandomUniformLike (h)\n l = Less (u, ratio)\n b = Cast <to = 1> (l)\n n = Mul (h, b)",
     ""},
    {"RandintLike",
     "r = RandomUniformLike <low = 3.0, high = 10.0> (h)\n i = Cast <to = 7> (r)\n f = Cast <to = 1> (i)\n"
     "n = Mul (h, f)",
     ""},
    {"AlphaDropout",
     "u = RandomUniformLike (h)\n l = Less (u, ratio)\n b = Cast <to = 1> (l)\n c = Sub (b, one)\n"
     "a = Mul (c, half)\n d = Mul (h, b)\n e = Mul (d, half)\n n = Add (e, a)",
     ""},
    {"Gumbel",
     "u = RandomUniformLike (h)\n o = Sub (one, u)\n l = Log (o)\n k = Neg (l)\n g = Log (k)\n n = Mul (h, g)", ""},
    {"FeatureDropout",
     "c = Reshape (h, planes)\n s = Shape <start = 0, end = 2> (c)\n t = Concat <axis = 0> (s, ones)\n"
     "z = ConstantOfShape <value = float[1] {1}> (t)\n u = RandomUniformLike (z)\n l = Less (u, half)\n"
     "b = Cast <to = 1> (l)\n d = Mul (c, b)\n n = Reshape (d, rows)",
     "int64[4] planes = {0, 2, 2, 1}, int64[2] ones = {1, 1}, int64[2] rows = {0, 4}"},
    {"DropPath",
     "s = Shape <start = 0, end = 1> (h)\n t = Concat <axis = 0> (s, single)\n"
     "z = ConstantOfShape <value = float[1] {1}> (t)\n u = RandomUniformLike (z)\n a = Add (u, half)\n"
     "f = Floor (a)\n n = Mul (h, f)",
     "int64[1] single = {1}"},
    {"Multinomial", "m = Multinomial <dtype = 7> (h)\n f = Cast <to = 1> (m)\n n = Mul (h, f)", ""},
    {"MultinomialOfSeveral",
     "m = Multinomial <dtype = 6, sample_size = 4> (h)\n f = Cast <to = 1> (m)\n n = Mul (h, f)", ""},
    {"SharedByAllSamples", "r = RandomNormal <shape = [4]> ()\n n = Mul (h, r)", ""},
    {"TwoDraws", "r = RandomNormalLike (h)\n s = RandomNormalLike (h)\n d = Sub (r, s)\n n = Mul (h, d)", ""},
};

/// Each sample looks up its own row of the table, whose gradient is then its sample's alone: no sum over samples, of
/// which the order could be another.
std::string model_text(const Drawing& drawing, const std::string& batch) {
  std::string stored =
      "float ratio = {0.25}, bool on = {1}, float one = {1}, float half = {0.5}, float[4] scale = {1, 0.5, 2, 4}, "
      "float[8, 4] table = {";
  for (int64_t i = 0; i < kSamples * kWidth; ++i) {
    stored += fmt::format("{}{}", i == 0 ? "" : ", ", 0.25 + 0.125 * static_cast<double>(i % 11));
  }
  stored += "}";
  if (!drawing.stored.empty()) stored += ", " + drawing.stored;
  return fmt::format(
      "agraph (int64[{}] ids) => (float[{}, 4] y) <{}> {{ row = Gather <axis = 0> (table, ids)\n h = Mul (row, scale)\n"
      "{}\n y = Mul (n, scale) }}",
      batch, batch, stored, drawing.nodes);
}

void PrintTo(const Drawing& drawing, std::ostream* to) { *to << drawing.name; }

using enum compiler::Recompute;

/// How a mini-batch is split and a model cut.
struct Cut {
  std::vector<uint32_t> replicas;
  uint64_t micro_batches;
  compiler::Recompute recompute;
  std::string str() const {
    return fmt::format("replicas {}, {} micro-batches, recompute {}", fmt::join(replicas, ","), micro_batches,
                       recompute == kAlways);
  }
};

// Micro-batches of 8, of 3, 3 and 2, and of 1; their parts in replicas are uneven too.
const Cut kCuts[] = {
    {{1}, 3, kNever},  {{1}, 8, kAlways},       {{1, 1}, 1, kNever}, {{1, 1}, 3, kAlways}, {{2}, 1, kNever},
    {{2}, 3, kAlways}, {{1, 1, 1}, 2, kAlways}, {{2, 1}, 2, kNever}, {{1, 3}, 1, kAlways},
};

using Numbers = std::vector<std::vector<double>>;

/// The first number that differs, in full; empty: none does.
std::string difference(const Numbers& found, const Numbers& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    for (size_t i = 0; i < expected[step].size(); ++i) {
      if (found[step][i] == expected[step][i]) continue;
      return fmt::format("step {}, row {}, column {}: {:a} for {:a}", step, i / kWidth, i % kWidth, found[step][i],
                         expected[step][i]);
    }
  }
  return "";
}

class Draws : public testing::TestWithParam<Drawing> {
 protected:
  static void SetUpTestSuite() { runtime::set_threads(1); }

  /// The model after its passes.
  tools::PreparedModel prepared(const std::string& text, const std::string& loss) {
    read_ = {.loss = loss, .mini_batch = kSamples};
    const std::string path = scratch_.path() + "/model.onnx";
    std::ofstream(path, std::ios::binary) << onnx_bytes(onnx_model(text, 22));
    // Its gradient would be a sum over samples.
    if (!loss.empty()) read_.kinds = {{"scale", compiler::StoredKind::kConstant}};
    return tools::prepare_model(path, read_).value();
  }

  std::string compiled(const tools::PreparedModel& model, const Cut& cut) const {
    compiler::PlanOptions options{.optimizer = compiler::Optimizer::kSgd, .costs = compiler::Costs::kAnalytic};
    const uint32_t devices = std::accumulate(cut.replicas.begin(), cut.replicas.end(), 0U);
    options.cluster = fmt::format("local:{}", devices);
    options.stages = static_cast<uint32_t>(cut.replicas.size());
    options.replicas = cut.replicas;
    options.micro_batches = {cut.micro_batches};
    options.recompute = cut.recompute;
    options.planner = devices == options.stages ? "gpipe" : "auto";
    const auto plan = tools::plan_options(tools::requested_plan(options, read_).value(), model).value();
    const std::string path = scratch_.path() + "/model.rannc";
    ir::Plan planned = std::move(tools::plan_prepared(model, plan).value().plan);
    codegen::write_bundle(planned, {.replace = true}, path).value();
    return path;
  }

  /// The gradient of the table in each step: of a row, what its sample's numbers made of it.
  Numbers gradients(const tools::PreparedModel& model, const Cut& cut) const {
    runtime::TrainerOptions options;
    options.seed = 5;
    options.optimizer.learning_rate = 0.125;
    const auto trainer = runtime::Trainer::open(compiled(model, cut), options).value();
    const runtime::Batch batch = {{"ids", runtime::to_value(at::arange(kSamples, at::kLong))},
                                  {"labels/t", runtime::to_value(at::zeros({kSamples, kWidth}))}};
    Numbers found;
    for (int64_t step = 0; step < kSteps; ++step) {
      trainer->step(batch).value();
      found.push_back(runtime::to_doubles(trainer->gradients().value().at("table")));
    }
    return found;
  }

  tools::Scratch scratch_;
  compiler::ReadOptions read_;
};

// Its gradient is 1 or -1, and all that the models do besides is multiplied or added once: LibTorch's kernels round
// longer expressions otherwise in the last elements of a tensor than in those before, and where these are depends on
// its size.
constexpr char kLoss[] = "l1(output=y,labels=t,reduction=sum)";

TEST_P(Draws, AreTheSameBitsUnderEveryCut) {
  const tools::PreparedModel model = prepared(model_text(GetParam(), "batch"), kLoss);
  const Numbers one = gradients(model, {{1}, 1, kNever});
  EXPECT_NE(one[0], one[1]) << "each step draws anew";
  for (const Cut& cut : kCuts) EXPECT_EQ(difference(gradients(model, cut), one), "") << cut.str();
}

TEST_P(Draws, OfAFileForANumberOfSamplesAreThoseOfItsTwin) {
  const Numbers twin = gradients(prepared(model_text(GetParam(), "batch"), kLoss), {{1}, 3, kNever});
  for (const char* const samples : {"1", "3", "8"}) {
    const tools::PreparedModel model = prepared(model_text(GetParam(), samples), kLoss);
    ASSERT_EQ(model.graph.batch_symbol(), "batch")
        << samples << ": " << (model.open.empty() ? "" : model.open[0].message);
    EXPECT_TRUE(model.open.empty()) << model.open[0].message;
    EXPECT_EQ(gradients(model, {{1}, 3, kNever}), twin) << "made for " << samples;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, Draws, testing::ValuesIn(kDrawings),
                         [](const auto& instance) { return instance.param.name; });

// --- draws of shapes that stand in the file as numbers

class BakedDraws : public Draws {};

// What is drawn by its shape for all samples is what is drawn beside an operand.
TEST_F(BakedDraws, OfLiteralShapesAreEachSamplesOwn) {
  const Drawing like = {"", "q = Neg (h)\n r = RandomNormalLike (q)\n n = Mul (h, r)", ""};  // the key counts tasks
  const Numbers twin = gradients(prepared(model_text(like, "batch"), kLoss), {{1}, 3, kNever});
  for (const int64_t samples : {1, 3, 8}) {
    const Drawing literal = {"", fmt::format("r = RandomNormal <shape = [{}, 4]> ()\n n = Mul (h, r)", samples), ""};
    const tools::PreparedModel model = prepared(model_text(literal, std::to_string(samples)), kLoss);
    ASSERT_EQ(model.graph.batch_symbol(), "batch") << samples;
    EXPECT_EQ(gradients(model, {{1}, 3, kNever}), twin) << "made for " << samples;
  }
}

TEST_F(BakedDraws, OfOneSampleAreSaid) {
  const tools::PreparedModel model = prepared(model_text(kDrawings[0], "1"), kLoss);
  const auto said = [](const Note& note) { return note.message.find("independent per sample") != std::string::npos; };
  EXPECT_TRUE(std::any_of(model.remarks.begin(), model.remarks.end(), said));
}

// --- distributions

class Distributions : public Draws {
 protected:
  /// Elements of y, evaluated on so many samples of zeros.
  std::vector<double> numbers(const std::string& graph, const std::vector<float>& row, int64_t samples) {
    const tools::PreparedModel model = prepared(graph, "");
    read_.mini_batch = static_cast<uint32_t>(samples);
    const auto trainer = runtime::Trainer::open(compiled(model, {{1}, 1, kNever}), {}).value();
    const at::Tensor x = at::tensor(at::ArrayRef<float>(row)).expand({samples, static_cast<int64_t>(row.size())});
    return runtime::to_doubles(trainer->evaluate({{"x", runtime::to_value(x.contiguous())}}).value().outputs.at("y"));
  }
};

struct Moments {
  std::string nodes;
  double mean, deviation;
  double low = -HUGE_VAL, high = HUGE_VAL;  ///< between which all lie, the latter not among them
};

// Within five deviations of the mean of so many numbers; the variance of the variance is that of no tail worse than the
// normal's.
TEST_F(Distributions, HaveTheirMoments) {
  const std::string head = "agraph (float[batch, 4] x) => (float[batch, 4] y) <float p = {0.3}, float one = {1}> { ";
  constexpr int64_t kRows = 20'000;
  const double count = 4.0 * kRows;
  for (const Moments& of : {
           Moments{"y = RandomNormalLike (x)", 0, 1},
           Moments{"y = RandomNormalLike <mean = 3.0, scale = 0.5> (x)", 3, 0.5},
           Moments{"y = RandomUniformLike (x)", 0.5, std::sqrt(1.0 / 12), 0, 1},
           Moments{"y = RandomUniformLike <low = -1.0, high = 2.0> (x)", 0.5, std::sqrt(9.0 / 12), -1, 2},
           Moments{"e = Expand (p, s)\n y = Bernoulli (e)", 0.3, std::sqrt(0.21), 0, 2},
           Moments{"r = RandomUniformLike <low = 3.0, high = 10.0> (x)\n i = Cast <to = 7> (r)\n y = Cast <to = 1> (i)",
                   6, 2, 3, 10},
           Moments{"u = RandomUniformLike (x)\n o = Sub (one, u)\n l = Log (o)\n y = Neg (l)", 1, 1, 0},
       }) {
    const std::vector<double> found =
        numbers(head + (of.nodes.find("(p, s)") == std::string::npos ? "" : "s = Shape (x)\n ") + of.nodes + " }",
                {0, 0, 0, 0}, kRows);
    ASSERT_EQ(static_cast<double>(found.size()), count);
    const double mean = std::accumulate(found.begin(), found.end(), 0.0) / count;
    double square = 0;
    for (const double number : found) {
      square += (number - mean) * (number - mean);
      EXPECT_TRUE(number >= of.low && number < of.high) << of.nodes << ": " << number;
    }
    EXPECT_NEAR(mean, of.mean, 5 * of.deviation / std::sqrt(count)) << of.nodes;
    EXPECT_NEAR(std::sqrt(square / count), of.deviation, 10 * of.deviation / std::sqrt(count)) << of.nodes;
  }
}

// Within five deviations of each share; a class of no probability never.
TEST_F(Distributions, MultinomialDrawsClassesByTheirShares) {
  const std::vector<float> row = {std::log(1.0F), std::log(3.0F), -INFINITY, std::log(4.0F), -INFINITY};
  const double shares[] = {1.0 / 8, 3.0 / 8, 0, 4.0 / 8, 0};
  constexpr int64_t kRows = 20'000, kDraws = 3;
  const std::vector<double> found = numbers(
      "agraph (float[batch, 5] x) => (int32[batch, 3] y) { y = Multinomial <sample_size = 3> (x) }", row, kRows);
  ASSERT_EQ(found.size(), static_cast<size_t>(kRows * kDraws));
  std::map<double, int64_t> counts;
  int64_t alike = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ++counts[found[i]];
    if (i % kDraws != 0) alike += found[i] == found[i - 1];
  }
  for (int c = 0; c < 5; ++c) {
    const double n = static_cast<double>(found.size());
    EXPECT_NEAR(static_cast<double>(counts[c]) / n, shares[c], 5 * std::sqrt(shares[c] * (1 - shares[c]) / n)) << c;
  }
  const double pairs = 2.0 * kRows, both = (1 + 9 + 16) / 64.0;  // draws of a row do not know each other
  EXPECT_NEAR(static_cast<double>(alike) / pairs, both, 6 * std::sqrt(both * (1 - both) / pairs));
}

}  // namespace
}  // namespace rannc::test
