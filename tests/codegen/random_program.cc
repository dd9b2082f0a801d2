#include "tests/codegen/random_program.h"

#include <functional>
#include <random>

#include "ir/op/op.h"

namespace rannc::ir::testing {

namespace {

/// Activations are [batch, 4] or [batch, 3, 4]; parameters [4], [4, 4] or [6, 4].
class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Graph make(uint32_t tasks) {
    graph_.set_batch_symbol("batch");
    flat_ = {input("x", DType::kF64, {batch(), 4}), input("y", DType::kF64, {batch(), 4})};
    deep_ = {input("z", DType::kF64, {batch(), 3, 4})};
    words_ = input("words", DType::kI64, {batch(), 3});
    for (uint32_t i = 0; i < 3; ++i) {
      vectors_.push_back(parameter({4}));
      squares_.push_back(parameter({4, 4}));
    }
    table_ = parameter({6, 4});
    for (uint32_t i = 0; i < tasks; ++i) step();
    finish();
    return std::move(graph_);
  }

 private:
  static Dim batch() { return Dim::symbol("batch"); }
  size_t below(size_t n) { return random_() % n; }
  ValueId pick(const std::vector<ValueId>& from) {
    return from[from.size() - 1 - std::min(below(from.size()), below(from.size()))];
  }

  ValueId input(const std::string& name, DType dtype, Shape shape) {
    const ValueId made = graph_.add_value(ValueKind::kInput, name, {dtype, std::move(shape), {0, 1, 1}, {}});
    graph_.add_input(made);
    return made;
  }
  ValueId parameter(Shape shape) {
    return graph_.add_value(ValueKind::kParameter, "p" + std::to_string(parameters_++),
                            {DType::kF64, std::move(shape), {}, {}});
  }

  std::vector<ValueId> tasks(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
                             size_t results) {
    const TaskId task = graph_.add_task(core(op), operands, std::move(attributes), std::vector<std::string>(results));
    const auto typed = infer_types(graph_, task);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    return {graph_.outputs(task).begin(), graph_.outputs(task).end()};
  }
  ValueId task(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {}) {
    return tasks(op, operands, std::move(attributes), 1)[0];
  }

  /// Values stay near 1, so that powers do not run away.
  ValueId tamed(ValueId value) { return task("tanh", {value}); }

  void step() {
    static constexpr const char* kUnary[] = {"relu", "tanh", "sigmoid", "gelu",      "silu",        "sin",
                                             "cos",  "erf",  "abs",     "hardswish", "hardsigmoid", "softplus",
                                             "neg",  "elu",  "exp",     "identity",  "leaky_relu"};
    static constexpr const char* kBinary[] = {"add", "sub", "mul", "maximum", "minimum"};
    std::vector<ValueId>& same = below(2) ? flat_ : deep_;
    switch (below(14)) {
      case 0:
      case 1:
        same.push_back(tamed(task(kUnary[below(std::size(kUnary))], {pick(same)})));
        return;
      case 2:
      case 3:
        same.push_back(tamed(task(kBinary[below(std::size(kBinary))], {pick(same), pick(same)})));
        return;
      case 4:
        same.push_back(tamed(task(kBinary[below(std::size(kBinary))], {pick(same), pick(vectors_)})));
        return;
      case 5:
        same.push_back(tamed(task("matmul", {pick(same), pick(squares_)})));
        return;
      case 6:
        same.push_back(tamed(task("linear", {pick(same), pick(squares_), below(2) ? pick(vectors_) : ValueId()},
                                  {{"layout", std::string(below(2) ? "oi" : "io")}})));
        return;
      default:
        return step_of_structure(same);
    }
  }

  void step_of_structure(std::vector<ValueId>& same) {
    switch (below(12)) {
      case 0:
        return same.push_back(task("softmax", {pick(same)}));
      case 1:
        return same.push_back(
            tamed(task("layer_norm", {pick(same), pick(vectors_), below(2) ? pick(vectors_) : ValueId()})));
      case 2:
        return flat_.push_back(task("mean", {pick(deep_)}, {{"axes", Shape{1}}, {"keepdim", false}}));
      case 3:
        return deep_.push_back(task("add", {pick(deep_), task("unsqueeze", {pick(flat_)}, {{"axes", Shape{1}}})}));
      case 4:
        return deep_.push_back(task("gather", {table_, words_}, {{"axis", Dim(0)}}));
      case 5: {  // a parameter, changed before it is read
        const ValueId turned = task("permute", {pick(squares_)}, {{"dims", Shape{1, 0}}});
        return squares_.push_back(below(2) ? turned : task("tanh", {turned}));
      }
      case 6:
        return vectors_.push_back(task("mul", {pick(vectors_), pick(vectors_)}));
      case 7: {
        const auto parts = tasks("split", {pick(same)}, {{"axis", Dim(-1)}, {"sizes", Shape{1, 3}}}, 2);
        return same.push_back(task("concat", {parts[1], parts[0]}, {{"axis", Dim(-1)}}));
      }
      case 8: {
        const ValueId joined = task("reshape", {pick(deep_)}, {{"shape", Shape{batch(), 12}}});
        return flat_.push_back(task(
            "slice", {joined}, {{"axes", Shape{1}}, {"starts", Shape{3}}, {"ends", Shape{11}}, {"steps", Shape{2}}}));
      }
      case 9:
        return deep_.push_back(task(
            "matmul", {task("softmax", {task("matmul", {pick(deep_),
                                                        task("permute", {pick(deep_)}, {{"dims", Shape{0, 2, 1}}})})}),
                       pick(deep_)}));
      case 10: {
        const RandomInput::Of of[] = {RandomInput::Of::kUniform, RandomInput::Of::kNormal, RandomInput::Of::kBernoulli};
        const ValueId value = pick(same);
        const ValueId drawn = graph_.add_random_input("", graph_.type(value), {of[below(3)], 0, graph_.task_count()});
        return same.push_back(tamed(task(below(2) ? "mul" : "add", {value, drawn})));
      }
      default:
        return flat_.push_back(task("amax", {pick(deep_)}, {{"axes", Shape{1}}, {"keepdim", false}}));
    }
  }

  void finish() {
    const size_t terms = 1 + below(3);
    for (size_t i = 0; i < terms; ++i) {
      ValueId sum;
      if (i == 1) {
        sum = task("cross_entropy_sum", {pick(deep_), input("labels" + std::to_string(i), DType::kI64, {batch(), 3})});
      } else {
        sum = task("mse_sum", {pick(i == 0 ? flat_ : deep_), i == 0 ? flat_[1] : deep_[0]});
      }
      graph_.add_loss({sum});
    }
    graph_.add_output(flat_.back());
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> flat_, deep_, vectors_, squares_;
  ValueId table_, words_;
  uint32_t parameters_ = 0;
};

}  // namespace

Graph random_program(uint64_t seed, uint32_t tasks) { return Maker(seed).make(tasks); }

}  // namespace rannc::ir::testing
