#include "frontend/zoo/transformer.h"

#include <cmath>
#include <limits>

#include "frontend/zoo/layers.h"

namespace rannc::frontend::zoo {

namespace {

// [batch, context, width] -> [batch, heads, context, width / heads]
std::string split_heads(OnnxWriter& writer, std::string_view name, const std::string& x, const GptConfig& config,
                        const std::vector<int64_t>& order) {
  const auto scope = writer.scope(name);
  const std::string shape = writer.integers("shape", {0, config.context, config.heads, config.width / config.heads});
  return writer.node("Transpose", {writer.node("Reshape", {x, shape})}, {{"perm", order}});
}

std::string causal_attention(OnnxWriter& writer, const std::string& x, const GptConfig& config,
                             const std::string& mask) {
  const auto scope = writer.scope("attention");
  const std::string qkv = projection(writer, "qkv", x, config.width, 3 * config.width, 0.02F);
  const auto parts = writer.node_outputs("Split", {qkv}, 3, {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}});
  const std::string query = split_heads(writer, "query", parts[0], config, {0, 2, 1, 3});
  const std::string key = split_heads(writer, "key", parts[1], config, {0, 2, 3, 1});
  const std::string value = split_heads(writer, "value", parts[2], config, {0, 2, 1, 3});
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.width / config.heads));
  const std::string scaled =
      writer.node("Mul", {writer.node("MatMul", {query, key}), writer.floats("scale", {}, {scale})});
  const std::string weights = writer.node("Softmax", {writer.node("Add", {scaled, mask})}, {{"axis", int64_t{-1}}});
  const std::string mixed =
      writer.node("Transpose", {writer.node("MatMul", {weights, value})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const std::string merged =
      writer.node("Reshape", {mixed, writer.integers("shape", {0, config.context, config.width})});
  const float deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(config.layers));
  return projection(writer, "output", merged, config.width, config.width, deviation);
}

std::string feed_forward(OnnxWriter& writer, const std::string& x, const GptConfig& config) {
  const auto scope = writer.scope("mlp");
  const std::string hidden = projection(writer, "up", x, config.width, 4 * config.width, 0.02F);
  const std::string active = writer.node("Gelu", {hidden}, {{"approximate", std::string("tanh")}});
  const float deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(config.layers));
  return projection(writer, "down", active, 4 * config.width, config.width, deviation);
}

// [1, 1, context, context]: 0 where a position may attend, minus infinity elsewhere.
std::string causal_mask(OnnxWriter& writer, int64_t context) {
  std::vector<float> mask(static_cast<size_t>(context * context), 0.0F);
  for (int64_t row = 0; row < context; ++row) {
    for (int64_t column = row + 1; column < context; ++column) {
      mask[static_cast<size_t>(row * context + column)] = -std::numeric_limits<float>::infinity();
    }
  }
  return writer.floats("causal_mask", {1, 1, context, context}, mask);
}

}  // namespace

Result<void> write_gpt(OnnxWriter& writer, const GptConfig& config) {
  if (config.layers < 1 || config.width < 1 || config.heads < 1 || config.context < 1 || config.vocabulary < 1) {
    return error("a GPT needs at least one layer, one head and positive sizes");
  }
  if (config.width % config.heads != 0) {
    return error("the width " + std::to_string(config.width) + " is not a multiple of the " +
                 std::to_string(config.heads) + " heads");
  }
  const std::string tokens = writer.integer_input("tokens", {std::string("batch"), config.context});
  const std::string embedding =
      writer.weight("token_embedding.weight", {config.vocabulary, config.width}, normal(0.02F));
  const std::string positions =
      writer.weight("position_embedding.weight", {config.context, config.width}, normal(0.01F));
  const std::string mask = causal_mask(writer, config.context);
  std::string x = writer.node("Add", {writer.node("Gather", {embedding, tokens}, {{"axis", int64_t{0}}}), positions});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = writer.scope("layer." + std::to_string(layer));
    const std::string attended = causal_attention(writer, layer_norm(writer, "norm1", x, config.width), config, mask);
    x = writer.node("Add", {x, attended});
    x = writer.node("Add", {x, feed_forward(writer, layer_norm(writer, "norm2", x, config.width), config)});
  }
  x = layer_norm(writer, "final_norm", x, config.width);
  const std::string head = config.tied ? writer.node("Transpose", {embedding}, {{"perm", std::vector<int64_t>{1, 0}}})
                                       : writer.weight("head.weight", {config.width, config.vocabulary}, normal(0.02F));
  const std::string logits = writer.node("MatMul", {x, head});
  writer.float_output(logits, "logits", {std::string("batch"), config.context, config.vocabulary});
  return {};
}

}  // namespace rannc::frontend::zoo
