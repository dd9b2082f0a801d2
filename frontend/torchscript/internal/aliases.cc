#include "frontend/torchscript/internal/aliases.h"

#include <fmt/format.h>

#include <numeric>

namespace rannc::frontend::torchscript {

namespace {

/// What is behind a view once the view is `part`.
ValueId written_back(TaskWriter& writer, ValueId behind, ValueId part, const View& view) {
  const ir::Shape* const shape = writer.shape(behind);
  if (!shape) return {};
  const ir::Shape whole = *shape;
  if (view.op == "identity") return part;
  if (view.op == "reshape" || view.op == "unsqueeze" || view.op == "squeeze")
    return writer.emit("reshape", {part}, {{"shape", whole}});
  if (view.op == "permute") {
    const std::vector<int64_t> dims = view.attributes.integers("dims");
    ir::Shape back(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) back[static_cast<size_t>(dims[i])] = static_cast<int64_t>(i);
    return writer.emit("permute", {part}, {{"dims", back}});
  }
  // A slice of steps of one along one axis: what stands before it and behind it stays.
  if (view.op == "slice") {
    const auto axis = static_cast<size_t>(view.attributes.integers("axes")[0]);
    const ir::Dim start = (*view.attributes.list("starts"))[0], end = (*view.attributes.list("ends"))[0];
    const auto piece = [&](const ir::Dim& from, const ir::Dim& to) {
      return writer.emit(
          "slice", {behind},
          {{"axes", ir::Shape{static_cast<int64_t>(axis)}}, {"starts", ir::Shape{from}}, {"ends", ir::Shape{to}}});
    };
    std::vector<ValueId> parts;
    if (!(start == ir::Dim(0))) parts.push_back(piece(0, start));
    parts.push_back(part);
    if (!(end == whole[axis])) parts.push_back(piece(end, whole[axis]));
    if (parts.size() == 1) return part;
    return writer.emit("concat", parts, {{"axis", ir::Dim(static_cast<int64_t>(axis))}});
  }
  writer.fail(
      fmt::format("it writes through a view by {}, of which it cannot be proved what becomes of the rest", view.op));
  return {};
}

}  // namespace

TensorRef Tensor::unsure(ValueId value, TensorRef of) {
  auto made = std::make_shared<Tensor>(value, std::move(of), View{"identity", {}});
  made->unsure_ = true;
  return made;
}

ValueId Tensor::read(TaskWriter& writer) {
  if (seen_ == *version_ || !of_) return value_;
  const ValueId behind = of_->read(writer);
  if (!writer.good()) return value_;
  if (unsure_) {
    writer.fail(
        fmt::format("'{}' may share memory with '{}', which was written meanwhile: nothing proves which of the two "
                    "numbers is meant",
                    writer.name(value_), writer.name(behind)));
    return value_;
  }
  value_ = writer.emit(view_->op, {behind}, view_->attributes);
  seen_ = *version_;
  return value_;
}

void Tensor::write(TaskWriter& writer, ValueId value) {
  if (!writer.good()) return;
  if (!forbidden_.empty()) return writer.fail(forbidden_);
  if (of_) {
    if (unsure_) {
      writer.fail(
          fmt::format("it writes into '{}', which may share memory with another tensor: nothing proves what "
                      "becomes of that",
                      writer.name(value_)));
      return;
    }
    const ValueId behind = of_->read(writer);
    of_->write(writer, written_back(writer, behind, value, *view_));
  } else {
    ++*version_;
  }
  value_ = value;
  seen_ = *version_;
}

}  // namespace rannc::frontend::torchscript
