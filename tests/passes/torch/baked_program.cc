#include "tests/passes/torch/baked_program.h"

#include <random>
#include <string>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::ir::testing {

namespace {

class Maker {
 public:
  Maker(uint64_t seed, std::optional<int64_t> baked) : random_(seed), baked_(baked) {}

  Graph make(uint32_t tasks) {
    if (!baked_) graph_.set_batch_symbol("batch");
    values_ = {input("x", DType::kF64, {samples(), 3, 4})};
    places_ = input("places", DType::kI64, {samples(), 3});
    for (uint32_t i = 0; i < tasks; ++i) step();
    ValueId sum = values_[0];
    for (size_t i = 1; i < values_.size(); ++i) sum = task("add", {sum, values_[i]});
    graph_.add_output(task("reshape", {sum}, {{"shape", Shape{samples(), 12}}}));
    return std::move(graph_);
  }

 private:
  Dim samples() const { return baked_ ? Dim(*baked_) : Dim::symbol("batch"); }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  ValueId pick() { return values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))]; }
  ValueId input(const std::string& name, DType dtype, Shape shape) {
    const BatchLayout batch{baked_ ? -1 : 0, 1, 1};
    const ValueId made = graph_.add_value(ValueKind::kInput, name, {dtype, std::move(shape), batch, {}});
    graph_.add_input(made);
    return made;
  }
  ValueId task(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {}) {
    const TaskId made = graph_.add_task(core(op), operands, std::move(attributes), std::vector<std::string>(1));
    const auto typed = infer_types(graph_, made);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    return graph_.outputs(made)[0];
  }
  ValueId tamed(ValueId value) { return task("tanh", {value}); }
  ValueId reshaped(ValueId value, Shape shape) { return task("reshape", {value}, {{"shape", std::move(shape)}}); }
  ValueId turned(ValueId value, Shape dims) { return task("permute", {value}, {{"dims", std::move(dims)}}); }

  std::vector<double> numbers(int64_t count) {
    std::vector<double> made;
    for (int64_t i = 0; i < count; ++i) made.push_back(static_cast<double>(below(2001) - 1000) / 1000);
    return made;
  }
  ValueId constant(const std::vector<int64_t>& shape, const std::vector<double>& elements) {
    return add_constant(graph_, "c", DType::kF64, shape, std::span<const double>(elements));
  }
  ValueId integers(const std::vector<int64_t>& shape, const std::vector<int64_t>& elements) {
    return add_constant(graph_, "n", DType::kI64, shape, std::span<const int64_t>(elements));
  }

  // [batch, 3, 4] of a constant that is alike for all samples.
  ValueId mask() {
    const std::vector<double> one = numbers(12);
    if (!baked_ || below(2) == 0)
      return task("expand", {constant({1, 3, 4}, one)}, {{"shape", Shape{samples(), 3, 4}}});
    std::vector<double> all;
    for (int64_t n = 0; n < *baked_; ++n) all.insert(all.end(), one.begin(), one.end());
    return constant({*baked_, 3, 4}, all);
  }

  // [batch, 1, 4]: of one sample exporters leave the expansion out.
  ValueId token() {
    const ValueId made = constant({1, 1, 4}, numbers(4));
    return baked_ == 1 ? made : task("expand", {made}, {{"shape", Shape{samples(), 1, 4}}});
  }

  // [batch, 3, 2]: each sample's number beside its places.
  ValueId pairs() {
    if (!baked_) {
      const ValueId count =
          task("range", {}, {{"start", Dim(0)}, {"limit", samples()}, {"delta", Dim(1)}, {"dtype", DType::kI64}});
      const ValueId own =
          task("expand", {task("unsqueeze", {count}, {{"axes", Shape{1, 2}}})}, {{"shape", Shape{samples(), 3, 1}}});
      const ValueId place = task("expand", {integers({1, 3, 1}, {2, 0, 1})}, {{"shape", Shape{samples(), 3, 1}}});
      return task("concat", {own, place}, {{"axis", Dim(2)}});
    }
    std::vector<int64_t> table;
    for (int64_t n = 0; n < *baked_; ++n) table.insert(table.end(), {n, 2, n, 0, n, 1});
    return integers({*baked_, 3, 2}, table);
  }

  // Each adds a value of [batch, 3, 4]. All numbers are drawn alike with and without a number of samples in the file.
  void step() {
    const uint64_t own = random_();
    const ValueId x = pick(), y = pick();
    const int64_t form = below(10);
    std::mt19937_64 after(own);
    std::swap(random_, after);
    values_.push_back(tamed(made(form, x, y)));
    std::swap(random_, after);
  }

  ValueId made(int64_t form, ValueId x, ValueId y) {
    const Dim n = samples();
    switch (form) {
      case 0:
        return task("add", {x, mask()});
      case 1:  // a product of places, by sample and head
      case 2: {
        const ValueId heads = turned(reshaped(x, {n, 3, 2, 2}), {0, 2, 1, 3});
        const ValueId merged = reshaped(heads, {n * 2, 3, 2});
        const ValueId scores = task("matmul", {merged, turned(merged, {0, 2, 1})});
        const ValueId mixed = task("matmul", {task("softmax", {scores}), merged});
        return reshaped(turned(reshaped(mixed, {n, 2, 3, 2}), {0, 2, 1, 3}), {n, 3, 4});
      }
      case 3: {  // the same with places in front
        const ValueId front = turned(x, {1, 0, 2});
        const ValueId heads = turned(reshaped(front, {3, n * 2, 2}), {1, 0, 2});
        const ValueId mixed = task("matmul", {task("matmul", {heads, turned(heads, {0, 2, 1})}), heads});
        return turned(reshaped(turned(mixed, {1, 0, 2}), {3, n, 4}), {1, 0, 2});
      }
      case 4: {  // a token in front, and off again
        const ValueId more = task("concat", {token(), x}, {{"axis", Dim(1)}});
        return task("slice", {more}, {{"axes", Shape{1}}, {"starts", Shape{0}}, {"ends", Shape{3}}});
      }
      case 5:  // rows of all samples one behind another
        return reshaped(task("matmul", {reshaped(x, {n * 3, 4}), constant({4, 4}, numbers(16))}), {n, 3, 4});
      case 6: {  // a state before the first place
        const ValueId zeros = task("full", {}, {{"shape", Shape{1, n, 4}}, {"value", 0.5}, {"dtype", DType::kF64}});
        const ValueId rows = task("concat", {zeros, turned(x, {1, 0, 2})}, {{"axis", Dim(0)}});
        return turned(task("slice", {rows}, {{"axes", Shape{0}}, {"starts", Shape{0}}, {"ends", Shape{3}}}), {1, 0, 2});
      }
      case 7:  // places fetched by tables of samples' numbers
        return task("add", {x, task("unsqueeze",
                                    {task("cast", {task("gather_nd", {places_, pairs()})}, {{"dtype", DType::kF64}})},
                                    {{"axes", Shape{2}}})});
      case 8:  // a stretch that takes the samples' number
        return task("mul", {x, task("expand", {task("mean", {y}, {{"axes", Shape{1, 2}}, {"keepdim", true}})},
                                    {{"shape", Shape{n, 3, 4}}})});
      default:
        return task("add", {x, y});
    }
  }

  std::mt19937_64 random_;
  std::optional<int64_t> baked_;
  Graph graph_;
  std::vector<ValueId> values_;
  ValueId places_;
};

}  // namespace

Graph baked_program(uint64_t seed, uint32_t tasks, std::optional<int64_t> baked) {
  return Maker(seed, baked).make(tasks);
}

}  // namespace rannc::ir::testing
