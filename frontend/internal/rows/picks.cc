#include "frontend/internal/rows/picks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontend/internal/rows/picked_rows.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;
using ir::Shape;

Dim Pick::counted(const Dim& size, const Dim& rows) const {
  Dim made = size.substitute(symbols[0], rows);
  for (size_t i = 1; i < symbols.size(); ++i) made = made.substitute(symbols[i], 0);
  return made;
}

Dim Pick::count(const Axes& axes) const {
  Dim product = 1;
  for (const size_t axis : axes) product = product * shape[axis];
  return product;
}

Shape Pick::shape_on(const Shape& shape, const Axes& axes) const {
  Shape made;
  for (const Dim& size : shape) made.push_back(counted(size, count(axes)));
  return made;
}

Axes Pick::united(const Axes& a, const Axes& b) const {
  Axes all;
  for (const size_t axis : order) {
    if (std::count(a.begin(), a.end(), axis) + std::count(b.begin(), b.end(), axis) > 0) all.push_back(axis);
  }
  return all;
}

bool Pick::has_samples(const Axes& axes) const {
  return samples < 0 || std::count(axes.begin(), axes.end(), static_cast<size_t>(samples)) > 0;
}

Picks::Picks(const ir::Graph& graph) : graph_(graph) {
  for (const TaskId task : graph.tasks()) {
    if (lists_places(graph, task)) add(task);
    if (sorts_places(graph, task)) add_sorted(task);
  }
}

void Picks::add(TaskId task) {
  const std::string symbol = graph_.attributes(task).text("symbol");
  if (!by_symbols_.try_emplace({symbol}, picks_.size()).second) return;
  const ValueId mask = graph_.inputs(task)[1];
  add(Pick{{symbol}, mask, *graph_.type(mask).shape, graph_.type(mask).batch.axis, {}, task});
}

void Picks::add_sorted(TaskId task) {
  const ir::ValueType& classes = graph_.type(graph_.inputs(task)[0]);
  std::vector<std::string> ordered;
  for (const ValueId places : graph_.inputs(task).subspan(1))
    ordered.push_back(graph_.attributes(graph_.producer(places)).text("symbol"));
  if (!by_symbols_.try_emplace({ordered.begin(), ordered.end()}, picks_.size()).second) return;
  add(Pick{ordered, {}, *classes.shape, classes.batch.axis, {}, task});
}

void Picks::add(Pick pick) {
  pick.order.resize(pick.shape.size());
  std::iota(pick.order.begin(), pick.order.end(), 0);
  if (pick.samples > 0)
    std::rotate(pick.order.begin(), pick.order.begin() + pick.samples, pick.order.begin() + pick.samples + 1);
  picks_.push_back(std::move(pick));
}

size_t Picks::of(const Dim& counted) const {
  std::set<std::string> symbols;
  counted.collect_symbols(symbols);
  std::erase_if(symbols, [](const std::string& each) { return !is_picked(Dim::symbol(each)); });
  if (const auto found = by_symbols_.find(symbols); found != by_symbols_.end()) return found->second;
  return by_symbols_.at({*symbols.begin()});
}

std::optional<size_t> Picks::in(ValueId value) const {
  const ir::ValueType& type = graph_.type(value);
  for (const auto& sizes : {type.shape, type.contents}) {
    if (!sizes) continue;
    for (const Dim& size : *sizes) {
      if (is_picked(size)) return of(size);
    }
  }
  return std::nullopt;
}

bool Picks::has_rows(ValueId value) const {
  const auto& shape = graph_.type(value).shape;
  return shape && std::any_of(shape->begin(), shape->end(), [](const Dim& size) { return is_picked(size); });
}

Diagnostic Picks::fault(const Location& where, const std::string& what, size_t pick, const std::string& why) const {
  Diagnostic found =
      error(where, fmt::format("{} {}: only rows that are computed one by one and written back by the same mask can be "
                               "computed for a batch of any size",
                               where.node.empty() ? "the value" : "'" + where.node + "'", what));
  if (!why.empty()) found.notes.push_back({where, why});
  found.notes.push_back({graph_.location(picks_[pick].places), "the mask picks the rows here"});
  return found;
}

}  // namespace rannc::frontend
