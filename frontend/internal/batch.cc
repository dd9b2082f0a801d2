#include "frontend/internal/batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "frontend/symbols.h"

namespace rannc::frontend {

std::string symbol_name(std::string_view text) {
  std::string name;
  for (const char c : text)
    name.push_back(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_');
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '.') name.insert(0, "_");
  return name;
}

namespace {

/// Returns the symbol that `symbol` is finally read as.
std::string read_as(const std::map<std::string, std::string>& same, std::string symbol) {
  for (size_t steps = 0; steps < same.size(); ++steps) {  // bounded, for cycles
    const auto other = same.find(symbol);
    if (other == same.end() || other->second == symbol) break;
    symbol = other->second;
  }
  return symbol;
}

}  // namespace

void unite_symbols(std::map<std::string, std::string>& same, const std::string& a, const std::string& b) {
  const std::string first = read_as(same, a), second = read_as(same, b);
  if (first == second) return;
  // If `a` is already read as another symbol, the new one is read as that symbol too.
  if (first == a) {
    same[first] = second;
  } else {
    same[second] = first;
  }
}

namespace {

void substitute(ir::ValueType& type, std::string_view symbol, const ir::Dim& by) {
  if (!type.shape) return;
  for (ir::Dim& dim : *type.shape) {
    if (dim.uses(symbol)) dim = dim.substitute(symbol, by);
  }
}

/// Returns the only input symbol with `batch` in its name, on whichever axis. Empty if there are several or none.
std::string named_batch(const std::vector<ir::ValueType>& types) {
  std::set<std::string> named;
  for (const ir::ValueType& type : types) {
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      if (!dim.is_symbol()) continue;
      std::string name = dim.symbol_name();
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      if (name.find("batch") != std::string::npos) named.insert(dim.symbol_name());
    }
  }
  return named.size() == 1 ? *named.begin() : std::string();
}

Result<std::string> choose_batch(const std::vector<ir::ValueType>& types, const ImportOptions& options,
                                 const std::string& file) {
  if (!options.batch_symbol) {
    if (const std::string named = named_batch(types); !named.empty()) return named;
    for (const ir::ValueType& type : types) {
      if (type.shape && !type.shape->empty() && type.shape->front().is_symbol()) {
        return type.shape->front().symbol_name();
      }
    }
    return std::string();
  }
  for (const ir::ValueType& type : types) {
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
      if (dim.is_symbol() && dim.symbol_name() == *options.batch_symbol) return *options.batch_symbol;
    }
  }
  return error(Location{file}, fmt::format("no input has a dimension named '{}'", *options.batch_symbol));
}

/// Returns other names of the batch symbol: symbols on axis 0 of inputs of rank 2 or more that occur on no other axis
/// of any input, nor on an input that has the batch symbol elsewhere.
std::set<std::string> other_batches(const std::vector<ir::ValueType>& types, const std::string& batch) {
  std::set<std::string> leading, elsewhere;
  for (const ir::ValueType& type : types) {
    if (!type.shape) continue;
    const auto has_batch = [&](const ir::Dim& dim) { return dim.uses(batch); };
    const bool named = std::any_of(type.shape->begin(), type.shape->end(), has_batch);
    for (size_t axis = 0; axis < type.shape->size(); ++axis) {
      const ir::Dim& dim = (*type.shape)[axis];
      if (!named && axis == 0 && dim.is_symbol() && type.shape->size() > 1) {
        leading.insert(dim.symbol_name());
      } else {
        dim.collect_symbols(elsewhere);
      }
    }
  }
  std::set<std::string> others;
  for (const std::string& name : leading) {
    if (name != batch && !elsewhere.contains(name)) others.insert(name);
  }
  return others;
}

void set_layout(ir::ValueType& type, const std::string& batch) {
  for (size_t axis = 0; type.shape && axis < type.shape->size(); ++axis) {
    if ((*type.shape)[axis] == ir::Dim::symbol(batch)) {
      type.batch.axis = static_cast<int32_t>(axis);
      return;
    }
  }
}

}  // namespace

namespace {

/// Replaces the symbols of `ImportOptions::sizes`. `batches`: all names of the symbol that counts samples.
Result<void> fix_sizes(std::vector<ir::ValueType>& types, const ImportOptions& options,
                       const std::set<std::string>& batches, const std::string& file) {
  std::set<std::string> symbols;
  for (const ir::ValueType& type : types) {
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) dim.collect_symbols(symbols);
  }
  std::map<std::string, ir::Dim> sizes;
  for (const auto& [name, given] : options.sizes) {
    const std::string symbol = symbol_name(read_as(options.same_symbol, name));
    ir::Dim size = given;
    for (const auto& [from, to] : options.same_symbol) {
      size = size.substitute(symbol_name(from), ir::Dim::symbol(symbol_name(read_as(options.same_symbol, to))));
    }
    const auto refused = [&](const std::string& why) {
      return error(Location{file}, fmt::format("--size {}={}: {}", name, size.str(), why));
    };
    if (batches.contains(symbol)) {
      return refused(
          fmt::format("'{}' counts samples, whose number --mini-batch specifies; if another dimension "
                      "counts them, specify it with --batch-symbol",
                      symbol));
    }
    if (!symbols.contains(symbol)) {
      return refused(fmt::format("no input has a dimension named '{}'; the dimensions are {}", name,
                                 symbols.empty() ? "numbers" : fmt::format("{}", fmt::join(symbols, ", "))));
    }
    const auto [known, fresh] = sizes.emplace(symbol, size);
    if (!fresh && !(known->second == size))
      return refused(fmt::format("'{}' is {} by another --size", symbol, known->second.str()));
    for (const std::string& batch : batches) {
      if (size.uses(batch)) return refused(fmt::format("'{}' counts samples, which vary", batch));
    }
  }
  for (const auto& [symbol, size] : sizes) {
    for (const auto& [other, by] : sizes) {
      if (!size.uses(other)) continue;
      return error(Location{file}, fmt::format("--size {}={}: '{}' is itself replaced by {}; use another name", symbol,
                                               size.str(), other, by.str()));
    }
    for (ir::ValueType& type : types) substitute(type, symbol, size);
  }
  return {};
}

}  // namespace

Result<std::string> settle_batch(std::vector<ir::ValueType>& types, const ImportOptions& options,
                                 const std::string& file) {
  for (const auto& [from, to] : options.same_symbol) {
    const std::string last = symbol_name(read_as(options.same_symbol, to));
    for (ir::ValueType& type : types) substitute(type, symbol_name(from), ir::Dim::symbol(last));
  }
  RANNC_ASSIGN(std::string batch, choose_batch(types, options, file));
  std::set<std::string> batches;
  if (!batch.empty()) {
    batches = other_batches(types, batch);
    batches.insert(batch);
  }
  RANNC_TRY(fix_sizes(types, options, batches, file));
  if (batch.empty()) return batch;
  const bool whole = options.batching.kind == BatchKind::kWhole;
  const auto& samples = options.batching.samples;
  if (whole && !samples) return std::string();
  const ir::Dim count = whole ? ir::Dim(int64_t{*samples}) : ir::Dim::symbol(batch);
  for (const std::string& name : batches) {
    if (!whole && name == batch) continue;
    for (ir::ValueType& type : types) substitute(type, name, count);
  }
  if (whole) return std::string();
  for (ir::ValueType& type : types) set_layout(type, batch);
  return batch;
}

std::string symbol_of_whole(const ir::Graph& graph, const ImportOptions& options) {
  std::vector<ir::ValueType> types;
  for (const ValueId input : graph.inputs()) types.push_back(graph.type(input));
  const auto chosen = choose_batch(types, options, {});
  return chosen.ok() ? *chosen : std::string();
}

}  // namespace rannc::frontend
