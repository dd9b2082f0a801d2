#include "frontend/onnx/internal/sizes.h"

#include <cmath>
#include <vector>

#include "ir/dim_bounds.h"
#include "ir/match.h"
#include "ir/op.h"

namespace rannc::frontend {

namespace {

constexpr double kLargest = 1 << 20;

/// One element: a size over an integer.
struct Quotient {
  ir::Dim above;
  int64_t below = 1;
};

/// Reads values back to sizes; nothing once an element does not follow from them.
class Reader {
 public:
  explicit Reader(const ir::Graph& graph) : graph_(graph) {}

  std::optional<std::vector<Quotient>> read(ValueId value) {
    constexpr int kMostTasks = 256;
    if (!value.valid() || ++visited_ > kMostTasks) return std::nullopt;
    const ir::ValueType& type = graph_.type(value);
    if (!type.shape || type.shape->size() > 1) return std::nullopt;
    if (type.contents) {
      std::vector<Quotient> known;
      for (const ir::Dim& element : *type.contents) known.push_back({element});
      return known;
    }
    const TaskId task = graph_.producer(value);
    return task.valid() ? made_by(task, ir::is_integer(type.dtype)) : std::nullopt;
  }

 private:
  std::optional<std::vector<Quotient>> made_by(TaskId task, bool whole) {
    static const ir::Ops kPasses = {"identity", "reshape", "unsqueeze", "squeeze"}, kCast = "cast", kFloor = "floor",
                         kScales = {"mul", "div"}, kConcat = "concat";
    const ir::OpInfo& op = graph_.op(task);
    const auto operands = graph_.inputs(task);
    if (kConcat.contains(op)) return joined(operands);
    if (kScales.contains(op)) return whole ? std::nullopt : scaled(operands, op);
    const bool rounds = kFloor.contains(op) || (kCast.contains(op) && whole);
    if (!rounds && !kCast.contains(op) && !kPasses.contains(op)) return std::nullopt;
    auto elements = read(operands[0]);
    for (size_t i = 0; elements && rounds && i < elements->size(); ++i) {
      Quotient& element = (*elements)[i];
      if (!never_negative(element.above)) return std::nullopt;  // a cast rounds towards zero
      element = {floor_div(element.above, ir::Dim(element.below))};
    }
    return elements;
  }

  std::optional<std::vector<Quotient>> joined(std::span<const ValueId> operands) {
    constexpr size_t kMost = 64;
    std::vector<Quotient> all;
    for (const ValueId operand : operands) {
      const auto part = read(operand);
      if (!part || all.size() + part->size() > kMost) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }

  /// A product or quotient with a constant, once: what is not rounded in between keeps its parts small.
  std::optional<std::vector<Quotient>> scaled(std::span<const ValueId> operands, const ir::OpInfo& op) {
    static const ir::Ops kMul = "mul";
    auto factor = ir::scalar_constant(graph_, operands[1]);
    const bool turned = !factor && kMul.contains(op);
    if (turned) factor = ir::scalar_constant(graph_, operands[0]);
    if (!factor || !(*factor * kLargest >= 1 && *factor <= kLargest)) return std::nullopt;
    auto elements = read(operands[turned ? 1 : 0]);
    Fraction by = simplest_fraction(*factor);
    if (!kMul.contains(op)) std::swap(by.above, by.below);
    for (size_t i = 0; elements && i < elements->size(); ++i) {
      Quotient& element = (*elements)[i];
      if (element.below != 1 || by.above == 0) return std::nullopt;
      element = {element.above * ir::Dim(by.above), by.below};
    }
    return elements;
  }

  const ir::Graph& graph_;
  int visited_ = 0;
};

}  // namespace

Fraction simplest_fraction(double number) {
  constexpr int64_t kMost = 1024;
  for (int64_t below = 1; below <= kMost; ++below) {
    const Fraction fraction{static_cast<int64_t>(std::rint(number * static_cast<double>(below))), below};
    if (static_cast<float>(fraction.value()) == static_cast<float>(number)) return fraction;
  }
  constexpr int kBits = 24;
  return {static_cast<int64_t>(std::rint(std::ldexp(number, kBits))), int64_t{1} << kBits};
}

std::optional<ir::Contents> sizes_through_floats(const ir::Graph& graph, ValueId value) {
  const auto elements = Reader(graph).read(value);
  if (!elements) return std::nullopt;
  ir::Contents contents;
  for (const Quotient& element : *elements) {
    if (element.below != 1) return std::nullopt;
    contents.push_back(element.above);
  }
  return contents;
}

}  // namespace rannc::frontend
