// Writes AmoebaNet-D from its two evolved cells.
#include "frontend/zoo/amoebanet.h"

#include <array>
#include <limits>
#include <span>
#include <utility>

#include "frontend/zoo/layers.h"
#include "frontend/zoo/vision.h"

namespace rannc::frontend::zoo {

namespace {

enum class Op { kIdentity, kConv1, kConv3, kConv7, kAverage3, kMax2 };

struct Branch {
  size_t state;  // 0 and 1: outputs of the two previous cells; 2 …: sums of this cell, in order
  Op op;
};
struct Cell {
  std::array<std::array<Branch, 2>, 5> sums;  // every sum adds two branches and is the next state
  std::span<const size_t> joined;             // the states whose channels are the cell's output
  bool halves;                                // branches from the states 0 and 1 have stride 2
};

constexpr size_t kNormalJoined[] = {0, 3, 4, 6};
constexpr size_t kReductionJoined[] = {4, 5, 6};

// All 3x3 pools are averages in torchgpipe's version, even the maximum pools. They have no weights either way.
constexpr Cell kNormal = {{{{{{1, Op::kConv1}, {1, Op::kAverage3}}},
                            {{{1, Op::kIdentity}, {0, Op::kConv7}}},
                            {{{0, Op::kConv1}, {0, Op::kConv7}}},
                            {{{2, Op::kAverage3}, {2, Op::kIdentity}}},
                            {{{1, Op::kAverage3}, {5, Op::kConv1}}}}},
                          kNormalJoined,
                          false};
constexpr Cell kReduction = {{{{{{0, Op::kMax2}, {0, Op::kAverage3}}},
                               {{{2, Op::kIdentity}, {1, Op::kConv3}}},
                               {{{2, Op::kConv7}, {2, Op::kAverage3}}},
                               {{{3, Op::kIdentity}, {1, Op::kMax2}}},
                               {{{2, Op::kAverage3}, {3, Op::kConv1}}}}},
                             kReductionJoined,
                             true};

struct Feature {
  std::string value;
  int64_t channels;
  bool halved;  // has half the size of the previous cell's input
};

std::string relu_conv_norm(OnnxWriter& writer, std::string_view name, const std::string& x, const Convolution& config) {
  const auto scope = writer.scope(name);
  return batch_norm(writer, "norm", convolve(writer, "conv", writer.node("Relu", {x}), config), config.out);
}

// Halves the size without losing pixels: every second pixel starting at the first, and starting at the second.
std::string factorized_reduce(OnnxWriter& writer, const std::string& x, int64_t in, int64_t out) {
  const auto scope = writer.scope("factorized");
  const std::string active = writer.node("Relu", {x});
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const std::string shifted =
      writer.node("Slice", {active, writer.integers("starts", {1, 1}), writer.integers("ends", {kEnd, kEnd}),
                            writer.integers("axes", {2, 3})});
  const std::string even = convolve(writer, "even", active, square(in, out / 2, 1, 2));
  const std::string odd = convolve(writer, "odd", shifted, square(in, out / 2, 1, 2));
  return batch_norm(writer, "norm", writer.node("Concat", {even, odd}, {{"axis", int64_t{1}}}), out);
}

// A bottleneck with a quarter of the channels, where `kernels` are applied in sequence.
std::string bottleneck(OnnxWriter& writer, std::string x, int64_t channels, std::span<const Convolution> kernels) {
  const int64_t middle = channels / 4;
  x = relu_conv_norm(writer, "reduce", x, square(channels, middle, 1));
  for (size_t i = 0; i < kernels.size(); ++i) {
    x = relu_conv_norm(writer, "spread." + std::to_string(i), x, kernels[i]);
  }
  return relu_conv_norm(writer, "expand", x, square(middle, channels, 1));
}

std::string average(OnnxWriter& writer, const std::string& x, int64_t stride) {
  return pool(writer, "AveragePool", x, 3, stride, 1);
}

std::string apply(OnnxWriter& writer, Op op, const std::string& x, int64_t channels, int64_t stride) {
  const int64_t middle = channels / 4;
  switch (op) {
    case Op::kIdentity:
      return stride == 1 ? x : factorized_reduce(writer, x, channels, channels);
    case Op::kConv1:
      return relu_conv_norm(writer, "conv1", x, square(channels, channels, 1, stride));
    case Op::kConv3:
      return bottleneck(writer, x, channels, std::array{square(middle, middle, 3, stride)});
    case Op::kConv7:
      return bottleneck(writer, x, channels,
                        std::array{Convolution{middle, middle, {1, 7}, {1, stride}, false},
                                   Convolution{middle, middle, {7, 1}, {stride, 1}, false}});
    case Op::kAverage3:
      return average(writer, x, stride);
    case Op::kMax2:
      return pool(writer, "MaxPool", x, 2, stride, 0);
  }
  return x;
}

// The output of the second-to-last cell, with this cell's channels and the last cell's size.
std::string older_state(OnnxWriter& writer, const Feature& older, bool last_halved, int64_t channels) {
  if (last_halved) return factorized_reduce(writer, older.value, older.channels, channels);
  if (older.channels == channels) return older.value;
  return relu_conv_norm(writer, "older", older.value, square(older.channels, channels, 1));
}

Feature write_cell(OnnxWriter& writer, const Cell& cell, const Feature& last, const Feature& older, int64_t channels) {
  std::vector<std::string> states = {relu_conv_norm(writer, "last", last.value, square(last.channels, channels, 1)),
                                     older_state(writer, older, last.halved, channels)};
  for (size_t sum = 0; sum < cell.sums.size(); ++sum) {
    std::vector<std::string> terms;
    for (size_t side = 0; side < 2; ++side) {
      const auto [state, op] = cell.sums[sum][side];
      const auto scope = writer.scope("sum." + std::to_string(sum) + "." + std::to_string(side));
      terms.push_back(apply(writer, op, states[state], channels, cell.halves && state < 2 ? 2 : 1));
    }
    states.push_back(writer.node("Add", terms));
  }
  std::vector<std::string> joined;
  for (const size_t state : cell.joined) joined.push_back(states[state]);
  const auto parts = static_cast<int64_t>(joined.size());
  return {writer.node("Concat", joined, {{"axis", int64_t{1}}}), channels * parts, cell.halves};
}

// The cells in order: two reduction cells, then three runs of normal cells with a reduction cell between runs.
std::vector<const Cell*> cells_of(int64_t layers) {
  std::vector<const Cell*> cells = {&kReduction, &kReduction};
  for (int run = 0; run < 3; ++run) {
    if (run > 0) cells.push_back(&kReduction);
    cells.insert(cells.end(), static_cast<size_t>(layers / 3), &kNormal);
  }
  return cells;
}

}  // namespace

Result<void> write_amoebanet(OnnxWriter& writer, const AmoebaNetConfig& config) {
  if (config.layers < 3 || config.layers % 3 != 0) return error("an AmoebaNet-D has a multiple of 3 layers");
  if (config.filters < 8 || config.filters % 8 != 0) return error("an AmoebaNet-D has a multiple of 8 filters");
  if (config.classes < 1) return error("an AmoebaNet-D needs at least one class");
  if (config.image < 64 || config.image % 32 != 0) {
    return error("the image size " + std::to_string(config.image) + " is not a multiple of 32 from 64 on");
  }
  int64_t channels = config.filters / 4;
  const std::string image = image_input(writer, config.image);
  Feature last = {relu_conv_norm(writer, "stem", image, square(3, channels, 3, 2)), channels, false};
  Feature older = last;
  const std::vector<const Cell*> cells = cells_of(config.layers);
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto scope = writer.scope("cell." + std::to_string(i));
    if (cells[i]->halves) channels *= 2;
    const Feature made = write_cell(writer, *cells[i], last, older, channels);
    older = std::exchange(last, made);
  }
  const std::string means = channel_means(writer, last.value, last.channels);
  const std::string logits = linear(writer, "classifier", means, last.channels, config.classes, 0.01F);
  writer.float_output(logits, "logits", {std::string("batch"), config.classes});
  return {};
}

}  // namespace rannc::frontend::zoo
