#include "ir/state/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "ir/state/static_sizes.h"

namespace rannc::ir {

namespace {

using Sizes = std::vector<int64_t>;

Sizes identity(size_t rank) {
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// Nothing if the product overflows.
std::optional<int64_t> checked_product(const Sizes& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(all, size, &all)) return std::nullopt;
  }
  return all;
}

bool is_permutation(const Sizes& axes, size_t rank) {
  Sizes sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  return sorted == identity(rank);
}

class StateVerifier {
 public:
  explicit StateVerifier(const Graph& graph) : graph_(graph) {}

  std::vector<Diagnostic> verify() {
    for (const StateTensor& tensor : graph_.state()) check(tensor);
    return std::move(found_);
  }

 private:
  void add(const StateTensor& tensor, std::string message) {
    found_.push_back(error({}, fmt::format("tensor of state \"{}\" {}", tensor.name, std::move(message)), "G20"));
  }

  void check(const StateTensor& tensor) {
    if (tensor.name.empty() || !names_.insert(tensor.name).second) return add(tensor, "needs a name of its own");
    const auto sizes = checked_product(tensor.shape);
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t size) { return size < 0; });
    if (!sizes || negative) return add(tensor, fmt::format("has the shape [{}]", fmt::join(tensor.shape, ",")));
    int64_t elements = 0;
    for (const StatePart& part : tensor.parts) {
      const auto own = elements_of(tensor, part);
      if (!own) return;
      if (__builtin_add_overflow(elements, *own, &elements))
        return add(tensor, "has more elements than can be counted");
    }
    if (tensor.parts.empty() || elements != *sizes)
      add(tensor,
          fmt::format("has {} elements as [{}], its parts have {}", *sizes, fmt::join(tensor.shape, ","), elements));
  }

  /// Number of elements of a part; nothing, with a reported fault, if the part is invalid.
  std::optional<int64_t> elements_of(const StateTensor& tensor, const StatePart& part) {
    const auto none = [&](std::string message) {
      add(tensor, std::move(message));
      return std::nullopt;
    };
    if (!part.value.valid() || part.value.index() >= graph_.value_count())
      return none("names a value that is not of the graph");
    const Graph::Value found = graph_.value(part.value);
    const bool stored =
        found.kind == ValueKind::kParameter || found.kind == ValueKind::kBuffer || found.kind == ValueKind::kConstant;
    if (!stored) return none(fmt::format("is a part of %{}, which is of kind {}", found.name, str(found.kind)));
    const auto sizes = static_sizes(found.type);
    if (!sizes) return none(fmt::format("is a part of %{}, whose shape is not known", found.name));
    const auto dtype = graph_.type(tensor.parts[0].value).dtype;
    if (found.type.dtype != dtype)
      return none(fmt::format("has parts of {} and of {}", str(dtype), str(found.type.dtype)));
    bool inside = part.begin.size() == sizes->size() && part.extent.size() == sizes->size();
    for (size_t i = 0; inside && i < sizes->size(); ++i)
      inside = part.begin[i] >= 0 && part.extent[i] >= 0 && part.begin[i] <= (*sizes)[i] &&
               part.extent[i] <= (*sizes)[i] - part.begin[i];
    if (!inside)
      return none(fmt::format("has [{}] from [{}] on of %{}, which is [{}]", fmt::join(part.extent, ","),
                              fmt::join(part.begin, ","), found.name, fmt::join(*sizes, ",")));
    if (!is_permutation(part.axes, sizes->size()))
      return none(fmt::format("reorders the axes of %{} as [{}]", found.name, fmt::join(part.axes, ",")));
    auto of_row = tensor.shape;
    if (!of_row.empty()) of_row.front() = 1;
    const int64_t row = checked_product(of_row).value_or(0);
    const int64_t elements = checked_product(part.extent).value_or(-1);
    if (elements < 0 || (row == 0 ? elements != 0 : elements % row != 0))
      return none(fmt::format("has {} elements of %{} for rows of {}", elements, found.name, row));
    return elements;
  }

  const Graph& graph_;
  std::unordered_set<std::string> names_;
  std::vector<Diagnostic> found_;
};

}  // namespace

StatePart whole(const Graph& graph, ValueId value) {
  const auto sizes = static_sizes(graph.type(value));
  RANNC_CHECK(sizes.has_value()) << "stored value %" << graph.value(value).name << " has no static shape";
  return {value, Sizes(sizes->size(), 0), *sizes, identity(sizes->size())};
}

bool is_whole(const Graph& graph, const StatePart& part) {
  const auto sizes = static_sizes(graph.type(part.value));
  return sizes && part.extent == *sizes && part.axes == identity(sizes->size()) &&
         std::all_of(part.begin.begin(), part.begin.end(), [](int64_t begin) { return begin == 0; });
}

StateTensor state_of(const Graph& graph, std::string name, ValueId value, std::vector<int64_t> axes) {
  StatePart part = whole(graph, value);
  StateTensor tensor{std::move(name), {}, {}};
  for (const int64_t axis : axes) tensor.shape.push_back(part.extent[static_cast<size_t>(axis)]);
  part.axes = std::move(axes);
  tensor.parts.push_back(std::move(part));
  return tensor;
}

std::vector<Diagnostic> faults_of_state(const Graph& graph) { return StateVerifier(graph).verify(); }

}  // namespace rannc::ir
