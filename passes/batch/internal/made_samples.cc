#include "passes/batch/internal/made_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/graph/constant.h"
#include "ir/op/fold.h"
#include "ir/op/op.h"
#include "passes/batch/internal/task_forms.h"

namespace rannc::passes {

using ir::BatchLayout;
using ir::Dim;
using ir::Graph;
using ir::Shape;
using ir::ValueType;

namespace {

constexpr int kMostSampleTasks = 256;  // one behind another

std::string text(const BatchLayout& layout) {
  return fmt::format("axis {}{}", layout.axis,
                     layout.outer == Dim(1) && layout.inner == Dim(1)
                         ? std::string()
                         : fmt::format(" ({} x samples x {})", layout.outer.str(), layout.inner.str()));
}

/// A tensor of integers as [before, samples, after].
struct Rows {
  int64_t before, samples, after;
  Rows(const Shape& shape, const BatchLayout& layout, int64_t samples)
      : before(layout.outer.constant()), samples(samples), after(layout.inner.constant()) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int32_t>(i) < layout.axis) before *= shape[i].constant();
      if (static_cast<int32_t>(i) > layout.axis) after *= shape[i].constant();
    }
  }
};

// Whether the tensor's rows are the same for all samples.
bool are_alike(const ValueType& type, const std::vector<std::byte>& bytes, const BatchLayout& layout, int64_t samples) {
  const Rows rows(*type.shape, layout, samples);
  const size_t row = static_cast<size_t>(rows.after) * ir::byte_size(type.dtype);
  if (bytes.size() != static_cast<size_t>(rows.before * rows.samples) * row) return false;
  for (int64_t b = 0; b < rows.before; ++b) {
    const std::byte* const first = bytes.data() + static_cast<size_t>(b * rows.samples) * row;
    for (int64_t n = 1; n < rows.samples; ++n) {
      if (std::memcmp(first, first + static_cast<size_t>(n) * row, row) != 0) return false;
    }
  }
  return true;
}

// Its rows of the first sample.
ir::TensorData first_of(const ValueType& type, const std::vector<std::byte>& bytes, const BatchLayout& layout,
                        int64_t samples) {
  const Rows rows(*type.shape, layout, samples);
  const auto row = static_cast<int64_t>(ir::byte_size(type.dtype)) * rows.after;
  std::vector<std::byte> kept;
  for (int64_t b = 0; b < rows.before; ++b) {
    const auto from = bytes.begin() + b * rows.samples * row;
    kept.insert(kept.end(), from, from + row);
  }
  return ir::TensorData::in_memory(std::move(kept));
}

bool is_static(const ValueType& type, const BatchLayout& layout) {
  return ir::static_count(type).has_value() && layout.outer.is_constant() && layout.inner.is_constant();
}

}  // namespace

MadeSamples::MadeSamples(const Graph& from, ir::Rewriter& rewriter, const Samples& samples,
                         const std::set<std::string>& parameters, IntegerTables& tables)
    : from_(from),
      rewriter_(rewriter),
      samples_(samples),
      parameters_(parameters),
      tables_(tables),
      random_(from.value_count()) {
  const auto of_random = [this](ValueId value) { return value.valid() && is_random(value); };
  for (const TaskId task : from.tasks()) {
    const auto inputs = from.inputs(task);
    if (std::none_of(inputs.begin(), inputs.end(), of_random)) continue;
    for (const ValueId output : from.outputs(task)) random_[output.index()] = true;
  }
}

Result<ValueId> MadeSamples::of(ValueId old, const BatchLayout& wanted) {
  const Key key{old.index(), fmt::format("{}:{}:{}", wanted.axis, wanted.outer.str(), wanted.inner.str())};
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  if (depth_ >= kMostSampleTasks) return error("the chain of tasks that depend on no input is too long");
  ++depth_;
  auto made = make(old, wanted);
  --depth_;
  made_.emplace(key, made);
  return made;
}

Result<ValueId> MadeSamples::make(ValueId old, const BatchLayout& wanted) {
  const Graph::Value value = from_.value(old);
  const ir::RandomInput* const random_input = from_.random_input(old);
  if (samples_.baked == 1 && random_input == nullptr && !random_[old.index()] && rewriter_.mapped(old)) {
    return stretched(old, wanted, {});
  }
  if (samples_.baked > 1 && is_static(value.type, wanted)) {
    if (const auto table = tables_.of(old)) return from_integers(old, wanted, *table);
  }
  if (value.producer.valid()) return from_task(old, wanted);
  if (value.kind == ir::ValueKind::kConstant) return from_stored(old, wanted);
  if (random_input != nullptr) {
    ValueType type = with_samples(value.type, wanted, samples_);
    ++random_per_sample_;
    return rewriter_.graph().add_random_input(fmt::format("{}.samples", value.name), std::move(type), *random_input);
  }
  return error(fmt::format("%{} has no samples, but needs them on {}", value.name, text(wanted)));
}

Result<ValueId> MadeSamples::add(std::string_view op, std::vector<ValueId> operands, ir::Attributes attributes,
                                 ValueId named) {
  Graph& graph = rewriter_.graph();
  const Graph::Value old = from_.value(named);
  const Location where = old.producer.valid() ? from_.location(old.producer) : Location{};
  const std::vector<std::string> names = {std::string(old.name) + ".samples"};
  const TaskId task = graph.add_task(ir::core(op), operands, std::move(attributes), names, where);
  RANNC_TRY(ir::infer_types(graph, task));
  return graph.outputs(task)[0];
}

Result<ValueId> MadeSamples::from_integers(ValueId old, const BatchLayout& wanted, const ir::StoredTensor& table) {
  RANNC_ASSIGN(const std::vector<std::byte> bytes, table.data.read());
  const bool alike = are_alike(from_.type(old), bytes, wanted, samples_.baked);
  return alike ? stretched(old, wanted, bytes) : numbered(old, wanted, table);
}

Result<ValueId> MadeSamples::from_stored(ValueId old, const BatchLayout& wanted) {
  const Graph::Value value = from_.value(old);
  const std::string what = fmt::format("%{} of {}", value.name, ir::str(*value.type.shape));
  if (!is_static(value.type, wanted)) return error(what + " has sizes that are not known");
  if (!value.data.present()) return error(what + " is not stored in the file");
  RANNC_ASSIGN(const std::vector<std::byte> bytes, value.data.read());
  if (!are_alike(value.type, bytes, wanted, samples_.baked)) {
    return error(fmt::format("{} has different numbers for each of the {} samples along {}", what, samples_.baked,
                             text(wanted)));
  }
  if (!parameters_.contains(std::string(value.name))) return stretched(old, wanted, bytes);
  return error(what + " is a parameter with a row for each sample");
}

// By `reshape` or `expand`.
Result<ValueId> MadeSamples::shaped(std::string_view op, ValueId value, Shape shape, ValueId named) {
  return add(op, {value}, {{"shape", std::move(shape)}}, named);
}

// The first sample's part, for all: of a tensor made for several, its bytes alone are kept.
Result<ValueId> MadeSamples::stretched(ValueId old, const BatchLayout& wanted, const std::vector<std::byte>& bytes) {
  const Graph::Value value = from_.value(old);
  Shape shape = *value.type.shape;
  const auto axis = static_cast<size_t>(wanted.axis);
  ValueId part;
  if (samples_.baked == 1) {
    part = rewriter_.map(old);
  } else {
    ValueType type = value.type;
    (*type.shape)[axis] = wanted.outer * wanted.inner;
    type.contents.reset();
    part = rewriter_.graph().add_value(ir::ValueKind::kConstant, value.name, type,
                                       first_of(value.type, bytes, wanted, samples_.baked));
    parts_.emplace(rewriter_.graph().value(part).name, value.name);
  }
  const bool merged = !(wanted.outer == Dim(1) && wanted.inner == Dim(1));
  if (merged) {
    shape[axis] = wanted.outer;
    shape.insert(shape.begin() + wanted.axis + 1, {Dim(1), wanted.inner});
    RANNC_ASSIGN(part, shaped("reshape", part, shape, old));
  }
  shape[axis + (merged ? 1 : 0)] = samples_.dim();
  RANNC_ASSIGN(part, shaped("expand", part, shape, old));
  return merged ? shaped("reshape", part, with_samples(*value.type.shape, wanted, samples_), old) : part;
}

// base + n * by for sample n along that axis, both of that rank.
Result<ValueId> MadeSamples::counted_on(ValueId old, size_t rank, int32_t axis, ValueId base, ValueId by) {
  const ValueType& type = from_.type(old);
  RANNC_ASSIGN(
      const ValueId range,
      add("range", {}, {{"start", Dim(0)}, {"limit", samples_.dim()}, {"delta", Dim(1)}, {"dtype", type.dtype}}, old));
  Shape column(rank, Dim(1));
  column[static_cast<size_t>(axis)] = samples_.dim();
  RANNC_ASSIGN(const ValueId numbers, shaped("reshape", range, std::move(column), old));
  RANNC_ASSIGN(const ValueId times, add("mul", {numbers, by}, {}, old));
  ++counted_;
  return add("add", {times, base}, {}, old);
}

// Row 0, and a multiple of the sample's number.
Result<ValueId> MadeSamples::numbered(ValueId old, const BatchLayout& wanted, const ir::StoredTensor& table) {
  const Graph::Value value = from_.value(old);
  const Shape& shape = *value.type.shape;
  if (!(wanted.outer == Dim(1) && wanted.inner == Dim(1))) {
    return error(
        fmt::format("%{} counts samples along {}, which is not an axis of samples alone", value.name, text(wanted)));
  }
  RANNC_ASSIGN(const std::vector<int64_t> elements,
               ir::decode_integers(table.type, table.data, ir::kMostFoldedIntegers));
  const Rows rows(shape, wanted, samples_.baked);
  const auto at = [&](int64_t b, int64_t n, int64_t r) { return elements[(b * rows.samples + n) * rows.after + r]; };
  std::vector<int64_t> first, step;
  for (int64_t b = 0; b < rows.before; ++b) {
    for (int64_t r = 0; r < rows.after; ++r) {
      first.push_back(at(b, 0, r));
      step.push_back(at(b, 1, r) - at(b, 0, r));
      for (int64_t n = 2; n < rows.samples; ++n) {
        if (at(b, n, r) - at(b, 0, r) == n * step.back()) continue;
        return error(fmt::format("%{} of {} does not grow evenly from sample to sample", value.name, ir::str(shape)));
      }
    }
  }
  std::vector<int64_t> row;
  for (const Dim& dim : shape) row.push_back(dim.constant());
  row[static_cast<size_t>(wanted.axis)] = 1;
  const auto constant = [&](const char* name, std::span<const int64_t> numbers) {
    return ir::add_constant(rewriter_.graph(), fmt::format("{}.{}", value.name, name), value.type.dtype, row, numbers);
  };
  const ValueId base = constant("first", first), by = constant("step", step);
  return counted_on(old, shape.size(), wanted.axis, base, by);
}

Result<ValueId> MadeSamples::numbered_from_one(ValueId old, const BatchLayout& wanted, int64_t component,
                                               const Dim& inner) {
  const Graph::Value value = from_.value(old);
  const Shape& shape = *value.type.shape;
  const Dim last = component < 0 ? Dim(1) : shape.back();
  if (!inner.is_constant() || !last.is_constant() || !(wanted.outer == Dim(1))) {
    return error(
        fmt::format("%{} of {} does not show which of its numbers belong to which sample", value.name, ir::str(shape)));
  }
  ValueId base = rewriter_.map(old);
  const bool merged = !(wanted.inner == Dim(1));  // the samples' axis has several numbers of each
  if (merged) {
    Shape apart = shape;
    apart[static_cast<size_t>(wanted.axis)] = rewriter_.graph().type(base).batch.has_batch() ? samples_.dim() : Dim(1);
    apart.insert(apart.begin() + wanted.axis + 1, wanted.inner);
    RANNC_ASSIGN(base, shaped("reshape", base, std::move(apart), old));
  }
  std::vector<int64_t> step(static_cast<size_t>(last.constant()), 0);
  step[static_cast<size_t>(std::max<int64_t>(component, 0))] = inner.constant();
  std::vector<int64_t> row(shape.size() + (merged ? 1 : 0), 1);
  if (component >= 0) row.back() = last.constant();
  const ValueId by =
      ir::add_constant(rewriter_.graph(), fmt::format("{}.step", value.name), value.type.dtype, row, step);
  RANNC_ASSIGN(const ValueId numbers, counted_on(old, row.size(), wanted.axis, base, by));
  return merged ? shaped("reshape", numbers, with_samples(shape, wanted, samples_), old) : numbers;
}

namespace {

/// One way to give operands of a task samples.
using Places = std::vector<std::pair<size_t, BatchLayout>>;  // operand, where

// None of them; all of those that have the axis, aligned at the right; one of them, wherever.
std::vector<Places> ways(const Graph& from, TaskId task, size_t rank, const BatchLayout& wanted,
                         const Samples& samples) {
  std::vector<Places> found = {{}};
  Places aligned;
  const auto operands = from.inputs(task);
  const Dim extent = wanted.outer * samples.baked * wanted.inner;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || !from.type(operands[i]).shape) continue;
    const Shape& shape = *from.type(operands[i]).shape;
    const int64_t axis = wanted.axis - static_cast<int64_t>(rank) + static_cast<int64_t>(shape.size());
    if (axis < 0 || !(shape[static_cast<size_t>(axis)] == extent)) continue;
    aligned.push_back({i, {static_cast<int32_t>(axis), wanted.outer, wanted.inner}});
  }
  if (!aligned.empty()) found.push_back(aligned);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || !from.type(operands[i]).shape) continue;
    for (const BatchLayout& place : possible_places(*from.type(operands[i]).shape, samples))
      found.push_back({{i, place}});
  }
  return found;
}

}  // namespace

Result<ValueId> MadeSamples::from_task(ValueId old, const BatchLayout& wanted) {
  const TaskId task = from_.producer(old);
  const auto old_operands = from_.inputs(task);
  const uint32_t result = from_.value(old).output_index;
  Graph& graph = rewriter_.graph();
  std::optional<Diagnostic> why;
  for (const Places& places : ways(from_, task, from_.type(old).shape->size(), wanted, samples_)) {
    std::vector<ValueType> given;
    given.reserve(places.size());
    std::vector<const ValueType*> types = ir::type_list(from_, old_operands);
    for (const auto& [operand, place] : places) {
      given.push_back(with_samples(from_.type(old_operands[operand]), place, samples_));
      types[operand] = &given.back();
    }
    for (TaskForm& form : task_forms(from_, task, types, &wanted, samples_)) {
      const auto made = types_of(form, types, from_, task, samples_);
      if (!made.ok() || !((*made)[result].batch == wanted)) continue;
      std::vector<ValueId> operands;
      for (size_t i = 0; i < std::min(form.operands, old_operands.size()); ++i) {
        operands.push_back(old_operands[i].valid() ? rewriter_.map(old_operands[i]) : ValueId());
      }
      bool complete = true;
      for (const auto& [operand, place] : places) {
        if (operand >= operands.size()) continue;
        const auto with = of(old_operands[operand], place);
        complete = complete && with.ok();
        if (!with.ok() && !why) why = with.diagnostic();
        if (with.ok()) operands[operand] = *with;
      }
      if (!complete) continue;
      std::vector<std::string> names;
      for (const ValueId output : from_.outputs(task))
        names.push_back(fmt::format("{}.samples", from_.value(output).name));
      const TaskId built = graph.add_task(*form.op, operands, form.attributes, names, from_.location(task));
      RANNC_TRY(ir::infer_types(graph, built));
      return graph.outputs(built)[result];
    }
  }
  if (why) return *why;
  return error(
      fmt::format("%{} of {}, which depends on no input, cannot be computed for a symbolic number of samples on {}",
                  from_.value(old).name, ir::str(*from_.type(old).shape), text(wanted)));
}

}  // namespace rannc::passes
