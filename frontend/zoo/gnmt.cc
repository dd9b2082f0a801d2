// Writes GNMT. Internally sequences are time first: [sequence, batch, width].
#include "frontend/zoo/gnmt.h"

#include <cmath>

#include "frontend/zoo/layers.h"

namespace rannc::frontend::zoo {

namespace {

constexpr float kDeviationOfGnmt = 0.05F;

std::string transpose(OnnxWriter& writer, const std::string& x, const std::vector<int64_t>& order) {
  return writer.node("Transpose", {x}, {{"perm", order}});
}

// Embedded tokens of one side, time first.
std::string embedded(OnnxWriter& writer, std::string_view side, const GnmtConfig& config) {
  const std::string tokens = writer.integer_input(std::string(side), {std::string("batch"), config.sequence});
  const auto scope = writer.scope(side);
  const std::string table =
      writer.weight("embedding.weight", {config.vocabulary, config.width}, normal(kDeviationOfGnmt));
  return transpose(writer, writer.node("Gather", {table, tokens}), {1, 0, 2});
}

// [sequence, batch, in] -> [sequence, batch, directions * width]
std::string lstm(OnnxWriter& writer, std::string_view name, const std::string& x, const GnmtConfig& config, int64_t in,
                 int64_t directions) {
  const auto scope = writer.scope(name);
  const int64_t width = config.width;
  const std::string w = writer.weight("w", {directions, 4 * width, in}, normal(kDeviationOfGnmt));
  const std::string r = writer.weight("r", {directions, 4 * width, width}, normal(kDeviationOfGnmt));
  const std::string b = writer.weight("b", {directions, 8 * width}, constant(0));
  const std::string direction = directions == 2 ? "bidirectional" : "forward";
  const std::string y = writer.node("LSTM", {x, w, r, b}, {{"hidden_size", width}, {"direction", direction}});
  if (directions == 1) return writer.node("Squeeze", {y, writer.integers("axes", {1})});
  return writer.node("Reshape", {transpose(writer, y, {0, 2, 1, 3}), writer.integers("shape", {0, 0, 2 * width})});
}

std::string encoder(OnnxWriter& writer, std::string x, const GnmtConfig& config) {
  const auto scope = writer.scope("encoder");
  x = lstm(writer, "layer.0", x, config, config.width, 2);
  x = lstm(writer, "layer.1", x, config, 2 * config.width, 1);
  for (int64_t layer = 2; layer < config.layers; ++layer) {
    x = writer.node("Add", {lstm(writer, "layer." + std::to_string(layer), x, config, config.width, 1), x});
  }
  return x;
}

// The weight vector of the scores, normalized and multiplied by a trained factor.
std::string normalized_vector(OnnxWriter& writer, int64_t width) {
  const std::string vector = writer.weight("score.weight", {width}, normal(kDeviationOfGnmt));
  const std::string factor = writer.weight("score.scale", {1}, constant(1.0F / std::sqrt(static_cast<float>(width))));
  const std::string squares = writer.node("ReduceSum", {writer.node("Mul", {vector, vector})});
  const std::string direction = writer.node("Div", {vector, writer.node("Sqrt", {squares})});
  const std::string scaled = writer.node("Mul", {direction, factor});
  return writer.node("Reshape", {scaled, writer.integers("score.shape", {width, 1})});
}

// Attention context of the queries: [sequence, batch, width]. Batch first in between.
std::string attention(OnnxWriter& writer, const std::string& queries, const std::string& memory,
                      const GnmtConfig& config) {
  const auto scope = writer.scope("attention");
  const int64_t width = config.width;
  const std::string values = transpose(writer, memory, {1, 0, 2});
  const std::string query_weight = writer.weight("query.weight", {width, width}, normal(kDeviationOfGnmt));
  const std::string key_weight = writer.weight("key.weight", {width, width}, normal(kDeviationOfGnmt));
  const std::string query = writer.node("MatMul", {transpose(writer, queries, {1, 0, 2}), query_weight});
  const std::string key = writer.node("MatMul", {values, key_weight});
  const std::string pairs = writer.node("Add", {writer.node("Unsqueeze", {query, writer.integers("query.axes", {2})}),
                                                writer.node("Unsqueeze", {key, writer.integers("key.axes", {1})})});
  const std::string biased = writer.node("Add", {pairs, writer.weight("bias", {width}, constant(0))});
  const std::string scores = writer.node("MatMul", {writer.node("Tanh", {biased}), normalized_vector(writer, width)});
  const std::string flat = writer.node("Squeeze", {scores, writer.integers("score.axes", {3})});
  const std::string weights = writer.node("Softmax", {flat}, {{"axis", int64_t{-1}}});
  return transpose(writer, writer.node("MatMul", {weights, values}), {1, 0, 2});
}

std::string decoder(OnnxWriter& writer, std::string x, const std::string& memory, const GnmtConfig& config) {
  const auto scope = writer.scope("decoder");
  x = lstm(writer, "layer.0", x, config, config.width, 1);
  const std::string context = attention(writer, x, memory, config);
  for (int64_t layer = 1; layer < config.layers; ++layer) {
    const std::string both = writer.node("Concat", {x, context}, {{"axis", int64_t{2}}});
    const std::string y = lstm(writer, "layer." + std::to_string(layer), both, config, 2 * config.width, 1);
    x = layer < 2 ? y : writer.node("Add", {y, x});
  }
  return x;
}

}  // namespace

Result<void> write_gnmt(OnnxWriter& writer, const GnmtConfig& config) {
  if (config.layers < 2 || config.width < 1 || config.sequence < 1 || config.vocabulary < 1) {
    return error("a GNMT needs at least two layers on each side and positive sizes");
  }
  const std::string memory = encoder(writer, embedded(writer, "source", config), config);
  const std::string decoded = decoder(writer, embedded(writer, "target", config), memory, config);
  const std::string states = transpose(writer, decoded, {1, 0, 2});
  const std::string logits =
      projection(writer, "classifier", states, config.width, config.vocabulary, kDeviationOfGnmt);
  writer.float_output(logits, "logits", {std::string("batch"), config.sequence, config.vocabulary});
  return {};
}

}  // namespace rannc::frontend::zoo
