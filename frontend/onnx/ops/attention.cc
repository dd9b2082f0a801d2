/// Translates scaled dot product attention and rotary embeddings.
#include <cmath>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/recipes/attention_mask.h"

namespace rannc::frontend {

namespace {

/// Emits softmax(softcap(q · kᵀ · scale) + bias) · v with few tasks. ONNX's definition has thirty: it adds zeros where
/// nothing is masked, scales both keys and queries, and copies keys and values for each group of queries.
class Attention {
 public:
  explicit Attention(Node& node) : node_(node) {}

  /// Returns false and emits nothing if number or size of heads are unknown. ONNX's definition determines them at
  /// runtime.
  bool run() {
    const ValueId q = node_.in(0), k = node_.in(1), v = node_.in(2);
    for (const ValueId each : {q, k, v}) {
      if (!read_heads(each)) return false;
    }
    if (!node_.good()) return true;
    const ValueId queries = by_heads(q, 0), keys = past_and(4, by_heads(k, 1)), values = past_and(5, by_heads(v, 2));
    if (!node_.good()) return true;
    if (node_.wants(1)) node_.result_at(1, keys);
    if (node_.wants(2)) node_.result_at(2, values);
    const ValueId weights = weigh(queries, keys);
    if (node_.good()) finish(weights, values);
    return true;
  }

 private:
  struct Heads {
    int64_t count = 0, size = 0;
    ir::Dim samples, length;
  };

  static constexpr int64_t kHeads = 1, kLength = 2, kSize = 3;  // axes

  /// Reads the heads of a value [B, heads, length, size], or [B, length, heads * size] with the number in an attribute.
  bool read_heads(ValueId value) {
    const ir::Shape* const shape = node_.type(value).shape ? node_.shape(value) : nullptr;
    if (!shape || (shape->size() != 3 && shape->size() != 4) || !shape->back().is_constant()) return false;
    const bool flat = shape->size() == 3;
    const int64_t said = node_.integer(heads_.empty() ? "q_num_heads" : "kv_num_heads", 0);
    if (!flat && !(*shape)[kHeads].is_constant()) return false;
    Heads heads{flat ? said : (*shape)[kHeads].constant(), shape->back().constant(), shape->front(),
                (*shape)[flat ? 1 : kLength]};
    const bool divides = heads.count > 0 && (!flat || heads.size % heads.count == 0);
    if (!divides || (!heads_.empty() && heads_.front().count % heads.count != 0)) {
      node_.fail("Attention of " + ir::str(*shape) + " in " + std::to_string(heads.count) +
                 " heads: the number of heads must divide the last axis, and that of keys and values the queries'");
      return true;
    }
    if (flat) heads.size /= heads.count;
    flat_ = flat_ || flat;
    heads_.push_back(heads);
    return true;
  }

  const Heads& of_queries() const { return heads_[0]; }
  /// Returns the number of query heads that share a key head.
  int64_t group() const { return of_queries().count / heads_[1].count; }

  /// Returns a value as [B, heads, length, size].
  ValueId by_heads(ValueId value, size_t which) {
    if (!node_.good() || node_.shape(value)->size() == 4) return value;
    const Heads& heads = heads_[which];
    const ValueId apart =
        node_.emit("reshape", {value}, {{"shape", ir::Shape{heads.samples, heads.length, heads.count, heads.size}}});
    return node_.emit("permute", {apart}, {{"dims", ir::Shape{0, 2, 1, 3}}});
  }

  ValueId past_and(size_t past, ValueId value) {
    if (!node_.has(past)) return value;
    return node_.emit("concat", {node_.in(past), value}, {{"axis", ir::Dim(kLength)}});
  }

  ValueId number(double value) { return node_.scalar(value, dtype_); }

  /// Concatenates the queries of a group of heads, because they have the same keys.
  ValueId below(ValueId value) {
    const ir::Shape* const shape = group() > 1 ? node_.shape(value) : nullptr;
    if (!shape) return value;
    const ir::Shape rows = {of_queries().samples, heads_[1].count, ir::Dim(group()) * of_queries().length,
                            shape->back()};
    return node_.emit("reshape", {value}, {{"shape", rows}});
  }

  ValueId apart(ValueId value) {
    const ir::Shape* const shape = group() > 1 ? node_.shape(value) : nullptr;
    if (!shape) return value;
    const ir::Shape heads = {of_queries().samples, of_queries().count, of_queries().length, shape->back()};
    return node_.emit("reshape", {value}, {{"shape", heads}});
  }

  /// Returns the attention weights. Also emits the fourth output if present, which is one of the intermediate products.
  ValueId weigh(ValueId queries, ValueId keys) {
    dtype_ = node_.dtype(queries);
    const double scale = node_.number("scale", 1 / std::sqrt(static_cast<double>(of_queries().size)));
    const ValueId scaled = scale == 1 ? queries : node_.emit("mul", {queries, number(scale)});
    const ValueId turned = node_.emit("permute", {keys}, {{"dims", ir::Shape{0, 1, 3, 2}}});
    ValueId scores = apart(node_.emit("matmul", {below(scaled), turned}));
    const ValueId products = scores;
    if (const double cap = node_.number("softcap", 0); cap != 0) {
      const ValueId bounded = node_.emit("tanh", {node_.emit("div", {scores, number(cap)})});
      scores = node_.emit("mul", {bounded, number(cap)});
    }
    const ValueId capped = scores;
    if (const ValueId masked_out = bias(keys); masked_out.valid()) scores = node_.emit("add", {scores, masked_out});
    const ValueId weights = softmax(scores);
    if (node_.wants(3) && node_.good()) {
      const ValueId stages[] = {products, capped, scores, weights};
      const int64_t mode = node_.integer("qk_matmul_output_mode", 0);
      if (mode < 0 || mode > 3) node_.fail("Attention: qk_matmul_output_mode is 0 to 3, found " + std::to_string(mode));
      if (node_.good()) node_.result_at(3, stages[mode]);
    }
    return weights;
  }

  /// Returns zeros for queries whose keys are all masked, as in PyTorch and in ONNX's corrected specification.
  ValueId softmax(ValueId scores) {
    const auto said = element_type(static_cast<int>(node_.integer("softmax_precision", onnx_element_type(dtype_))));
    const ir::DType precision = said && ir::is_float(*said) ? *said : dtype_;
    ir::Attributes last = {{"axis", ir::Dim(kSize)}};
    if (node_.has(3) || node_.has(6)) last.set("hidden_rows", std::string("zero"));
    if (precision == dtype_) return node_.emit("softmax", {scores}, last);
    const ValueId wide = node_.emit("softmax", {node_.emit("cast", {scores}, {{"dtype", precision}})}, last);
    return node_.emit("cast", {wide}, {{"dtype", dtype_}});
  }

  /// Returns the sum of a float mask and minus infinity at masked keys; an invalid value if there is no mask.
  ValueId bias(ValueId keys) {
    const ir::Shape* const shape = node_.shape(keys);
    if (!shape) return {};
    const ir::Dim total = (*shape)[kLength];
    ValueId mask = node_.optional(3), seen;
    if (mask.valid()) mask = as_long(mask, total);
    if (mask.valid() && node_.dtype(mask) == ir::DType::kBool) std::swap(mask, seen);
    if (node_.integer("is_causal", 0) != 0) {
      const ir::Dim past = node_.has(4) ? total - heads_[1].length : ir::Dim(0), length = of_queries().length;
      const bool from_end = node_.has(6) && !node_.has(4);
      seen = both_seen(node_, seen,
                       from_end ? causal_to(node_.in(6), length, total) : causal_mask(node_, length, total, past));
    }
    if (node_.has(6)) seen = both_seen(node_, seen, within_length(node_.in(6), total));
    if (mask.valid() && node_.dtype(mask) != dtype_) mask = node_.emit("cast", {mask}, {{"dtype", dtype_}});
    if (!seen.valid()) return mask;
    return additive_mask(node_, seen, mask, dtype_);
  }

  /// Extends a mask to the number of keys. Since opset 24 it may be shorter, and the remaining keys are masked out.
  ValueId as_long(ValueId mask, const ir::Dim& total) {
    const ir::Shape* const shape = node_.shape(mask);
    if (!shape || shape->empty() || node_.opset() < 24 || shape->back() == total) return mask;
    ir::Shape pads(2 * shape->size(), ir::Dim(0));
    pads.back() = total - shape->back();
    const bool is_bool = node_.dtype(mask) == ir::DType::kBool;
    const ir::Attribute value = is_bool ? ir::Attribute(false) : ir::Attribute(-HUGE_VAL);
    return node_.emit("pad", {mask}, {{"pads", pads}, {"value", value}});
  }

  /// Returns which keys of each sample are not padding.
  ValueId within_length(ValueId lengths, const ir::Dim& total) {
    return node_.emit("lt", {range(node_, 0, total), column_of(lengths)});
  }

  /// Returns which keys queries see that are the last before the padding of each sample.
  ValueId causal_to(ValueId lengths, const ir::Dim& queries, const ir::Dim& total) {
    const ValueId back =
        node_.emit("unsqueeze", {range(node_, ir::Dim(0) - queries, queries)}, {{"axes", ir::Shape{1}}});
    return node_.emit("ge", {node_.emit("add", {column_of(lengths), back}), range(node_, 0, total)});
  }

  ValueId column_of(ValueId lengths) {
    const ValueId wide = node_.emit("cast", {lengths}, {{"dtype", ir::DType::kI64}});
    return node_.emit("unsqueeze", {wide}, {{"axes", ir::Shape{1, 2, 3}}});
  }

  void finish(ValueId weights, ValueId values) {
    if (!flat_ && group() == 1) return node_.result("matmul", {weights, values});
    const ValueId product = node_.emit("matmul", {below(weights), values});
    const ir::Dim size = heads_[2].size;
    if (!flat_) {
      const ir::Shape heads = {of_queries().samples, of_queries().count, of_queries().length, size};
      return node_.result("reshape", {product}, {{"shape", heads}});
    }
    const ValueId heads_last = node_.emit("permute", {apart(product)}, {{"dims", ir::Shape{0, 2, 1, 3}}});
    const ir::Shape flat = {of_queries().samples, of_queries().length, of_queries().count * heads_[2].size};
    node_.result("reshape", {heads_last}, {{"shape", flat}});
  }

  Node& node_;
  std::vector<Heads> heads_;  // of queries, keys, values
  bool flat_ = false;
  ir::DType dtype_ = ir::DType::kF32;
};

void attention(Node& node) {
  if (!Attention(node).run() && node.good()) node.use_definition();
}

/// Maps the halves x1, x2 of each head, or its even and odd elements, to x1 · cos - x2 · sin, x1 · sin + x2 · cos.
/// Unlike ONNX's definition it needs no permutations, because the tables are broadcast over the heads.
class RotaryEmbedding {
 public:
  explicit RotaryEmbedding(Node& node) : node_(node), interleaved_(node.integer("interleaved", 0) != 0) {}

  /// Returns false and emits nothing if the size of heads is unknown.
  bool run() {
    const ValueId x = node_.in(0);
    const auto& shape = node_.type(x).shape;
    if (!node_.good()) return true;
    if (!shape || (shape->size() != 3 && shape->size() != 4) || !shape->back().is_constant()) return false;
    whole_ = *shape;
    flat_ = shape->size() == 3;
    const int64_t last = shape->back().constant(), heads = flat_ ? node_.integer("num_heads", 0) : 1;
    if (heads < 1 || last % heads != 0) return refuse(std::to_string(heads) + " heads");
    const int64_t size = last / heads, said = node_.integer("rotary_embedding_dim", 0);
    turned_ = said == 0 ? size : said;
    if (turned_ < 2 || turned_ % 2 != 0 || turned_ > size) {
      return refuse(std::to_string(turned_) + " of " + std::to_string(size) + " elements to rotate");
    }
    heads_ = flat_ ? ir::Shape{whole_[0], whole_[1], heads, size} : whole_;
    turn(flat_ ? node_.emit("reshape", {x}, {{"shape", heads_}}) : x, size);
    return true;
  }

 private:
  bool refuse(const std::string& found) {
    node_.fail(
        "RotaryEmbedding of " + ir::str(whole_) + " with " + found +
        "; heads must divide the last axis, and rotary_embedding_dim must be even and at most the size of a head");
    return true;
  }

  void turn(ValueId x, int64_t size) {
    ValueId rest;
    if (turned_ < size) {
      const auto parts = node_.emit_all("split", {x}, sizes(3, turned_, size - turned_), 2);
      x = parts[0];
      rest = parts[1];
    }
    ir::Shape turned = heads_, pairs = heads_;
    turned.back() = turned_;
    pairs.back() = turned_ / 2;
    pairs.emplace_back(2);
    if (interleaved_) x = node_.emit("reshape", {x}, {{"shape", pairs}});
    const int64_t axis = interleaved_ ? 4 : 3, half = interleaved_ ? 1 : turned_ / 2;
    const auto halves = node_.emit_all("split", {x}, sizes(axis, half, half), 2);
    const ValueId cosine = table(1), sine = table(2);
    const auto product = [&](ValueId a, ValueId b) { return node_.emit("mul", {a, b}); };
    const ValueId real = node_.emit("sub", {product(halves[0], cosine), product(halves[1], sine)});
    const ValueId imaginary = node_.emit("add", {product(halves[0], sine), product(halves[1], cosine)});
    ValueId y = step(!interleaved_ && !rest.valid() && !flat_, "concat", {real, imaginary}, {{"axis", ir::Dim(axis)}});
    if (interleaved_) y = step(!rest.valid() && !flat_, "reshape", {y}, {{"shape", turned}});
    if (rest.valid()) y = step(!flat_, "concat", {y, rest}, {{"axis", ir::Dim(3)}});
    if (flat_) step(true, "reshape", {y}, {{"shape", whole_}});
  }

  static ir::Attributes sizes(int64_t axis, int64_t first, int64_t second) {
    return {{"axis", ir::Dim(axis)}, {"sizes", ir::Shape{first, second}}};
  }

  /// Emits a task. The last one produces the node's result.
  ValueId step(bool last, std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
    if (!last) return node_.emit(op, operands, std::move(attributes));
    node_.result(op, operands, std::move(attributes));
    return {};
  }

  /// Returns cosines or sines, selected by position ids if present, with axes that broadcast over heads. Stored tables
  /// are constants, although they are looked up like an embedding. Others may be computed from trained frequencies.
  ValueId table(size_t operand) {
    static const ir::Pattern kStored =
        ir::through({"cast", "identity", "gather", "slice", "reshape", "unsqueeze", "concat"},
                    ir::of_kind(ir::ValueKind::kConstant));
    ValueId values = node_.in(operand);
    if (node_.match(values, kStored)) values = node_.emit("stop_gradient", {values});
    if (node_.has(3)) values = node_.emit("gather", {values, node_.in(3)}, {{"axis", ir::Dim(0)}});
    const ir::Shape* const shape = node_.shape(values);
    if (!shape) return {};
    const ir::Dim half = turned_ / 2;
    if (shape->size() == 3 && shape->back().is_constant() && half.constant() < shape->back().constant()) {
      values =
          node_.emit("slice", {values}, {{"axes", ir::Shape{2}}, {"starts", ir::Shape{0}}, {"ends", ir::Shape{half}}});
    }
    ir::Shape axes = {ir::Dim(flat_ ? 2 : 1)};
    if (interleaved_) axes.emplace_back(4);
    return node_.emit("unsqueeze", {values}, {{"axes", axes}});
  }

  Node& node_;
  const bool interleaved_;
  bool flat_ = false;
  int64_t turned_ = 0;  // rotated elements of a head
  ir::Shape whole_, heads_;
};

void rotary_embedding(Node& node) {
  if (!RotaryEmbedding(node).run() && node.good()) node.use_definition();
}

}  // namespace

std::span<const Translator> attention_translators() {
  static constexpr Translator kTable[] = {
      {"Attention", 23, 27, attention},
      {"RotaryEmbedding", 23, 27, rotary_embedding},
  };
  return kTable;
}

}  // namespace rannc::frontend
