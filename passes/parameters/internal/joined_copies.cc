#include "passes/parameters/internal/joined_copies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using Shape = std::vector<size_t>;

constexpr size_t kFewestNumbers = 8;
constexpr size_t kKeyElements = 8;  // by which the place of a part is found

/// Elements as the file has them: equal parts have equal bytes.
struct Stored {
  Shape shape;
  size_t width = 0;  ///< of an element
  std::vector<std::byte> bytes;

  std::string_view elements(size_t first, size_t count) const {
    return {reinterpret_cast<const char*>(bytes.data()) + first * width, count * width};
  }
};

std::optional<Shape> shape_of(const Graph& graph, ValueId value) {
  const Graph::Value& found = graph.value(value);
  if (!ir::static_count(found.type) || !found.data.present()) return std::nullopt;
  Shape shape;
  for (const ir::Dim& dim : *found.type.shape) shape.push_back(static_cast<size_t>(dim.constant()));
  return shape;
}

/// The axis along which a part of that shape can lie in a larger whole.
std::optional<size_t> axis_of(const Shape& whole, const Shape& part) {
  if (whole.size() != part.size()) return std::nullopt;
  std::optional<size_t> axis;
  for (size_t a = 0; a < whole.size(); ++a) {
    if (whole[a] == part[a]) continue;
    if (axis || part[a] > whole[a]) return std::nullopt;
    axis = a;
  }
  return axis;
}

size_t product(Shape::const_iterator first, Shape::const_iterator last) {
  size_t product = 1;
  for (; first != last; ++first) product *= *first;
  return product;
}

Stored transposed(const Stored& matrix) {
  const size_t rows = matrix.shape[0], columns = matrix.shape[1], width = matrix.width;
  Stored other{{columns, rows}, width, std::vector<std::byte>(matrix.bytes.size())};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      std::copy_n(matrix.bytes.begin() + static_cast<ptrdiff_t>((r * columns + c) * width), width,
                  other.bytes.begin() + static_cast<ptrdiff_t>((c * rows + r) * width));
    }
  }
  return other;
}

bool has_enough_numbers(const Stored& stored) {
  std::set<std::string_view> different;
  const size_t count = stored.bytes.size() / stored.width;
  for (size_t i = 0; i < count && different.size() < kFewestNumbers; ++i) different.insert(stored.elements(i, 1));
  return different.size() >= kFewestNumbers;
}

/// Calls `visit` with the element at which a part begins for each place along the axis.
template <class Visit>
void each_place(const Shape& whole, const Shape& part, size_t axis, Visit&& visit) {
  const size_t inner = product(whole.begin() + static_cast<ptrdiff_t>(axis) + 1, whole.end());
  for (size_t place = 0; place + part[axis] <= whole[axis]; ++place) visit(place * inner);
}

bool lies_at(const Stored& whole, const Stored& part, size_t axis, size_t first) {
  const size_t outer = product(whole.shape.begin(), whole.shape.begin() + static_cast<ptrdiff_t>(axis));
  const size_t row = whole.bytes.size() / whole.width / outer, own = part.bytes.size() / part.width / outer;
  for (size_t o = 0; o < outer; ++o) {
    if (whole.elements(o * row + first, own) != part.elements(o * own, own)) return false;
  }
  return true;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {
    for (const ValueId value : graph.values()) {
      if (graph.kind(value) != ir::ValueKind::kParameter) continue;
      const auto shape = shape_of(graph, value);
      if (!shape || shape->empty()) continue;
      (ir::is_folded(graph.value(value).name) ? wholes_ : parts_)[{graph.type(value).dtype, *shape}].push_back(value);
    }
  }

  std::vector<JoinedCopy> find() {
    for (const auto& [of, values] : wholes_) {
      for (const auto& [part, unused] : parts_) {
        if (part.first != of.first) continue;
        if (const auto axis = axis_of(of.second, part.second)) search(values, part, *axis, false);
        if (part.second.size() != 2) continue;
        const Shape swapped{part.second[1], part.second[0]};
        if (const auto axis = axis_of(of.second, swapped)) search(values, part, *axis, true);
      }
    }
    return std::move(found_);
  }

 private:
  using Kind = std::pair<ir::DType, Shape>;
  using Keys = std::multimap<std::string, ValueId>;

  void search(const std::vector<ValueId>& wholes, const Kind& kind, size_t axis, bool swapped) {
    const Keys& keys = keys_of(kind, axis, swapped);
    const Shape shape = swapped ? Shape{kind.second[1], kind.second[0]} : kind.second;
    for (const ValueId value : wholes) {
      const std::optional<Stored> whole = read(value, false);
      if (!whole) continue;
      each_place(whole->shape, shape, axis, [&](size_t first) {
        const auto [begin, end] = keys.equal_range(std::string(whole->elements(first, key_size(shape, axis))));
        for (auto found = begin; found != end; ++found) {
          const std::optional<Stored> part = read(found->second, swapped);
          if (!part || !has_enough_numbers(*part) || !lies_at(*whole, *part, axis, first)) continue;
          found_.push_back(
              {std::string(graph_.value(value).name), std::string(graph_.value(found->second).name), swapped});
        }
      });
    }
  }

  static size_t key_size(const Shape& part, size_t axis) {
    return std::min(kKeyElements, product(part.begin() + static_cast<ptrdiff_t>(axis), part.end()));
  }

  /// Parts by their first elements.
  const Keys& keys_of(const Kind& kind, size_t axis, bool swapped) {
    const auto [known, fresh] = keys_.try_emplace({kind, axis, swapped});
    if (!fresh) return known->second;
    for (const ValueId value : parts_.at(kind)) {
      const std::optional<Stored> part = read(value, swapped);
      if (part) known->second.emplace(part->elements(0, key_size(part->shape, axis)), value);
    }
    return known->second;
  }

  /// `swapped`: with the two axes exchanged.
  std::optional<Stored> read(ValueId value, bool swapped) const {
    auto bytes = graph_.value(value).data.read();
    Shape shape = *shape_of(graph_, value);
    const size_t count = product(shape.begin(), shape.end());
    if (!bytes.ok() || count == 0) return std::nullopt;
    Stored stored{std::move(shape), bytes->size() / count, *std::move(bytes)};
    return swapped ? transposed(stored) : std::move(stored);
  }

  const Graph& graph_;
  std::map<Kind, std::vector<ValueId>> wholes_, parts_;
  std::map<std::tuple<Kind, size_t, bool>, Keys> keys_;
  std::vector<JoinedCopy> found_;
};

}  // namespace

std::vector<JoinedCopy> joined_copies(const Graph& graph) { return Finder(graph).find(); }

}  // namespace rannc::passes
