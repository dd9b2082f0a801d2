#include "frontend/onnx/internal/control/bag_loop.h"

#include <map>
#include <string_view>

#include "ir/dim/dim_bounds.h"

namespace rannc::frontend {

using ir::Dim;
using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr int kDeepest = 64, kMostNodes = 4096;

const AttributeProto* attribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

int64_t integer(const NodeProto& node, std::string_view name, int64_t otherwise) {
  const AttributeProto* const found = attribute(node, name);
  return found ? found->i() : otherwise;
}

bool is(const NodeProto* node, std::string_view op, int operands) {
  return node && node->op_type() == op && node->domain().empty() && node->input_size() >= operands;
}

/// A subgraph of the body with its enclosing subgraph.
struct Level {
  const GraphProto& graph;
  const Level* around = nullptr;
};

/// A name in the scope of a level.
struct Name {
  const Level* level;
  std::string text;
};

class BagBody {
 public:
  explicit BagBody(const LoopOverBags& loop) : loop_(loop), top_{loop.body, nullptr} {}

  std::optional<ReducedBags> read() {
    const GraphProto& body = loop_.body;
    const bool stacks = loop_.sequence < 0 && body.input_size() == 2 && body.output_size() == 2;
    const bool grows = loop_.sequence >= 0 && body.input_size() == 4 && body.output_size() == 3;
    if ((!stacks && !grows) || (loop_.has_condition && !holds({&top_, body.output(0).name()}))) return std::nullopt;
    Name row{&top_, body.output(grows ? 1 + loop_.sequence : 1).name()};
    if (grows) {
      const auto insert = made(row);
      if (!is(insert.node, "SequenceInsert", 2) || insert.node->input_size() > 2) return std::nullopt;
      const auto step = trip(Name{&top_, body.output(2 - loop_.sequence).name()});
      if (insert.node->input(0) != body.input(2 + loop_.sequence).name() || step != 1) return std::nullopt;
      row = {insert.level, insert.node->input(1)};
    }
    found_.in_sequence = grows;
    const bool last_alone = loop_.trips == Dim(1);
    if (!reduction(row, last_alone, grows) || !size_) return std::nullopt;
    found_.bags = {loop_.trips, *size_};
    for (const ValueId each : {found_.rows, found_.indices, found_.weights}) {
      if (each.valid() && !covers(each)) return std::nullopt;
    }
    return has_rows_of_floats() ? std::optional(found_) : std::nullopt;
  }

 private:
  size_t rank(ValueId value) const {
    const auto& shape = loop_.around_it.type(value).shape;
    return shape ? shape->size() : 0;
  }
  /// Rows of floats by indices, and weights, of one axis.
  bool has_rows_of_floats() const {
    const ValueId rows = found_.rows.valid() ? found_.rows : found_.table;
    if (found_.rows.valid() == found_.table.valid() || rank(rows) != 2) return false;
    if (!ir::is_float(loop_.around_it.type(rows).dtype)) return false;
    if (found_.table.valid() && (!found_.indices.valid() || rank(found_.indices) != 1)) return false;
    return !found_.weights.valid() || rank(found_.weights) == 1;
  }

  struct Made {
    const Level* level = nullptr;
    const NodeProto* node = nullptr;
  };

  /// Whether a condition holds in every trip.
  bool holds(const Name& name) {
    const Made found = made(name);
    return are(is(found.node, "Cast", 1) ? Name{found.level, found.node->input(0)} : name, 1);
  }

  bool covers(ValueId value) const {
    const auto& shape = loop_.around_it.type(value).shape;
    return shape && !shape->empty() && ir::certainly_equal(shape->front(), loop_.trips * *size_) == true;
  }

  /// Returns the node of the body that produces a name, looking through renaming.
  Made made(Name name) {
    for (const Level* level = name.level; level && ++nodes_ < kMostNodes;) {
      const NodeProto* maker = nullptr;
      for (const NodeProto& node : level->graph.node()) {
        if (node.output_size() > 0 && node.output(0) == name.text) maker = &node;
      }
      if (!maker) {
        level = level->around;
      } else if (maker->op_type() == "Identity" && maker->input_size() == 1) {
        name.text = maker->input(0);
      } else {
        return {level, maker};
      }
    }
    return {};
  }

  /// Returns the value outside the loop that a name refers to. Invalid if the body produces it.
  ValueId outside(Name name) {
    for (const Level* level = name.level; level;) {
      bool renamed = false;
      for (const auto& input : level->graph.input()) {
        if (input.name() == name.text) return {};
      }
      for (const TensorProto& tensor : level->graph.initializer()) {
        if (tensor.name() == name.text) return {};
      }
      for (const NodeProto& node : level->graph.node()) {
        for (const std::string& output : node.output()) {
          if (output != name.text) continue;
          if (node.op_type() != "Identity" || ++nodes_ > kMostNodes) return {};
          name.text = node.input(0);
          renamed = true;
        }
        if (renamed) break;
      }
      if (!renamed) level = level->around;
    }
    return loop_.around(name.text);
  }

  /// Returns known integers.
  std::optional<ir::Shape> integers(const Name& name) {
    for (const Level* level = name.level; level; level = level->around) {
      for (const TensorProto& tensor : level->graph.initializer()) {
        if (tensor.name() == name.text) return loop_.stored(tensor);
      }
    }
    if (const Made found = made(name); found.node) {
      const AttributeProto* const value = attribute(*found.node, "value");
      if (found.node->op_type() == "Constant") return value ? loop_.stored(value->t()) : std::nullopt;
      const bool only_changes_type = found.node->op_type() == "CastLike";
      return only_changes_type ? integers({found.level, found.node->input(0)}) : std::nullopt;
    }
    const ValueId value = outside(name);
    return value.valid() ? loop_.around_it.contents(value) : std::nullopt;
  }

  bool are(const Name& name, int64_t number) {
    const auto found = integers(name);
    return found && *found == ir::Shape{Dim(number)};
  }

  /// Whether an operand, or an attribute of older operator sets, is exactly that axis.
  bool is_axis(const Made& of, int operand, int64_t axis) {
    if (const AttributeProto* const axes = attribute(*of.node, "axes"))
      return axes->ints_size() == 1 && axes->ints(0) == axis;
    return of.node->input_size() > operand && are({of.level, of.node->input(operand)}, axis);
  }

  /// Returns the difference between an integer and the trip number.
  std::optional<int64_t> trip(const Name& name, int depth = 0) {
    if (depth > kDeepest) return std::nullopt;
    const Made found = made(name);
    const GraphProto& body = loop_.body;
    if (!found.node) {
      const int counter = loop_.sequence >= 0 ? 3 - loop_.sequence : 0;
      return name.text == body.input(0).name() || name.text == body.input(counter).name() ? std::optional<int64_t>(0)
                                                                                          : std::nullopt;
    }
    const NodeProto& node = *found.node;
    const auto operand = [&](int i) { return Name{found.level, node.input(i)}; };
    for (const char* const op : {"Reshape", "CastLike", "Unsqueeze", "Squeeze"}) {
      if (is(&node, op, 1)) return trip(operand(0), depth + 1);
    }
    if (!is(&node, "Add", 2)) return std::nullopt;
    for (const int i : {0, 1}) {
      const auto by = integers(operand(1 - i));
      const auto from = by && by->size() == 1 && by->front().is_constant() ? trip(operand(i), depth + 1) : std::nullopt;
      if (from) return *from + by->front().constant();
    }
    return std::nullopt;
  }

  /// Offsets at the trip number plus a constant.
  std::optional<Progression> offset(const Name& name, int depth = 0) {
    const Made found = made(name);
    if (!found.node || depth > kDeepest) return std::nullopt;
    const NodeProto& node = *found.node;
    const auto operand = [&](int i) { return Name{found.level, node.input(i)}; };
    if (is(&node, "Unsqueeze", 1) || is(&node, "Reshape", 1)) return offset(operand(0), depth + 1);
    std::optional<int64_t> place;
    if (is(&node, "Gather", 2) && integer(node, "axis", 0) == 0) place = trip(operand(1));
    if (is(&node, "Slice", 3) && node.input_size() <= 3) {
      place = trip(operand(1));
      if (const auto end = trip(operand(2)); !place || end != *place + 1) return std::nullopt;
    }
    if (!place || *place < 0) return std::nullopt;
    const ValueId value = outside(operand(0));
    auto all = value.valid() ? progression(loop_.around_it, value) : std::nullopt;
    if (!all || !ir::never_negative(all->count - Dim(*place) - loop_.trips)) return std::nullopt;
    if (!all->step && (*place != 0 || !(loop_.trips == Dim(1)))) return std::nullopt;
    if (all->step) all->first = all->first + Dim(*place) * *all->step;
    return all;
  }

  bool is_size(const Dim& size) {
    if (!size_ && ir::sign(size) == 1) size_ = size;
    return size_ == size;
  }
  bool is_start(const Name& name) {
    const auto found = offset(name);
    return found && found->first == Dim(0) && (!found->step || is_size(*found->step));
  }
  bool is_end(const Name& name, bool last) {
    if (const auto found = offset(name)) return is_size(found->first) && (!found->step || is_size(*found->step));
    const auto all = last ? rows_in_all(name) : std::nullopt;
    return all && size_ && ir::certainly_equal(*all, loop_.trips * *size_) == true;
  }

  /// A number of rows: a known number or the extent of a tensor.
  std::optional<Dim> rows_in_all(const Name& name) {
    if (const auto known = integers(name)) return known->size() == 1 ? std::optional(known->front()) : std::nullopt;
    const Made found = made(name);
    if (!is(found.node, "Shape", 1) || integer(*found.node, "start", 0) != 0) return std::nullopt;
    const ValueId value = outside({found.level, found.node->input(0)});
    const auto* const shape = value.valid() ? &loop_.around_it.type(value).shape : nullptr;
    const bool first = shape && *shape && (integer(*found.node, "end", 2) == 1 || (*shape)->size() == 1);
    return first ? std::optional((**shape)[0]) : std::nullopt;
  }

  /// The bag of the trip in a value outside the loop.
  ValueId bag(const Name& name, bool last) {
    const Made found = made(name);
    if (!is(found.node, "Slice", 3) || found.node->input_size() > 4) return {};
    if (found.node->input_size() == 4 && !are({found.level, found.node->input(3)}, 0)) return {};
    const auto operand = [&](int i) { return Name{found.level, found.node->input(i)}; };
    return is_start(operand(1)) && is_end(operand(2), last) ? outside(operand(0)) : ValueId();
  }

  /// The branches of an If with the one that every trip takes (`last`: that the last trip takes).
  /// kByLast: only the last trip takes the first branch.
  struct Branches {
    const GraphProto *then = nullptr, *otherwise = nullptr;
    enum class Taken { kThen, kElse, kByLast, kUnknown } taken = Taken::kUnknown;
  };
  std::optional<Branches> branches(const Made& node, bool last) {
    const AttributeProto *const then = attribute(*node.node, "then_branch"), *const otherwise =
                                                                                 attribute(*node.node, "else_branch");
    if (!then || !otherwise || then->g().output_size() != 1 || otherwise->g().output_size() != 1) return std::nullopt;
    Branches found{&then->g(), &otherwise->g(), Branches::Taken::kUnknown};
    const Made condition = made({node.level, node.node->input(0)});
    if (!condition.node || condition.node->input_size() != 2) return std::nullopt;
    const Name left{condition.level, condition.node->input(0)}, right{condition.level, condition.node->input(1)};
    if (condition.node->op_type() == "Equal") {
      if (is_start(left) && is_end(right, last)) found.taken = Branches::Taken::kElse;
      if (trip(left) == 0 && is_last(right)) found.taken = Branches::Taken::kByLast;
    } else if (condition.node->op_type() == "Greater" && last && is_last_size(left) && are(right, 0)) {
      found.taken = Branches::Taken::kThen;
    }
    return found.taken == Branches::Taken::kUnknown ? std::nullopt : std::optional(found);
  }

  bool is_last(const Name& name) {
    const auto equals = [](const std::optional<ir::Shape>& known, const Dim& number) {
      return known && known->size() == 1 && ir::certainly_equal(known->front(), number) == true;
    };
    if (equals(integers(name), loop_.trips - Dim(1))) return true;
    const Made found = made(name);
    if (!is(found.node, "Sub", 2)) return false;
    return equals(integers({found.level, found.node->input(0)}), loop_.trips) &&
           are({found.level, found.node->input(1)}, 1);
  }
  /// The number of all rows minus those before the last bag.
  bool is_last_size(const Name& name) {
    const Made found = made(name);
    if (!is(found.node, "Sub", 2)) return false;
    return is_start({found.level, found.node->input(1)}) && is_end({found.level, found.node->input(0)}, true);
  }

  /// Calls `read` for the result of an If in a trip, or for both results if only the last trip takes the first branch.
  template <class Read>
  bool of_branches(const Made& node, bool last, Read&& read) {
    const auto found = branches(node, last);
    if (!found || ++depth_ > kDeepest) return false;
    const Level then{*found->then, node.level}, otherwise{*found->otherwise, node.level};
    using Taken = Branches::Taken;
    const bool first = found->taken == Taken::kThen || found->taken == Taken::kByLast;
    const bool second = found->taken == Taken::kElse || found->taken == Taken::kByLast;
    if (second && !read(Name{&otherwise, otherwise.graph.output(0).name()}, last)) return false;
    return !first || read(Name{&then, then.graph.output(0).name()}, last || found->taken == Taken::kByLast);
  }

  bool put(ValueId& place, ValueId value) {
    if (!value.valid() || (place.valid() && place != value)) return false;
    place = value;
    return true;
  }
  bool put_reduction(const std::string& op) {
    if (found_.reduction.empty()) found_.reduction = op;
    return found_.reduction == op;
  }

  bool rows(const Name& name, bool last) {
    const Made found = made(name);
    if (!found.node || ++depth_ > kMostNodes) return false;
    const auto operand = [&](int i) { return Name{found.level, found.node->input(i)}; };
    if (is(found.node, "If", 1))
      return of_branches(found, last, [&](const Name& branch, bool at_last) { return rows(branch, at_last); });
    if (is(found.node, "Slice", 3)) return put(found_.rows, bag(name, last));
    if (is(found.node, "Gather", 2) && integer(*found.node, "axis", 0) == 0)
      return put(found_.table, outside(operand(0))) && put(found_.indices, bag(operand(1), last));
    if (!is(found.node, "Mul", 2)) return false;
    const Made scale = made(operand(1));
    if (!is(scale.node, "Unsqueeze", 1) || !is_axis(scale, 1, 1)) return false;
    return put(found_.weights, bag({scale.level, scale.node->input(0)}, last)) && rows(operand(0), last);
  }

  /// `keeps`: whether the reduced axis is kept.
  bool reduction(const Name& name, bool last, bool keeps) {
    const Made found = made(name);
    if (!found.node || ++depth_ > kMostNodes) return false;
    const NodeProto& node = *found.node;
    if (is(&node, "If", 1)) {
      return of_branches(found, last,
                         [&](const Name& branch, bool at_last) { return reduction(branch, at_last, keeps); });
    }
    if (is(&node, "Div", 2) && last) return is_mean_of_last(found, keeps);
    if (!is(&node, "ReduceSum", 1) && !is(&node, "ReduceMean", 1) && !is(&node, "ReduceMax", 1)) return false;
    return reduces_rows(found, last, keeps) && put_reduction(node.op_type());
  }
  bool reduces_rows(const Made& found, bool last, bool keeps) {
    const bool kept = integer(*found.node, "keepdims", 1) != 0;
    return kept == keeps && is_axis(found, 1, 0) && rows({found.level, found.node->input(0)}, last);
  }
  bool is_mean_of_last(const Made& div, bool keeps) {
    const Made sum = made({div.level, div.node->input(0)}), by = made({div.level, div.node->input(1)});
    if (!is(sum.node, "ReduceSum", 1) || !is(by.node, "Cast", 1)) return false;
    return is_last_size({by.level, by.node->input(0)}) && reduces_rows(sum, true, keeps) && put_reduction("ReduceMean");
  }

  const LoopOverBags& loop_;
  const Level top_;
  ReducedBags found_;
  std::optional<Dim> size_;
  int nodes_ = 0, depth_ = 0;
};

}  // namespace

std::optional<ReducedBags> reduced_bags(const LoopOverBags& loop) { return BagBody(loop).read(); }

}  // namespace rannc::frontend
