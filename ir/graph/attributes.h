/// Named attributes of a task.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::ir {

class Graph;

/// A graph that a task runs as a part of itself: a branch, or the body of a loop. It has no access to the enclosing
/// graph: it reads only what is passed to it. Immutable; copies share the graph.
class Body {
 public:
  explicit Body(Graph graph);
  const Graph& graph() const { return *graph_; }
  bool operator==(const Body& other) const;
  size_t hash() const;

 private:
  std::shared_ptr<const Graph> graph_;
};

/// The value of an attribute. Integers, symbolic or not, are `Dim`; lists of them are `Shape`.
using Attribute = std::variant<bool, Dim, double, std::string, DType, Shape, std::vector<double>, Body>;

/// A set of named attributes, sorted by name, so that equal sets compare and print equal.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> list);
  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  /// Typed look-ups: the value, or `otherwise` if absent. A value of another type fails a RANNC_CHECK, because text and
  /// frontends are checked against the operator's signature before.
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  std::string text(std::string_view name, std::string_view otherwise = "") const;
  std::optional<DType> dtype(std::string_view name) const;
  const Shape* list(std::string_view name) const;
  const Body* body(std::string_view name) const;
  /// A list of plain integers; empty if absent.
  std::vector<int64_t> integers(std::string_view name) const;

  /// Compares as printed: a NaN equals a NaN, and 0 differs from -0.
  bool operator==(const Attributes& other) const;
  size_t hash() const;

 private:
  std::vector<std::pair<std::string, Attribute>> entries_;
};

}  // namespace rannc::ir
