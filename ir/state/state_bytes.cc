#include "ir/state/state_bytes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ir/state/state.h"

namespace rannc::ir {

namespace {

using Sizes = std::vector<int64_t>;
using Bytes = std::vector<std::byte>;

bool is_stored_state(ValueKind kind) { return kind == ValueKind::kParameter || kind == ValueKind::kBuffer; }

int64_t element_product(const Sizes& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) all *= size;
  return all;
}

/// Sizes of a type whose shape is static by G20.
Sizes sizes_of(const ValueType& type) {
  Sizes sizes;
  for (const Dim& dim : *type.shape) sizes.push_back(dim.constant());
  return sizes;
}

/// Calls `f(stored, own, count)` for runs of `count` elements that are contiguous in the stored value, from element
/// `stored` on, and in the part, from element `own` on.
template <class F>
void each_run(const StatePart& part, const Sizes& stored, F&& f) {
  const size_t rank = stored.size();
  if (element_product(part.extent) == 0) return;
  Sizes stride(rank, 1);
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * stored[i];
  int64_t at = 0;
  Sizes extents, steps;  // of the axes of the part
  for (size_t i = 0; i < rank; ++i) at += part.begin[i] * stride[i];
  for (const int64_t axis : part.axes) {
    extents.push_back(part.extent[static_cast<size_t>(axis)]);
    steps.push_back(stride[static_cast<size_t>(axis)]);
  }
  int64_t run = 1;
  while (!extents.empty() && (extents.back() == 1 || steps.back() == run)) {
    run *= extents.back();
    extents.pop_back();
    steps.pop_back();
  }
  Sizes index(extents.size(), 0);
  for (int64_t own = 0;; own += run) {
    f(at, own, run);
    size_t axis = extents.size();
    while (axis > 0 && index[axis - 1] + 1 == extents[axis - 1]) {
      at -= index[axis - 1] * steps[axis - 1];
      index[--axis] = 0;
    }
    if (axis == 0) return;
    ++index[axis - 1];
    at += steps[axis - 1];
  }
}

/// Whether `part` lies entirely in `whole`, a part of the same value.
bool lies_in(const StatePart& part, const StatePart& whole) {
  for (size_t i = 0; i < part.begin.size(); ++i) {
    if (part.begin[i] < whole.begin[i] || part.begin[i] + part.extent[i] > whole.begin[i] + whole.extent[i])
      return false;
  }
  return true;
}

/// Whether every element of the value is in one of the parts.
bool cover(const Graph& graph, ValueId value, const std::vector<const StatePart*>& parts) {
  const auto sizes = sizes_of(graph.type(value));
  const StatePart all = whole(graph, value);
  if (std::any_of(parts.begin(), parts.end(), [&](const StatePart* part) { return lies_in(all, *part); })) return true;
  std::vector<bool> found(static_cast<size_t>(element_product(sizes)));
  for (const StatePart* part : parts) {
    each_run(*part, sizes, [&](int64_t at, int64_t, int64_t count) { std::fill_n(found.begin() + at, count, true); });
  }
  return std::find(found.begin(), found.end(), false) == found.end();
}

std::string free_name(std::string_view name, const std::set<std::string>& taken) {
  std::string found(name);
  for (int suffix = 1; taken.contains(found); ++suffix) found = fmt::format("{}.{}", name, suffix);
  return found;
}

std::string shown(DType dtype, const Sizes& shape) { return fmt::format("{}[{}]", str(dtype), fmt::join(shape, ",")); }

}  // namespace

ReadStored stored_in(const Graph& graph) {
  return [&graph](ValueId value) { return graph.value(value).data.read(); };
}

FullState full_state(const Graph& graph) {
  FullState state{graph.state(), {}, {}};
  std::set<std::string> names;
  std::map<ValueId, std::vector<const StatePart*>> parts;
  for (const StateTensor& tensor : graph.state()) {
    names.insert(tensor.name);
    for (const StatePart& part : tensor.parts) parts[part.value].push_back(&part);
  }
  for (const ValueId value : graph.values()) {
    const Graph::Value found = graph.value(value);
    if (!is_stored_state(found.kind) || !static_count(found.type)) continue;
    if (const auto own = parts.find(value); own != parts.end()) {
      if (!cover(graph, value, own->second)) state.partly.push_back(value);
      continue;
    }
    const std::string name = free_name(found.name, names);
    names.insert(name);
    StatePart all = whole(graph, value);
    Sizes shape = all.extent;
    state.tensors.push_back({name, std::move(shape), {std::move(all)}});
    state.own_names.push_back(name);
  }
  return state;
}

Result<Bytes> state_bytes(const Graph& graph, const StateTensor& tensor, const ReadStored& read) {
  const uint64_t width = byte_size(graph.type(tensor.parts[0].value).dtype);
  Bytes bytes(static_cast<size_t>(element_product(tensor.shape)) * width);
  std::byte* to = bytes.data();
  ValueId last;
  Result<Bytes> from = Bytes();
  for (const StatePart& part : tensor.parts) {
    const Graph::Value stored = graph.value(part.value);
    const Sizes sizes = sizes_of(stored.type);
    if (part.value != last) from = read(part.value);
    last = part.value;
    if (!from.ok())
      return Diagnostic(from.diagnostic()).note(fmt::format("it is a part of the tensor of state \"{}\"", tensor.name));
    if (from->size() != static_cast<uint64_t>(element_product(sizes)) * width) {
      return error(fmt::format("tensor of state \"{}\": stored value %{} has {} bytes, its type {} has {}", tensor.name,
                               stored.name, from->size(), shown(stored.type.dtype, sizes),
                               static_cast<uint64_t>(element_product(sizes)) * width));
    }
    each_run(part, sizes, [&](int64_t at, int64_t own, int64_t count) {
      std::memcpy(to + static_cast<uint64_t>(own) * width, from->data() + static_cast<uint64_t>(at) * width,
                  static_cast<uint64_t>(count) * width);
    });
    to += static_cast<uint64_t>(element_product(part.extent)) * width;
  }
  return bytes;
}

namespace {

/// Matches a graph's state with given tensors.
class Matcher {
 public:
  Matcher(const Graph& graph, const std::map<std::string, StoredTensor>& given, const TakeState& how)
      : graph_(graph), given_(given), how_(how), state_(full_state(graph)) {}

  Result<StateMatch> match() {
    for (const StateTensor& tensor : state_.tensors) {
      names_.insert(tensor.name);
      if (const auto found = given_.find(tensor.name); found != given_.end()) take(tensor, found->second);
    }
    for (const StateTensor& tensor : state_.tensors) {
      if (!given_.contains(tensor.name) && !is_tied(tensor)) match_.missing.push_back(tensor.name);
    }
    for (const auto& [name, tensor] : given_) {
      if (!names_.contains(name) && !counts_batches(name, tensor)) match_.unexpected.push_back(name);
    }
    if (!wrong_.empty() || (!how_.partial && !(match_.missing.empty() && match_.unexpected.empty()))) return refused();
    return std::move(match_);
  }

 private:
  void take(const StateTensor& tensor, const StoredTensor& given) {
    const DType dtype = graph_.type(tensor.parts[0].value).dtype;
    const Sizes shape = sizes_of(given.type);
    const bool fits = given.type.dtype == dtype || (how_.converts && is_float(dtype) && is_float(given.type.dtype));
    if (shape != tensor.shape || !fits) {
      wrong_.push_back(fmt::format("{} is {}, expected {}", tensor.name, shown(given.type.dtype, shape),
                                   shown(dtype, tensor.shape)));
      return;
    }
    int64_t first = 0;
    for (const StatePart& part : tensor.parts) {
      match_.sources[part.value].push_back({tensor.name, part, given, first});
      first += element_product(part.extent);
    }
  }

  bool is_tied(const StateTensor& tensor) const {
    return std::all_of(tensor.parts.begin(), tensor.parts.end(), [&](const StatePart& part) {
      const auto found = match_.sources.find(part.value);
      return found != match_.sources.end() &&
             std::any_of(found->second.begin(), found->second.end(),
                         [&](const StateMatch::Source& source) { return lies_in(part, source.part); });
    });
  }

  static bool counts_batches(const std::string& name, const StoredTensor& tensor) {
    constexpr std::string_view kCounter = "num_batches_tracked";
    const bool named = name == kCounter || name.ends_with("." + std::string(kCounter));
    return named && is_integer(tensor.type.dtype) && tensor.type.shape->empty();
  }

  Diagnostic refused() {
    std::vector<std::string> counts;
    const auto count = [&](const std::vector<std::string>& names, const char* what) {
      if (!names.empty()) counts.push_back(fmt::format("{} {}", names.size(), what));
    };
    if (how_.partial) match_.missing.clear(), match_.unexpected.clear();
    count(match_.missing, "missing");
    count(match_.unexpected, "unexpected");
    count(wrong_, "of another type or shape");
    Diagnostic found =
        error(Location{how_.file, 0, 0, {}}, fmt::format("does not fit the {} tensors of the model's state: {}",
                                                         state_.tensors.size(), fmt::join(counts, ", ")));
    const auto list = [&](const char* what, const std::vector<std::string>& names) {
      if (!names.empty()) found.notes.push_back({{}, fmt::format("{}: {}", what, fmt::join(names, ", "))});
    };
    list("missing", match_.missing);
    list("unexpected", match_.unexpected);
    list("wrong", wrong_);
    return found;
  }

  const Graph& graph_;
  const std::map<std::string, StoredTensor>& given_;
  const TakeState& how_;
  FullState state_;
  std::set<std::string> names_;
  std::vector<std::string> wrong_;
  StateMatch match_;
};

/// Bytes of the elements of a source's part, converted to `dtype`.
Result<Bytes> part_bytes(const StateMatch::Source& source, DType dtype) {
  const DType given = source.tensor.type.dtype;
  const uint64_t width = byte_size(given);
  const uint64_t begin = static_cast<uint64_t>(source.first) * width;
  const uint64_t size = static_cast<uint64_t>(element_product(source.part.extent)) * width;
  const TensorData& all = source.tensor.data;
  RANNC_CHECK(begin + size <= all.size()) << "tensor " << source.name << " has fewer bytes than its type";
  TensorData data = all;
  if (all.in_file()) {
    data = TensorData::in_file(all.path(), all.offset() + begin, size);
  } else if (size != all.size()) {
    const auto from = all.bytes().begin() + static_cast<ptrdiff_t>(begin);
    data = TensorData::in_memory(Bytes(from, from + static_cast<ptrdiff_t>(size)));
  }
  if (given == dtype) return data.read();
  ValueType type;
  type.dtype = given;
  type.shape = Shape{Dim(element_product(source.part.extent))};
  RANNC_ASSIGN(const std::vector<double> numbers, decode_numbers(type, data, INT64_MAX));
  return encode_numbers(dtype, numbers).read();
}

/// A stored value that is filled by one source after another.
class Filled {
 public:
  Filled(const Graph& graph, ValueId value, const std::vector<StateMatch::Source>& sources)
      : graph_(graph), value_(value), sources_(sources), sizes_(sizes_of(graph.type(value))) {}

  Result<TensorData> fill(const ReadStored& read) {
    const auto all = static_cast<size_t>(element_product(sizes_));
    std::vector<const StatePart*> parts;
    for (const StateMatch::Source& source : sources_) parts.push_back(&source.part);
    bytes_.resize(all * width_);
    if (!cover(graph_, value_, parts)) {
      RANNC_ASSIGN(bytes_, read(value_));
      if (bytes_.size() != all * width_) {
        return error(fmt::format("stored value %{} has {} bytes, its type {} has {}", graph_.value(value_).name,
                                 bytes_.size(), shown(dtype_, sizes_), all * width_));
      }
    }
    if (sources_.size() > 1) written_.resize(all);
    for (const StateMatch::Source& source : sources_) RANNC_TRY(add(source));
    return TensorData::in_memory(std::move(bytes_));
  }

 private:
  Result<void> add(const StateMatch::Source& source) {
    RANNC_ASSIGN(const Bytes from, part_bytes(source, dtype_));
    int64_t differs = -1;
    each_run(source.part, sizes_, [&](int64_t at, int64_t own, int64_t count) {
      const std::byte* piece = from.data() + static_cast<uint64_t>(own) * width_;
      if (differs < 0 && !written_.empty()) differs = difference(at, piece, count);
      std::memcpy(bytes_.data() + static_cast<uint64_t>(at) * width_, piece, static_cast<uint64_t>(count) * width_);
    });
    if (differs < 0) return {};
    return error(fmt::format(
        "tensors \"{}\" and \"{}\" are one in this model (stored value %{}) and must be equal, but they differ",
        first_with(differs).name, source.name, graph_.value(value_).name));
  }

  /// The first element that was written before with different bytes; -1 if there is none.
  int64_t difference(int64_t at, const std::byte* piece, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto element = static_cast<size_t>(at + i);
      if (written_[element] &&
          std::memcmp(&bytes_[element * width_], piece + static_cast<size_t>(i) * width_, width_) != 0)
        return at + i;
      written_[element] = true;
    }
    return -1;
  }

  const StateMatch::Source& first_with(int64_t element) const {
    return *std::find_if(sources_.begin(), sources_.end(), [&](const StateMatch::Source& source) {
      bool has = false;
      each_run(source.part, sizes_,
               [&](int64_t at, int64_t, int64_t count) { has = has || (at <= element && element < at + count); });
      return has;
    });
  }

  const Graph& graph_;
  const ValueId value_;
  const std::vector<StateMatch::Source>& sources_;
  const Sizes sizes_;
  const DType dtype_ = graph_.type(value_).dtype;
  const uint64_t width_ = byte_size(dtype_);
  Bytes bytes_;
  std::vector<bool> written_;  ///< by element; empty if there is only one source
};

/// Whether the bytes of the only source are exactly those of the value.
bool is_value(const Graph& graph, const std::vector<StateMatch::Source>& sources, DType dtype) {
  return sources.size() == 1 && is_whole(graph, sources[0].part) && sources[0].tensor.type.dtype == dtype &&
         sources[0].first == 0 &&
         sources[0].tensor.data.size() ==
             static_cast<uint64_t>(element_product(sources[0].part.extent)) * byte_size(dtype);
}

}  // namespace

Result<StateMatch> match_state(const Graph& graph, const std::map<std::string, StoredTensor>& given,
                               const TakeState& how) {
  return Matcher(graph, given, how).match();
}

Result<TensorData> taken_bytes(const Graph& graph, ValueId value, const std::vector<StateMatch::Source>& sources,
                               const ReadStored& read) {
  if (is_value(graph, sources, graph.type(value).dtype)) return sources[0].tensor.data;
  return Filled(graph, value, sources).fill(read);
}

}  // namespace rannc::ir
