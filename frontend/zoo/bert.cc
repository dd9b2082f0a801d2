// Writes BERT with its two pre-training heads.
#include "frontend/zoo/bert.h"

#include <cmath>

#include "frontend/zoo/layers.h"
#include "frontend/zoo/primitives.h"

namespace rannc::frontend::zoo {

namespace {

constexpr float kDeviation = 0.02F;
constexpr float kEpsilon = 1e-12F;
const std::vector<int64_t> kHeadsFirst = {0, 2, 1, 3};

std::string normalized(OnnxWriter& writer, std::string_view name, const std::string& x, const BertConfig& config) {
  return config.unfused ? layer_norm_written_out(writer, name, x, config.width, kEpsilon)
                        : layer_norm(writer, name, x, config.width, kEpsilon);
}

std::string gelu(OnnxWriter& writer, const std::string& x, const BertConfig& config) {
  return config.unfused ? gelu_written_out(writer, x) : writer.node("Gelu", {x});
}

std::string softmax(OnnxWriter& writer, const std::string& x, const BertConfig& config) {
  return config.unfused ? softmax_written_out(writer, x) : writer.node("Softmax", {x}, {{"axis", int64_t{-1}}});
}

std::string embeddings(OnnxWriter& writer, const BertConfig& config, const std::string& words) {
  const std::vector<InputDim> dims = {std::string("batch"), config.sequence};
  const std::string ids = writer.integer_input("input_ids", dims);
  const std::string types = writer.integer_input("token_type_ids", dims);
  const auto scope = writer.scope("embeddings");
  const std::string positions = writer.weight("position.weight", {config.sequence, config.width}, normal(kDeviation));
  const std::string kinds = writer.weight("type.weight", {config.token_types, config.width}, normal(kDeviation));
  const std::string placed = writer.node("Add", {writer.node("Gather", {words, ids}), positions});
  const std::string sum = writer.node("Add", {placed, writer.node("Gather", {kinds, types})});
  return dropout(writer, normalized(writer, "norm", sum, config), config.dropout);
}

// [batch, 1, 1, sequence]: 0 for a position that may be attended to, -10000 for padding.
std::string padding_mask(OnnxWriter& writer, const BertConfig& config) {
  const std::string mask = writer.integer_input("attention_mask", {std::string("batch"), config.sequence});
  const auto scope = writer.scope("mask");
  constexpr int64_t kFloat = 1;  // TensorProto.DataType
  const std::string keep = writer.node("Cast", {mask}, {{"to", kFloat}});
  const std::string wide = writer.node("Unsqueeze", {keep, writer.integers("axes", {1, 2})});
  const std::string hidden = writer.node("Sub", {writer.floats("one", {}, {1.0F}), wide});
  return writer.node("Mul", {hidden, writer.floats("penalty", {}, {-10000.0F})});
}

// [batch, sequence, width] -> [batch, heads, sequence, width / heads], its axes in `order`
std::string head_projection(OnnxWriter& writer, std::string_view name, const std::string& x, const BertConfig& config,
                            const std::vector<int64_t>& order) {
  const std::string projected = projection(writer, name, x, config.width, config.width, kDeviation);
  const auto scope = writer.scope(name);
  const std::string shape = writer.integers("shape", {0, config.sequence, config.heads, config.width / config.heads});
  return writer.node("Transpose", {writer.node("Reshape", {projected, shape})}, {{"perm", order}});
}

std::string attention(OnnxWriter& writer, const std::string& x, const BertConfig& config, const std::string& mask) {
  const auto scope = writer.scope("attention");
  const std::string query = head_projection(writer, "query", x, config, kHeadsFirst);
  const std::string key = head_projection(writer, "key", x, config, {0, 2, 3, 1});
  const std::string value = head_projection(writer, "value", x, config, kHeadsFirst);
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.width / config.heads));
  const std::string scores =
      writer.node("Mul", {writer.node("MatMul", {query, key}), writer.floats("scale", {}, {scale})});
  const std::string weights =
      dropout(writer, softmax(writer, writer.node("Add", {scores, mask}), config), config.dropout);
  const std::string mixed =
      writer.node("Transpose", {writer.node("MatMul", {weights, value})}, {{"perm", kHeadsFirst}});
  const std::string merged =
      writer.node("Reshape", {mixed, writer.integers("shape", {0, config.sequence, config.width})});
  return dropout(writer, projection(writer, "output", merged, config.width, config.width, kDeviation), config.dropout);
}

std::string feed_forward(OnnxWriter& writer, const std::string& x, const BertConfig& config) {
  const auto scope = writer.scope("mlp");
  const std::string hidden = projection(writer, "up", x, config.width, 4 * config.width, kDeviation);
  const std::string down =
      projection(writer, "down", gelu(writer, hidden, config), 4 * config.width, config.width, kDeviation);
  return dropout(writer, down, config.dropout);
}

std::string encoder_layer(OnnxWriter& writer, const std::string& x, const BertConfig& config, const std::string& mask) {
  const std::string attended = writer.node("Add", {attention(writer, x, config, mask), x});
  const std::string middle = normalized(writer, "norm1", attended, config);
  const std::string sum = writer.node("Add", {feed_forward(writer, middle, config), middle});
  return normalized(writer, "norm2", sum, config);
}

void masked_language_head(OnnxWriter& writer, const std::string& x, const BertConfig& config,
                          const std::string& words) {
  const auto scope = writer.scope("masked_language");
  const std::string dense = projection(writer, "dense", x, config.width, config.width, kDeviation);
  const std::string hidden = normalized(writer, "norm", gelu(writer, dense, config), config);
  const std::string own =
      config.untied ? writer.weight("weight", {config.vocabulary, config.width}, normal(kDeviation)) : words;
  const std::string head = writer.node("Transpose", {own}, {{"perm", std::vector<int64_t>{1, 0}}});
  const std::string bias = writer.weight("bias", {config.vocabulary}, constant(0));
  const std::string logits = writer.node("Add", {writer.node("MatMul", {hidden, head}), bias});
  writer.float_output(logits, "logits", {std::string("batch"), config.sequence, config.vocabulary});
}

void next_sentence_head(OnnxWriter& writer, const std::string& x, const BertConfig& config) {
  const auto scope = writer.scope("next_sentence");
  const std::string first = writer.node("Gather", {x, writer.integers("first", {0})}, {{"axis", int64_t{1}}});
  const std::string flat = writer.node("Reshape", {first, writer.integers("shape", {0, config.width})});
  const std::string pooled =
      writer.node("Tanh", {linear(writer, "pool", flat, config.width, config.width, kDeviation)});
  const std::string scores = linear(writer, "classifier", pooled, config.width, 2, kDeviation);
  writer.float_output(scores, "next_sentence", {std::string("batch"), int64_t{2}});
}

Result<BertConfig> checked(BertConfig config) {
  if (config.heads == 0) config.heads = config.width / 64;
  if (config.layers < 1 || config.width < 1 || config.sequence < 1 || config.vocabulary < 1 || config.token_types < 1) {
    return error("a BERT needs at least one layer and positive sizes");
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) return error("a dropout ratio lies in [0, 1)");
  if (config.heads < 1 || config.width % config.heads != 0) {
    return error("the width " + std::to_string(config.width) + " does not divide into " + std::to_string(config.heads) +
                 " heads");
  }
  return config;
}

}  // namespace

Result<void> write_bert(OnnxWriter& writer, const BertConfig& wanted) {
  RANNC_ASSIGN(const BertConfig config, checked(wanted));
  const std::string words =
      writer.weight("embeddings.word.weight", {config.vocabulary, config.width}, normal(kDeviation));
  std::string x = embeddings(writer, config, words);
  const std::string mask = padding_mask(writer, config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = writer.scope("layer." + std::to_string(layer));
    x = encoder_layer(writer, x, config, mask);
  }
  masked_language_head(writer, x, config, words);
  next_sentence_head(writer, x, config);
  return {};
}

}  // namespace rannc::frontend::zoo
