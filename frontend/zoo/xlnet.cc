// Writes XLNet with relative positions and a head for question answering.
#include "frontend/zoo/xlnet.h"

#include <cmath>

#include "frontend/zoo/layers.h"

namespace rannc::frontend::zoo {

namespace {

constexpr float kDeviation = 0.02F;
constexpr float kEpsilon = 1e-12F;
const std::vector<int64_t> kHeadsFirst = {0, 2, 1, 3};

/// Values that all layers read.
struct Context {
  std::string positions;  ///< [2 sequence, width]: sines and cosines of the distances sequence … 1 - sequence
  std::string same;       ///< [batch, 1, sequence, sequence]: 1 for two tokens of one segment
  std::string mask;       ///< [batch, 1, 1, sequence]: 0 for tokens, -1e30 for padding
};

std::string as_float(OnnxWriter& writer, const std::string& x) {
  constexpr int64_t kFloat = 1;  // TensorProto.DataType
  return writer.node("Cast", {x}, {{"to", kFloat}});
}

std::string one_minus(OnnxWriter& writer, const std::string& x) {
  return writer.node("Sub", {writer.floats("one", {}, {1.0F}), x});
}

// y = x W over the last axis
std::string product(OnnxWriter& writer, std::string_view name, const std::string& x, const XlnetConfig& config) {
  const auto scope = writer.scope(name);
  return writer.node("MatMul", {x, writer.weight("weight", {config.width, config.width}, normal(kDeviation))});
}

// first, first + step … without end
std::string range(OnnxWriter& writer, std::string_view name, int64_t first, int64_t end, int64_t step) {
  const auto scope = writer.scope(name);
  const auto number = [&](std::string_view part, int64_t value) {
    return writer.floats(part, {}, {static_cast<float>(value)});
  };
  return writer.node("Range", {number("first", first), number("end", end), number("step", step)});
}

// Computed in the graph: a stored table would be imported as a parameter.
std::string positions(OnnxWriter& writer, const XlnetConfig& config) {
  const auto scope = writer.scope("positions");
  const std::string distances = range(writer, "distances", config.sequence, -config.sequence, -1);
  const std::string exponents = writer.node("Div", {range(writer, "columns", 0, config.width, 2),
                                                    writer.floats("width", {}, {static_cast<float>(config.width)})});
  const std::string lengths = writer.node("Pow", {writer.floats("base", {}, {10000.0F}), exponents});
  const std::string angles =
      writer.node("Div", {writer.node("Unsqueeze", {distances, writer.integers("axes", {1})}), lengths});
  return writer.node("Concat", {writer.node("Sin", {angles}), writer.node("Cos", {angles})}, {{"axis", int64_t{-1}}});
}

std::string same_segment(OnnxWriter& writer, const XlnetConfig& config) {
  const std::string types = writer.integer_input("token_type_ids", {std::string("batch"), config.sequence});
  const auto scope = writer.scope("segments");
  const std::string rows = writer.node("Unsqueeze", {types, writer.integers("rows", {1, 3})});
  const std::string columns = writer.node("Unsqueeze", {types, writer.integers("columns", {1, 2})});
  return as_float(writer, writer.node("Equal", {rows, columns}));
}

std::string padding_mask(OnnxWriter& writer, const XlnetConfig& config) {
  const std::string mask = writer.integer_input("attention_mask", {std::string("batch"), config.sequence});
  const auto scope = writer.scope("mask");
  const std::string wide = writer.node("Unsqueeze", {as_float(writer, mask), writer.integers("axes", {1, 2})});
  return writer.node("Mul", {one_minus(writer, wide), writer.floats("penalty", {}, {-1e30F})});
}

// [batch, sequence, width] -> [batch, heads, sequence, width / heads], its axes in `order`
std::string by_head(OnnxWriter& writer, std::string_view name, const std::string& x, const XlnetConfig& config,
                    const std::vector<int64_t>& order) {
  const std::string projected = product(writer, name, x, config);
  const auto scope = writer.scope(name);
  const std::string shape = writer.integers("shape", {0, config.sequence, config.heads, config.width / config.heads});
  return writer.node("Transpose", {writer.node("Reshape", {projected, shape})}, {{"perm", order}});
}

// query + a vector of each head
std::string biased(OnnxWriter& writer, std::string_view name, const std::string& query, const XlnetConfig& config) {
  const std::vector<int64_t> dims = {config.heads, 1, config.width / config.heads};
  return writer.node("Add", {query, writer.weight(name, dims, normal(kDeviation))});
}

// Scores of the distances between two tokens. The product has a column per distance; entry (i, j) is that of i - j,
// column sequence - i + j, which one row of padding less per row brings to column j.
std::string scores_of_positions(OnnxWriter& writer, const std::string& query, const XlnetConfig& config,
                                const Context& context) {
  const int64_t length = config.sequence, head = config.width / config.heads;
  const std::string keys = product(writer, "position", context.positions, config);
  const auto scope = writer.scope("position");
  const std::string split = writer.node("Reshape", {keys, writer.integers("heads", {2 * length, config.heads, head})});
  const std::string all =
      writer.node("MatMul", {query, writer.node("Transpose", {split}, {{"perm", std::vector<int64_t>{1, 2, 0}}})});
  const std::string turned =
      writer.node("Reshape", {all, writer.integers("turned", {0, config.heads, 2 * length, length})});
  const std::string rest = writer.node("Slice", {turned, writer.integers("first", {1}),
                                                 writer.integers("last", {2 * length}), writer.integers("axis", {2})});
  const std::string shifted =
      writer.node("Reshape", {rest, writer.integers("shifted", {0, config.heads, length, 2 * length - 1})});
  return writer.node("Slice", {shifted, writer.integers("begin", {0}), writer.integers("end", {length}),
                               writer.integers("columns", {3})});
}

// Scores of two tokens by whether they lie in one segment: a vector of each head for either case.
std::string scores_of_segments(OnnxWriter& writer, const std::string& query, const XlnetConfig& config,
                               const Context& context) {
  const auto scope = writer.scope("segment");
  const std::string kinds = writer.weight("weight", {config.heads, config.width / config.heads, 2}, normal(kDeviation));
  const std::vector<std::string> either = writer.node_outputs("Split", {writer.node("MatMul", {query, kinds})}, 2,
                                                              {{"axis", int64_t{3}}, {"num_outputs", int64_t{2}}});
  const std::string same = writer.node("Mul", {either[0], context.same});
  return writer.node("Add", {same, writer.node("Mul", {either[1], one_minus(writer, context.same)})});
}

std::string attention(OnnxWriter& writer, const std::string& x, const XlnetConfig& config, const Context& context) {
  const auto scope = writer.scope("attention");
  const std::string query = by_head(writer, "query", x, config, kHeadsFirst);
  const std::string key = by_head(writer, "key", x, config, {0, 2, 3, 1});
  const std::string value = by_head(writer, "value", x, config, kHeadsFirst);
  const std::string contents = writer.node("MatMul", {biased(writer, "content_bias", query, config), key});
  const std::string places =
      scores_of_positions(writer, biased(writer, "position_bias", query, config), config, context);
  const std::string segments =
      scores_of_segments(writer, biased(writer, "segment_bias", query, config), config, context);
  const std::string sum = writer.node("Add", {writer.node("Add", {contents, places}), segments});
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.width / config.heads));
  const std::string scores = writer.node("Mul", {sum, writer.floats("scale", {}, {scale})});
  const std::string weights =
      writer.node("Softmax", {writer.node("Add", {scores, context.mask})}, {{"axis", int64_t{-1}}});
  const std::string mixed =
      writer.node("Transpose", {writer.node("MatMul", {weights, value})}, {{"perm", kHeadsFirst}});
  const std::string merged =
      writer.node("Reshape", {mixed, writer.integers("shape", {0, config.sequence, config.width})});
  return product(writer, "output", merged, config);
}

std::string feed_forward(OnnxWriter& writer, const std::string& x, const XlnetConfig& config) {
  const auto scope = writer.scope("mlp");
  const std::string hidden = projection(writer, "up", x, config.width, 4 * config.width, kDeviation);
  return projection(writer, "down", writer.node("Gelu", {hidden}), 4 * config.width, config.width, kDeviation);
}

std::string layer(OnnxWriter& writer, const std::string& x, const XlnetConfig& config, const Context& context) {
  const std::string attended = writer.node("Add", {attention(writer, x, config, context), x});
  const std::string middle = layer_norm(writer, "norm1", attended, config.width, kEpsilon);
  const std::string sum = writer.node("Add", {feed_forward(writer, middle, config), middle});
  return layer_norm(writer, "norm2", sum, config.width, kEpsilon);
}

void answer_head(OnnxWriter& writer, const std::string& x, const XlnetConfig& config) {
  for (const char* name : {"start", "end"}) {
    const std::string column = projection(writer, std::string("answer.") + name, x, config.width, 1, kDeviation);
    const std::string flat = writer.node("Squeeze", {column, writer.integers(std::string(name) + ".axes", {-1})});
    writer.float_output(flat, name, {std::string("batch"), config.sequence});
  }
}

Result<XlnetConfig> checked(XlnetConfig config) {
  if (config.heads == 0) config.heads = config.width / 64;
  if (config.layers < 1 || config.width < 1 || config.sequence < 1 || config.vocabulary < 1) {
    return error("an XLNet needs at least one layer and positive sizes");
  }
  if (config.heads < 1 || config.width % config.heads != 0 || config.width % 2 != 0) {
    return error("the width " + std::to_string(config.width) + " is odd or does not divide into " +
                 std::to_string(config.heads) + " heads");
  }
  return config;
}

}  // namespace

Result<void> write_xlnet(OnnxWriter& writer, const XlnetConfig& wanted) {
  RANNC_ASSIGN(const XlnetConfig config, checked(wanted));
  const std::string words = writer.weight("word.weight", {config.vocabulary, config.width}, normal(kDeviation));
  const std::string ids = writer.integer_input("input_ids", {std::string("batch"), config.sequence});
  std::string x = writer.node("Gather", {words, ids});
  const Context context = {positions(writer, config), same_segment(writer, config), padding_mask(writer, config)};
  for (int64_t i = 0; i < config.layers; ++i) {
    const auto scope = writer.scope("layer." + std::to_string(i));
    x = layer(writer, x, config, context);
  }
  answer_head(writer, x, config);
  return {};
}

}  // namespace rannc::frontend::zoo
