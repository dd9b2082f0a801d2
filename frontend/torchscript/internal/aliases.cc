#include "frontend/torchscript/internal/aliases.h"

#include <fmt/format.h>

#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr const char* kNotProved = "it writes through a view by {}, whose effect on the other elements is unknown";

/// Returns `behind` with one range along an axis replaced by `part`.
ValueId with_places(TaskWriter& writer, ValueId behind, ValueId part, const Places& places) {
  if (!writer.good()) return {};
  const ir::Dim size = (*writer.shape(behind))[static_cast<size_t>(places.axis)];
  const auto piece = [&](const ir::Dim& from, const ir::Dim& to) {
    return writer.emit("slice", {behind},
                       {{"axes", ir::Shape{places.axis}}, {"starts", ir::Shape{from}}, {"ends", ir::Shape{to}}});
  };
  std::vector<ValueId> parts;
  if (!(places.start == ir::Dim(0))) parts.push_back(piece(0, places.start));
  parts.push_back(part);
  if (!(places.end == size)) parts.push_back(piece(places.end, size));
  if (parts.size() == 1) return part;
  return writer.emit("concat", parts, {{"axis", ir::Dim(places.axis)}});
}

Places places_of(const ir::Attributes& slice) {
  return {slice.integers("axes")[0], (*slice.list("starts"))[0], (*slice.list("ends"))[0]};
}

/// Likewise for every `steps`-th element of the range. The axis is split into groups of `steps` elements with one
/// written element each. A last group that may be incomplete is written by itself.
ValueId with_every(TaskWriter& writer, ValueId behind, ValueId part, const ir::Attributes& slice) {
  const Places places = places_of(slice);
  const auto axis = static_cast<size_t>(places.axis);
  const int64_t step = slice.integers("steps")[0];
  const ir::Shape* const own = writer.shape(part);
  if (!own || !places.start.is_constant() || places.start.constant() < 0 || step < 1)
    return writer.fail(fmt::format(kNotProved, "a slice with steps")), ValueId();
  ir::Shape one = *own, flat = *writer.shape(behind), apart = flat;
  const ir::Dim count = one[axis], size = flat[axis];
  if (count == ir::Dim(0)) return behind;
  const int64_t lead = std::min(places.start.constant(), step - 1);  // elements of a group before the written one
  const ir::Dim first = places.start.constant() - lead, past = first + count * ir::Dim(step);
  const bool is_whole = ir::never_negative(size - past);
  const ir::Dim groups = is_whole ? count : count - ir::Dim(1), end = first + groups * ir::Dim(step);
  const auto range = [&](ValueId of, const ir::Dim& from, const ir::Dim& to) {
    return writer.emit("slice", {of},
                       {{"axes", ir::Shape{places.axis}}, {"starts", ir::Shape{from}}, {"ends", ir::Shape{to}}});
  };
  apart[axis] = one[axis] = groups;
  flat[axis] = groups * ir::Dim(step);
  const auto inner = static_cast<std::ptrdiff_t>(axis) + 1;
  apart.insert(apart.begin() + inner, ir::Dim(step));
  one.insert(one.begin() + inner, ir::Dim(1));
  ValueId made = behind;
  if (!(groups == ir::Dim(0))) {
    const bool is_all = first == ir::Dim(0) && end == size;
    const ValueId before = writer.emit("reshape", {is_all ? behind : range(behind, first, end)}, {{"shape", apart}});
    const ValueId written = writer.emit("reshape", {is_whole ? part : range(part, 0, groups)}, {{"shape", one}});
    const ValueId after = with_places(writer, before, written, {places.axis + 1, lead, lead + 1});
    made = with_places(writer, made, writer.emit("reshape", {after}, {{"shape", flat}}), {places.axis, first, end});
  }
  if (is_whole) return made;
  const ir::Dim last = end + ir::Dim(lead);
  return with_places(writer, made, range(part, groups, count), {places.axis, last, last + ir::Dim(1)});
}

/// Returns the base tensor after its view is set to `part`.
ValueId written_back(TaskWriter& writer, ValueId behind, ValueId part, const View& view) {
  const ir::Shape* const shape = writer.shape(behind);
  if (!shape || !writer.good()) return {};
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
  if (view.op == "slice" && view.attributes.has("steps")) return with_every(writer, behind, part, view.attributes);
  if (view.op == "slice") return with_places(writer, behind, part, places_of(view.attributes));
  writer.fail(fmt::format(kNotProved, view.op));
  return {};
}

/// Whether two ranges are provably disjoint. No range means the whole tensor.
bool are_apart(const std::optional<Places>& a, const std::optional<Places>& b) {
  if (!a || !b || a->axis != b->axis) return false;
  return ir::never_negative(b->start - a->end) || ir::never_negative(a->start - b->end);
}

std::string may_share(const TaskWriter& writer, ValueId tensor, std::string_view written) {
  return fmt::format("'{}' may share memory with {}, which was written in the meantime: its content is undetermined",
                     writer.name(tensor), written);
}

}  // namespace

TensorRef Tensor::unsure(ValueId value, TensorRef of) {
  const TensorRef behind = of;
  auto made = std::make_shared<Tensor>(value, std::move(of), View{"identity", {}});
  made->unsure_ = true;
  made->memory_ = std::make_shared<Memory>();
  made->seen_ = 0;
  const std::shared_ptr<Memory>& memory = behind->memory_;
  made->memory_->shared = memory->shared;
  made->memory_->shared.push_back({memory, behind->places(), memory->writes, memory->unknown.size()});
  return made;
}

/// The range of its memory that it is a view of, as far as the first view of the base determines it.
std::optional<Places> Tensor::places() const {
  const Tensor* step = this;
  while (!step->is_own() && !step->of_->is_own()) step = step->of_.get();
  if (step->is_own() || step->view_->op != "slice" || step->view_->attributes.has("steps")) return std::nullopt;
  return places_of(step->view_->attributes);
}

/// The reason why the current content is unknown, if it is.
std::optional<std::string> Tensor::fault(const TaskWriter& writer) const {
  const auto own = places();
  for (const Memory::Unknown& each : memory_->unknown) {
    if (!are_apart(own, each.places)) return each.why;
  }
  for (const Memory::Shared& each : memory_->shared) {
    bool is_written = each.with->writes != each.writes;
    for (size_t i = each.unknown; i < each.with->unknown.size(); ++i)
      is_written = is_written || !are_apart(each.places, each.with->unknown[i].places);
    if (is_written) return may_share(writer, value_, "another tensor");
  }
  return std::nullopt;
}

ValueId Tensor::read(TaskWriter& writer) {
  if (const auto why = fault(writer)) {
    writer.fail(*why);
    return value_;
  }
  if (seen_ == memory_->writes || is_own()) return value_;
  const ValueId behind = of_->read(writer);
  if (!writer.good()) return value_;
  value_ = writer.emit(view_->op, {behind}, view_->attributes);
  seen_ = memory_->writes;
  return value_;
}

const std::string& Tensor::forbidden() const { return !forbidden_.empty() || !of_ ? forbidden_ : of_->forbidden(); }

bool Tensor::lose(const std::string& why) {
  memory_->unknown.push_back({std::nullopt, why});
  for (const Memory::Shared& each : memory_->shared) each.with->unknown.push_back({each.places, why});
  return forbidden().empty();
}

void Tensor::write(TaskWriter& writer, ValueId value) {
  if (!writer.good()) return;
  if (!forbidden().empty()) return writer.fail(forbidden());
  if (is_own()) {
    write_own(writer, value);
  } else {
    const ValueId behind = of_->read(writer);
    of_->write(writer, written_back(writer, behind, value, *view_));
  }
  value_ = value;
  seen_ = memory_->writes;
}

void Tensor::write_own(const TaskWriter& writer, ValueId value) {
  ++memory_->writes;
  memory_->unknown.clear();
  for (Memory::Shared& each : memory_->shared) {
    each.with->unknown.push_back({each.places, may_share(writer, of_->now(), fmt::format("'{}'", writer.name(value)))});
    each.writes = each.with->writes;
    each.unknown = each.with->unknown.size();
  }
}

}  // namespace rannc::frontend::torchscript
