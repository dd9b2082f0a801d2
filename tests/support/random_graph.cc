#include "tests/support/random_graph.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ir/op/op.h"

namespace rannc::testing {

namespace {

using namespace rannc::ir;

class Builder {
 public:
  explicit Builder(const RandomGraph& options) : options_(options), random_(options.seed) {}

  Graph build() {
    graph_.set_name("random " + std::to_string(options_.seed));
    graph_.set_batch_symbol("batch");
    leaves();
    while (graph_.task_count() < std::max(options_.tasks, 1u)) {
      const uint32_t roll = below(100);
      if (roll < options_.constant_share) {
        constant_task();
      } else if (roll < options_.constant_share + options_.split_share) {
        split_task();
      } else {
        activation_task();
      }
    }
    if (activations_.size() == inputs_) activation_task();
    graph_.add_output(activations_.back());
    for (uint32_t i = 0; i < options_.outputs; ++i) {
      const bool constant = below(8) == 0 && vectors_.size() > 3;
      const ValueId output = constant ? vectors_.back() : pick(activations_);
      if (graph_.value(output).producer.valid()) graph_.add_output(output);
    }
    return std::move(graph_);
  }

 private:
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  // The last `span` or so are likelier, so that graphs are long rather than flat.
  ValueId pick(const std::vector<ValueId>& from) {
    const auto window = static_cast<uint32_t>(std::min<size_t>(from.size(), std::max(options_.span, 1u)));
    return below(16) == 0 ? from[below(static_cast<uint32_t>(from.size()))] : from[from.size() - 1 - below(window)];
  }

  static TensorData floats(size_t count, float first) {
    std::vector<std::byte> bytes(count * sizeof(float));
    for (size_t i = 0; i < count; ++i) {
      const float value = first + 0.25f * static_cast<float>(i);
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
    }
    return TensorData::in_memory(std::move(bytes));
  }

  void leaves() {
    inputs_ = 1 + below(3);
    ValueType sample{DType::kF32, Shape{Dim::symbol("batch"), 4}, {}, {}};
    sample.batch.axis = 0;
    for (uint32_t i = 0; i < inputs_; ++i) {
      const ValueId input = graph_.add_value(ValueKind::kInput, "x" + std::to_string(i), sample);
      graph_.add_input(input);
      activations_.push_back(input);
    }
    for (uint32_t i = 0; i < 3; ++i) {
      const std::string number = std::to_string(i);
      weights_.push_back(graph_.add_value(ValueKind::kParameter, "layer." + number + "/weight: \"w\"",
                                          {DType::kF32, Shape{4, 4}, {}, {}}, floats(16, 0.5f)));
      vectors_.push_back(graph_.add_value(i == 0 ? ValueKind::kConstant : ValueKind::kParameter, "bias//" + number,
                                          {DType::kF32, Shape{4}, {}, {}}, floats(4, 1.0f)));
    }
  }

  ValueId task(std::string_view op, std::vector<ValueId> operands, Attributes attributes = {}) {
    const std::string names[] = {""};
    return finish(graph_.add_task(core(op), operands, std::move(attributes), names, location()))[0];
  }

  std::span<const ValueId> finish(TaskId id) {
    infer_types(graph_, id).value();
    return graph_.outputs(id);
  }

  Location location() {
    return below(2) == 0 ? Location{} : Location{"random.onnx", 0, 0, "/n" + std::to_string(below(1000))};
  }

  void constant_task() {
    switch (below(4)) {
      case 0:
        vectors_.push_back(task("neg", {pick(vectors_)}));
        break;
      case 1:
        vectors_.push_back(task("add", {pick(vectors_), pick(vectors_)}));
        break;
      case 2:
        vectors_.push_back(task("mul", {pick(vectors_), pick(vectors_)}));
        break;
      default:
        weights_.push_back(task("permute", {pick(weights_)}, {{"dims", Shape{1, 0}}}));
        break;
    }
  }

  void split_task() {
    const std::vector<ValueId> operands = {pick(activations_)};
    const std::string names[] = {"", ""};
    const auto halves =
        finish(graph_.add_task(core("split"), operands, {{"axis", Dim(1)}, {"sizes", Shape{2, 2}}}, names));
    const std::vector<ValueId> parts(halves.begin(), halves.end());
    activations_.push_back(task("concat", {parts[below(2)], parts[below(2)]}, {{"axis", Dim(1)}}));
  }

  void activation_task() {
    const ValueId x = pick(activations_);
    switch (below(6)) {
      case 0:
        activations_.push_back(task("add", {x, pick(activations_)}));
        break;
      case 1:
        activations_.push_back(task("mul", {x, pick(vectors_)}));
        break;
      case 2:
        activations_.push_back(task("relu", {x}));
        break;
      case 3:
        activations_.push_back(task("leaky_relu", {x}, {{"alpha", 0.1 + below(3)}}));
        break;
      default:
        activations_.push_back(task("matmul", {x, pick(weights_)}));
        break;
    }
  }

  RandomGraph options_;
  std::mt19937_64 random_;
  Graph graph_;
  uint32_t inputs_ = 0;
  std::vector<ValueId> activations_, weights_, vectors_;
};

}  // namespace

ir::Graph random_graph(const RandomGraph& options) { return Builder(options).build(); }

}  // namespace rannc::testing
