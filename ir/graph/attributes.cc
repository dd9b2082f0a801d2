#include "ir/graph/attributes.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/graph/graph.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {
template <class T>
const T* typed(const Attributes& attributes, std::string_view name) {
  const Attribute* found = attributes.find(name);
  if (found == nullptr) return nullptr;
  const T* value = std::get_if<T>(found);
  RANNC_CHECK(value != nullptr) << "attribute " << name << " has another type";
  return value;
}

struct HashOf {
  size_t operator()(bool value) const { return value ? 1 : 0; }
  size_t operator()(const Dim& value) const { return value.hash(); }
  size_t operator()(double value) const { return std::isnan(value) ? 1 : std::bit_cast<uint64_t>(value); }
  size_t operator()(const std::string& value) const { return std::hash<std::string>()(value); }
  size_t operator()(DType value) const { return static_cast<size_t>(value); }
  size_t operator()(const Shape& value) const { return hash_of(value); }
  size_t operator()(const Body& value) const { return value.hash(); }
  size_t operator()(const std::vector<double>& values) const {
    size_t hash = values.size();
    for (const double value : values) hash = combine(hash, (*this)(value));
    return hash;
  }
};

bool alike(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool alike(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const double* number = std::get_if<double>(&a)) return alike(*number, std::get<double>(b));
  const auto* list = std::get_if<std::vector<double>>(&a);
  if (list == nullptr) return a == b;
  const auto& other = std::get<std::vector<double>>(b);
  return std::equal(list->begin(), list->end(), other.begin(), other.end(),
                    [](double x, double y) { return alike(x, y); });
}
}  // namespace

Body::Body(Graph graph) : graph_(std::make_shared<const Graph>(std::move(graph))) {}

bool Body::operator==(const Body& other) const { return graph_ == other.graph_ || equal(*graph_, *other.graph_); }

size_t Body::hash() const {
  size_t hash = combine(graph_->task_count(), graph_->value_count());
  for (const TaskId task : graph_->tasks()) hash = combine(hash, std::hash<std::string>()(graph_->op(task).name));
  return hash;
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

bool Attributes::operator==(const Attributes& other) const {
  return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && alike(a.second, b.second); });
}

size_t Attributes::hash() const {
  size_t hash = entries_.size();
  for (const auto& [name, value] : entries_) {
    hash = combine(hash, std::hash<std::string>()(name));
    hash = combine(hash, combine(value.index(), std::visit(HashOf{}, value)));
  }
  return hash;
}

void Attributes::set(std::string_view name, Attribute value) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.emplace(at, std::string(name), std::move(value));
  }
}

void Attributes::erase(std::string_view name) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; });
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const auto& entry, std::string_view key) { return entry.first < key; });
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

int64_t Attributes::integer(std::string_view name, int64_t otherwise) const {
  const Dim* value = typed<Dim>(*this, name);
  return value ? value->constant() : otherwise;
}

double Attributes::number(std::string_view name, double otherwise) const {
  const double* value = typed<double>(*this, name);
  return value ? *value : otherwise;
}

bool Attributes::flag(std::string_view name, bool otherwise) const {
  const bool* value = typed<bool>(*this, name);
  return value ? *value : otherwise;
}

std::string Attributes::text(std::string_view name, std::string_view otherwise) const {
  const std::string* value = typed<std::string>(*this, name);
  return value ? *value : std::string(otherwise);
}

std::optional<DType> Attributes::dtype(std::string_view name) const {
  const DType* value = typed<DType>(*this, name);
  return value ? std::optional(*value) : std::nullopt;
}

const Shape* Attributes::list(std::string_view name) const { return typed<Shape>(*this, name); }

const Body* Attributes::body(std::string_view name) const { return typed<Body>(*this, name); }

std::vector<int64_t> Attributes::integers(std::string_view name) const {
  std::vector<int64_t> values;
  if (const Shape* found = list(name)) {
    for (const Dim& dim : *found) values.push_back(dim.constant());
  }
  return values;
}

}  // namespace rannc::ir
