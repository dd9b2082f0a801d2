/// Translates operators that select or write elements by indices.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "frontend/internal/rows/classes.h"
#include "frontend/recipes/bags.h"
#include "frontend/torchscript/internal/indexed_axes.h"
#include "frontend/torchscript/internal/translators.h"
#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

ValueId as_index(Call& call, ValueId index) {
  if (!call.good() || call.dtype(index) == DType::kI64 || call.dtype(index) == DType::kI32) return index;
  if (!ir::is_float(call.dtype(index))) return call.emit("cast", {index}, {{"dtype", DType::kI64}});
  call.fail(fmt::format("{}: indices are {}; expected integers", call.schema(), ir::str(call.dtype(index))));
  return {};
}

void embedding(Call& call) {
  const ValueId table = call.tensor("weight"), index = as_index(call, call.tensor("indices"));
  if (call.has("sparse") && call.flag("sparse"))
    call.remark("embeddings request sparse gradients, but gradients are dense");
  if (call.has("scale_grad_by_freq") && call.flag("scale_grad_by_freq"))
    return call.fail("embedding with scale_grad_by_freq is not supported");
  ir::Attributes attributes = {{"axis", Dim(0)}};
  const int64_t padding = call.has("padding_idx") ? call.integer("padding_idx") : -1;
  if (padding >= 0) attributes.set("padding_index", Dim(padding));
  call.result("gather", {table, index}, std::move(attributes));
}

/// Returns the bags that the call reduces. Fails if their lengths do not follow from sizes.
std::optional<EqualBags> bags_of(Call& call, ValueId indices) {
  const ValueId offsets = call.tensor("offsets");
  const Shape* const shape = call.shape(indices);
  if (!shape) return std::nullopt;
  const bool ends = call.has("include_last_offset") && call.flag("include_last_offset");
  auto starts = progression(call, offsets);
  if (starts && ends) starts->count = starts->count - Dim(1);
  const auto bags = starts && shape->size() == 1 ? equal_bags(*starts, shape->front()) : std::nullopt;
  if (!bags) {
    call.fail(fmt::format(
        "{}: the offsets '{}' must follow from constants and sizes, with bags of one length that cover all {} "
        "indices; bags of other lengths mix the samples of a micro-batch: pad them to one length, with padding_idx, "
        "and pass the indices as [samples, length]",
        call.schema(), call.name(offsets), ir::str(*shape)));
  }
  return bags;
}

/// Returns the row that bags ignore; -1: none. Only operators whose name begins with an underscore use -1 for none.
int64_t padding_row(Call& call, ValueId table) {
  if (!call.has("padding_idx")) return -1;
  const int64_t given = call.integer("padding_idx");
  const Shape* const shape = call.shape(table);
  if (given >= 0 || call.op().front() == '_' || !shape || !shape->front().is_constant()) return given;
  return given + shape->front().constant();
}

/// Returns the first largest element of each bag, which receives the gradient; 0 if all elements are ignored.
ValueId largest(Call& call, ValueId rows, ValueId kept) {
  const DType dtype = call.dtype(rows);
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  if (kept.valid()) rows = call.emit("where", {kept, rows, call.scalar(kLeast, dtype)});
  const auto made = call.emit_all("topk", {rows}, {{"k", Dim(1)}, {"axis", Dim(1)}, {"largest", true}}, 2);
  if (!call.good()) return {};
  const ValueId found = call.emit("squeeze", {made[0]}, {{"axes", Shape{1}}});
  if (!kept.valid()) return found;
  const ValueId some =
      call.emit("sum", {call.emit("cast", {kept}, {{"dtype", DType::kI64}})}, {{"axes", Shape{1}}, {"keepdim", false}});
  const ValueId empty = call.emit("eq", {some, call.scalar(0, DType::kI64)});
  return call.emit("where", {empty, call.scalar(0, dtype), found});
}

/// Looks up the rows of all bags, which have one length, and reduces over the axis of the bag.
void embedding_bag(Call& call) {
  constexpr int64_t kMean = 1, kMax = 2;
  const ValueId table = call.tensor("weight"), flat = as_index(call, call.tensor("indices"));
  const int64_t mode = call.integer("mode"), padding = padding_row(call, table);
  if (call.flag("sparse")) call.remark("embeddings request sparse gradients, but gradients are dense");
  if (call.flag("scale_grad_by_freq")) return call.fail("embedding_bag with scale_grad_by_freq is not supported");
  const auto bags = call.good() ? bags_of(call, flat) : std::nullopt;
  if (!bags) return;
  const ValueId indices = by_bag(call, flat, *bags);
  ValueId rows = call.emit("gather", {table, indices}, {{"axis", Dim(0)}}), kept;
  const auto for_each = [&](ValueId number) { return call.emit("unsqueeze", {number}, {{"axes", Shape{2}}}); };
  if (call.has("per_sample_weights"))
    rows = call.emit("mul", {rows, for_each(by_bag(call, call.tensor("per_sample_weights"), *bags))});
  if (padding >= 0 && call.good()) {
    const auto row = static_cast<double>(padding);
    kept = for_each(call.emit("ne", {indices, call.scalar(row, call.dtype(indices))}));
  }
  const ir::Attributes over = {{"axes", Shape{1}}, {"keepdim", false}};
  if (!call.good()) return;
  const DType dtype = call.dtype(rows);
  if (mode == kMax) {
    call.give(largest(call, rows, kept));
  } else if (!kept.valid()) {
    call.result(mode == kMean ? "mean" : "sum", {rows}, over);
  } else {
    const ValueId sum = call.emit("sum", {call.emit("where", {kept, rows, call.scalar(0, dtype)})}, over);
    const ValueId count = call.emit("sum", {call.emit("cast", {kept}, {{"dtype", dtype}})}, over);
    call.give(mode == kMean ? call.emit("div", {sum, call.emit("maximum", {count, call.scalar(1, dtype)})}) : sum);
  }
  for (size_t i = 1; i < 4 && call.good(); ++i)
    call.give(Item(Undecided{fmt::format("an additional result of {}", call.schema())}));
}

void index_select(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  const ValueId index = as_index(call, call.tensor("index"));
  if (!call.good() || give_unsorted(call, x, axis, index)) return;
  call.result("gather", {x, index}, {{"axis", Dim(axis)}});
}

/// As in ATen, reads only the positions that the index covers.
void gather(Call& call) {
  const ValueId x = call.tensor("self"), index = as_index(call, call.tensor("index"));
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  if (call.good()) call.result("gather_elements", {x, index}, {{"axis", Dim(axis)}});
}

/// As `gather`, but other axes are broadcast. Without an axis, both are flattened.
void take_along_dim(Call& call) {
  ValueId x = call.tensor("self"), index = as_index(call, call.tensor("indices"));
  if (!call.good()) return;
  const auto flat = [&](ValueId value) {
    return call.emit("reshape", {value}, {{"shape", Shape{ir::element_count(*call.shape(value))}}});
  };
  if (!call.has("dim")) {
    const ValueId all = flat(x), places = flat(index);
    return call.result("gather_elements", {all, places}, {{"axis", Dim(0)}});
  }
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  if (!call.good()) return;
  Shape from = *call.shape(x), to = *call.shape(index);
  if (from.size() != to.size()) return call.fail("take_along_dim of tensors of different ranks");
  for (size_t i = 0; i < from.size(); ++i) {
    if (static_cast<int64_t>(i) == axis || from[i] == to[i]) continue;
    (from[i] == Dim(1) ? from : to)[i] = from[i] == Dim(1) ? to[i] : from[i];
  }
  if (!(from == *call.shape(x))) x = call.emit("expand", {x}, {{"shape", from}});
  if (!(to == *call.shape(index))) index = call.emit("expand", {index}, {{"shape", to}});
  call.result("gather_elements", {x, index}, {{"axis", Dim(axis)}});
}

/// Indexing with NumPy semantics: indices broadcast. Their axes replace the indexed axes if these are adjacent, else
/// they come first.
void index(Call& call) {
  const Sequence* const list = call.item("indices").sequence();
  const ValueId x = call.tensor("self");
  const Shape* const from = call.shape(x);
  if (!list || !from) return;
  const Shape whole = *from;
  const auto axes = indexed_axes(call, *list);
  if (!axes) return;
  std::vector<std::pair<size_t, ValueId>> given;
  for (const IndexedAxis& each : *axes) given.emplace_back(each.axis, as_index(call, each.places));
  if (given.empty()) return call.pass("self");
  const bool neighbours = given.back().first - given.front().first + 1 == given.size();
  if (given.size() == 1) {
    const auto axis = static_cast<int64_t>(given[0].first);
    if (give_unsorted(call, x, axis, given[0].second)) return;
    return call.result("gather", {x, given[0].second}, {{"axis", Dim(axis)}});
  }
  // Broadcast shape of the indices.
  Shape common;
  for (const auto& [axis, value] : given) {
    const Shape* const shape = call.shape(value);
    if (!shape) return;
    while (common.size() < shape->size()) common.insert(common.begin(), Dim(1));
    for (size_t back = 1; back <= shape->size(); ++back) {
      Dim& size = common[common.size() - back];
      if (size == Dim(1)) size = (*shape)[shape->size() - back];
    }
  }
  const auto samples = call.type(x).batch.axis;
  // An index over all samples of x keeps their axis.
  const auto along = std::find_if(given.begin(), given.end(),
                                  [&](const auto& each) { return static_cast<int32_t>(each.first) == samples; });
  if (along != given.end() && given.size() == 2 && neighbours && is_whole(call, along->second, whole[along->first])) {
    const auto& other = given[along == given.begin() ? 1 : 0];
    const Shape* const shape = call.shape(other.second);
    const Shape* const own = call.shape(along->second);
    if (!shape || !own) return;
    // [batch, 1, …] against [1, n] or [batch, n]: each sample reads only itself.
    const bool leads =
        own->size() == common.size() && own->front() == whole[along->first] && ir::element_count(*own) == own->front();
    if (along->first != 0 || !leads) return call.fail("indexing mixes samples");
    const ValueId wide = call.emit("expand", {other.second}, {{"shape", common}});
    const ValueId tuples = call.emit("unsqueeze", {wide}, {{"axes", Shape{static_cast<int64_t>(common.size())}}});
    return call.result("gather_nd", {x, tuples}, {{"batch_dims", Dim(1)}});
  }
  // Permutes the indexed axes to the front and builds one index tuple per element.
  std::vector<int64_t> order;
  for (const auto& [axis, value] : given) order.push_back(static_cast<int64_t>(axis));
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(axis)) == order.end())
      order.push_back(static_cast<int64_t>(axis));
  }
  ValueId turned = x;
  if (!std::is_sorted(order.begin(), order.end()))
    turned = call.emit("permute", {x}, {{"dims", frontend::list(order)}});
  const auto last = static_cast<int64_t>(common.size());
  std::vector<ValueId> columns;
  for (const auto& [axis, value] : given) {
    const ValueId wide = call.emit("expand", {call.cast(value, DType::kI64)}, {{"shape", common}});
    columns.push_back(call.emit("unsqueeze", {wide}, {{"axes", Shape{last}}}));
  }
  const ValueId tuples = call.emit("concat", columns, {{"axis", Dim(last)}});
  const ir::Attributes whole_tuples = {{"batch_dims", Dim(0)}};
  const size_t first = given.front().first;
  if (!neighbours || first == 0) return call.result("gather_nd", {turned, tuples}, whole_tuples);
  // Moves the axes back to the first indexed axis.
  const ValueId picked = call.emit("gather_nd", {turned, tuples}, whole_tuples);
  std::vector<int64_t> back;
  for (size_t i = 0; i < first; ++i) back.push_back(last + static_cast<int64_t>(i));
  for (int64_t i = 0; i < last; ++i) back.push_back(i);
  for (size_t i = first + given.size(); i < whole.size(); ++i)
    back.push_back(last + static_cast<int64_t>(i - given.size()));
  call.result("permute", {picked}, {{"dims", frontend::list(back)}});
}

void triangle(Call& call) {
  const int64_t diagonal = call.has("diagonal") ? call.integer("diagonal") : 0;
  call.result("trilu", {call.tensor("self")}, {{"upper", call.op() == "triu"}, {"diagonal", Dim(diagonal)}});
}

void cumsum(Call& call) {
  ValueId x = call.tensor("self");
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  if (!call.good()) return;
  const DType natural = ir::is_float(call.dtype(x)) ? call.dtype(x) : DType::kI64;
  x = call.cast(x, call.dtype("dtype", natural));
  if (call.good()) call.result("cumsum", {x}, {{"axis", Dim(axis)}});
}

void one_hot(Call& call) {
  const int64_t classes = call.integer("num_classes");
  if (classes < 1) return call.fail("one_hot needs num_classes");
  const ValueId made = call.emit("one_hot", {call.tensor("self")}, {{"depth", Dim(classes)}, {"axis", Dim(-1)}});
  if (call.good()) call.give(call.cast(made, DType::kI64));
}

void topk(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis(call.has("dim") ? call.integer("dim") : -1, call.rank(x));
  const auto made =
      call.emit_all("topk", {x}, {{"k", call.size("k")}, {"axis", Dim(axis)}, {"largest", call.flag("largest")}}, 2);
  if (!call.good()) return;
  call.give(made[0]);
  call.give(made[1]);
}

void sort(Call& call) {
  const ValueId x = call.tensor("self");
  const Shape* const shape = call.shape(x);
  if (!shape) return;
  const int64_t axis = call.axis(call.has("dim") ? call.integer("dim") : -1, static_cast<int64_t>(shape->size()));
  if (!call.good()) return;
  const bool descending = call.has("descending") && call.flag("descending");
  if (const auto places = descending ? std::nullopt : call.sorted_places(x)) {
    if (call.op() != "argsort") call.give(call.emit("gather", {x, *places}, {{"axis", Dim(0)}}));
    return call.give(*places);
  }
  if (call.op() == "argsort" && !descending && sorts_rows(call.graph(), x))
    return call.give(add_unsorted_places(call.graph(), x, call.stem(), call.where()));
  const auto made = call.emit_all(
      "topk", {x}, {{"k", (*shape)[static_cast<size_t>(axis)]}, {"axis", Dim(axis)}, {"largest", descending}}, 2);
  if (!call.good()) return;
  if (call.op() != "argsort") call.give(made[0]);
  call.give(made[1]);
}

template <const char* reduction>
void scatter(Call& call) {
  if (call.has("reduce")) return call.use_dispatcher();
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  const Shape* const shape = call.shape(index);
  if (!shape || !call.good()) return;
  ValueId from;
  if (call.has("src")) {
    from = call.cast(call.tensor("src"), call.dtype(x));
    // Reads only the positions of the source that the index covers.
    const Shape* const given = call.shape(from);
    if (!given) return;
    if (!(*given == *shape)) {
      Shape axes, starts, ends;
      for (size_t i = 0; i < shape->size(); ++i)
        axes.emplace_back(static_cast<int64_t>(i)), starts.emplace_back(0), ends.push_back((*shape)[i]);
      from = call.emit("slice", {from}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
    }
  } else {
    from = call.emit("expand", {call.scalar(call.number("value"), call.dtype(x))}, {{"shape", *shape}});
  }
  call.result("scatter_elements", {x, index, from}, {{"axis", Dim(axis)}, {"reduction", std::string(reduction)}});
}
constexpr char kNone[] = "none", kAdd[] = "add";

}  // namespace

bool is_whole(Call& call, ValueId index, const Dim& size) {
  constexpr ir::Capture kRange{0};
  static const ir::Pattern kPlaces =
      ir::through({"identity", "reshape", "unsqueeze", "expand"}, ir::op("range").as(kRange));
  const auto found = call.match(index, kPlaces);
  if (!found) return false;
  const ir::Attributes& given = found->attributes(kRange);
  const auto is = [&](std::string_view name, const Dim& wanted) {
    const ir::Attribute* const value = given.find(name);
    return value && *value == ir::Attribute(wanted);
  };
  return is("start", 0) && is("delta", 1) && is("limit", size);
}

std::span<const Translator> index_translators() {
  static constexpr Translator kTable[] = {
      {"embedding", embedding},
      {"embedding_bag", embedding_bag},
      {"_embedding_bag", embedding_bag},
      {"_embedding_bag_forward_only", embedding_bag},
      {"index_select", index_select},
      {"gather", gather},
      {"take_along_dim", take_along_dim},
      {"index", index},
      {"triu", triangle},
      {"tril", triangle},
      {"cumsum", cumsum},
      {"one_hot", one_hot},
      {"topk", topk},
      {"sort", sort},
      {"argsort", sort},
      {"scatter", scatter<kNone>},
      {"scatter_add", scatter<kAdd>},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
