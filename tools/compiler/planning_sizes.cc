#include "tools/compiler/planning_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string_view>

#include "ir/dim/affine.h"
#include "ir/graph/assumptions.h"
#include "ir/match/match.h"
#include "ir/op/interval.h"
#include "ir/op/op.h"

namespace rannc::tools {

namespace {

using ir::Bindings;

// --- preferred sizes

enum class Axis : uint8_t { kSequence, kImage, kOther };

bool contains_any(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](auto word) { return text.find(word) != std::string::npos; });
}

Axis axis_of_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "h" || name == "w" || contains_any(name, {"height", "width", "image"})) return Axis::kImage;
  if (contains_any(name, {"seq", "len", "time", "token", "frame", "step", "pos"})) return Axis::kSequence;
  return Axis::kOther;
}

Axis axis_of_type(const ir::ValueType& type) {
  const size_t rank = type.shape->size();
  const bool pixels = ir::is_float(type.dtype) || type.dtype == ir::DType::kU8;
  if (rank >= 4 && pixels) return Axis::kImage;
  if (rank == 3 || (rank == 2 && !ir::is_float(type.dtype))) return Axis::kSequence;
  return Axis::kOther;
}

int64_t extent(Axis axis, const PreferredSizes& preferred) {
  return axis == Axis::kImage ? preferred.image : axis == Axis::kSequence ? preferred.sequence : preferred.other;
}

/// Preferred sizes of all symbols of inputs, except the batch symbol.
Bindings preferred_sizes(const ir::Graph& graph, const PreferredSizes& preferred) {
  Bindings sizes;
  for (const ValueId input : graph.inputs()) {
    const ir::ValueType& type = graph.type(input);
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      std::set<std::string> symbols;
      dim.collect_symbols(symbols);
      symbols.erase(graph.batch_symbol());
      for (const std::string& symbol : symbols) {
        const Axis named = axis_of_name(symbol);
        const int64_t wanted = extent(named == Axis::kOther ? axis_of_type(type) : named, preferred);
        const auto form = ir::affine(dim);
        sizes.emplace(symbol, form ? std::max<int64_t>(1, (wanted - form->offset) / form->scale) : wanted);
      }
    }
  }
  return sizes;
}

// --- conditions

struct Condition {
  std::set<std::string> symbols;
  std::function<Result<void>(const Bindings&)> check;
};

std::set<std::string> symbols_of(const ir::Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  return symbols;
}

class Conditions {
 public:
  /// `sizes`: all symbols except the batch symbol.
  Conditions(const ir::Graph& graph, const Bindings& sizes) : graph_(graph), batch_(graph.batch_symbol()) {
    for (const ir::Assumption& assumption : graph.assumptions()) add(assumption);
    std::set<std::string> seen;
    for (const ValueId value : graph.values()) {
      for (const ir::Dim& dim : graph.type(value).shape.value_or(ir::Shape{})) {
        if (!dim.is_constant() && !dim.is_symbol() && seen.insert(dim.str()).second) add(dim, value, sizes);
      }
    }
    static const ir::Ops kLooksUp = {"gather", "gather_elements"};
    ir::Intervals intervals(graph);
    for (const TaskId task : graph.tasks()) {
      if (kLooksUp.contains(graph.op(task))) add_rows(task, intervals, sizes);
    }
  }
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  /// Returns the number of conditions that fail, or `limit` if there are at least as many.
  size_t failing(const Bindings& sizes, size_t limit) const {
    size_t count = 0;
    for (auto at = all_.begin(); at != all_.end() && count < limit; ++at) count += !at->check(sizes).ok();
    return count;
  }
  /// Returns the first that fails, or null.
  const Condition* first_failing(const Bindings& sizes) const {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Condition& each) { return !each.check(sizes).ok(); });
    return found == all_.end() ? nullptr : &*found;
  }
  size_t size() const { return all_.size(); }

 private:
  Bindings with_batch(Bindings sizes) const {
    if (!batch_.empty()) sizes.emplace(batch_, 1);
    return sizes;
  }

  void add(const ir::Assumption& assumption) {
    std::set<std::string> symbols = symbols_of(assumption.left);
    symbols.merge(symbols_of(assumption.right));
    all_.push_back(
        {std::move(symbols), [assumption](const Bindings& sizes) { return ir::check_assumption(assumption, sizes); }});
  }

  /// Indices that follow from sizes are rows of their table.
  void add_rows(TaskId task, ir::Intervals& intervals, const Bindings& sizes) {
    const auto range = intervals.of(graph_.inputs(task)[1]);
    const auto& shape = graph_.type(graph_.inputs(task)[0]).shape;
    if (!range || !(range->factor == ir::Dim(0)) || !shape) return;
    const int64_t axis = ir::OpAttributes(graph_.op(task), graph_.attributes(task)).integer("axis");
    const ir::Dim rows = shape->at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape->size()) : axis));
    std::set<std::string> symbols = symbols_of(range->high);
    symbols.merge(symbols_of(rows));
    symbols.erase(batch_);
    const auto known = [&](const std::string& symbol) { return sizes.contains(symbol); };
    if (symbols.empty() || !std::all_of(symbols.begin(), symbols.end(), known)) return;
    const auto check = [this, task, rows, high = range->high](const Bindings& tried) -> Result<void> {
      const auto last = high.evaluate(with_batch(tried)), count = rows.evaluate(with_batch(tried));
      if (!last || !count || *last < *count) return {};
      return error(graph_.location(task),
                   fmt::format("looks up row {}, which is {}, of {} rows", high.str(), *last, *count));
    };
    all_.push_back({std::move(symbols), check});
  }

  /// Least valid extent: 0 if the expression may be 0 for large sizes, as pads up to a multiple are, else 1.
  int64_t least(const ir::Dim& dim, const Bindings& sizes) const {
    Bindings large = with_batch(sizes);
    for (const int64_t probe : {4095, 4096, 4100, 65536}) {
      for (const auto& [symbol, size] : sizes) large[symbol] = probe;
      if (dim.evaluate(large).value_or(0) < 1) return 0;
    }
    return 1;
  }

  void add(const ir::Dim& dim, ValueId value, const Bindings& sizes) {
    std::set<std::string> symbols = symbols_of(dim);
    symbols.erase(batch_);
    const auto known = [&](const std::string& symbol) { return sizes.contains(symbol); };
    if (symbols.empty() || !std::all_of(symbols.begin(), symbols.end(), known)) return;
    const auto check = [this, dim, value, symbols, low = least(dim, sizes)](const Bindings& tried) -> Result<void> {
      const auto extent = dim.evaluate(with_batch(tried));
      if (extent && *extent >= low) return {};
      std::string text;
      for (const std::string& symbol : symbols) text += fmt::format(", {} = {}", symbol, tried.find(symbol)->second);
      return error(fmt::format("an axis of '{}' has {} elements, which is {}{}", graph_.value(value).name, dim.str(),
                               extent ? std::to_string(*extent) : "no size", text));
    };
    all_.push_back({std::move(symbols), check});
  }

  const ir::Graph& graph_;
  const std::string batch_;
  std::vector<Condition> all_;
};

// --- search

/// Sizes to try, in order of preference: the preferred one, smaller ones, larger ones.
std::vector<int64_t> candidates(int64_t preferred) {
  constexpr int64_t kDense = 1024, kMost = int64_t{1} << 24;
  std::vector<int64_t> sizes;
  for (int64_t size = preferred; size >= 1; --size) sizes.push_back(size);
  int64_t size = preferred + 1;
  for (; size <= preferred + kDense; ++size) sizes.push_back(size);
  for (int64_t power = 1; power <= kMost; power *= 2) {
    if (power >= size) sizes.push_back(power);
  }
  return sizes;
}

class Search {
 public:
  Search(const Conditions& conditions, Bindings preferred, Bindings sizes)
      : conditions_(conditions), preferred_(std::move(preferred)), sizes_(std::move(sizes)) {}

  Result<Bindings> run() {
    size_t failing = conditions_.failing(sizes_, conditions_.size());
    while (const Condition* const fails = conditions_.first_failing(sizes_)) {
      const size_t before = failing;
      failing = improved(*fails, failing);
      if (failing == before) return fails->check(sizes_).diagnostic();
    }
    return sizes_;
  }

 private:
  std::vector<std::string> free_symbols(const Condition& condition) const {
    std::vector<std::string> symbols;
    for (const std::string& symbol : condition.symbols) {
      if (preferred_.contains(symbol)) symbols.push_back(symbol);
    }
    return symbols;
  }

  /// Changes sizes of a condition that fails, so that fewer conditions fail. Returns their number.
  size_t improved(const Condition& condition, size_t failing) {
    const std::vector<std::string> symbols = free_symbols(condition);
    for (const std::string& symbol : symbols) {
      if (const size_t fewer = moved(symbol, failing); fewer < failing) return fewer;
    }
    for (const std::string& first : symbols) {
      for (const std::string& second : symbols) {
        if (first == second) continue;
        const int64_t before = sizes_[first];
        for (const int64_t size : nearest(first)) {
          sizes_[first] = size;
          if (const size_t fewer = moved(second, failing); fewer < failing) return fewer;
        }
        sizes_[first] = before;
      }
    }
    return failing;
  }

  std::vector<int64_t> nearest(const std::string& symbol) const {
    constexpr size_t kMost = 256;
    std::vector<int64_t> sizes = candidates(preferred_.at(symbol));
    if (sizes.size() > kMost) sizes.resize(kMost);
    return sizes;
  }

  /// Gives one symbol the size for which fewest conditions fail, if they are fewer than `failing`.
  size_t moved(const std::string& symbol, size_t failing) {
    const int64_t before = sizes_[symbol];
    int64_t best = before;
    for (const int64_t size : candidates(preferred_.at(symbol))) {
      sizes_[symbol] = size;
      const size_t now = conditions_.failing(sizes_, failing);
      if (now >= failing) continue;
      failing = now;
      best = size;
      if (failing == 0) break;
    }
    sizes_[symbol] = best;
    return failing;
  }

  const Conditions& conditions_;
  const Bindings preferred_;  ///< of the symbols to choose
  Bindings sizes_;
};

}  // namespace

Result<PlanningSizes> planning_sizes(const ir::Graph& graph, const Bindings& given, const PreferredSizes& preferred) {
  PlanningSizes found{given, {}};
  Bindings free = preferred_sizes(graph, preferred);
  std::erase_if(free, [&](const auto& entry) { return given.contains(entry.first); });
  for (const auto& [symbol, size] : free) {
    found.guessed.push_back(symbol);
    found.sizes.emplace(symbol, size);
  }
  if (free.empty()) return found;
  const Conditions conditions(graph, found.sizes);
  auto sizes = Search(conditions, free, found.sizes).run();
  if (!sizes.ok()) {
    return Diagnostic(sizes.diagnostic())
        .note(fmt::format("no sizes for planning were found: specify them with --assume {}=N",
                          fmt::join(found.guessed, "=N --assume ")));
  }
  found.sizes = *std::move(sizes);
  return found;
}

std::string describe_guess(const PlanningSizes& sizes) {
  if (sizes.guessed.empty()) return "";
  std::string text, flags;
  for (const std::string& symbol : sizes.guessed) {
    const int64_t size = sizes.sizes.find(symbol)->second;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", symbol, size);
    flags += fmt::format(" --assume {}={}", symbol, size);
  }
  return fmt::format(
      "time and memory are planned for guessed sizes, {}; choose others with{}, or fix a size for good with --size "
      "{}=N",
      text, flags, sizes.guessed.front());
}

}  // namespace rannc::tools
