// Folding rules of operators that write elements by position.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/folding/fold_walk.h"

namespace rannc::ir::ops::fold {
namespace {

using Step = int64_t (*)(int64_t, int64_t);

// The function that combines an element with a number written to it. For plain writes the last one wins.
Step step_of(const FoldCall& call) {
  const std::string reduction = call.attributes.text("reduction");
  if (reduction == "add") return [](int64_t x, int64_t update) { return wrap(u(x) + u(update)); };
  if (reduction == "mul") return [](int64_t x, int64_t update) { return wrap(u(x) * u(update)); };
  if (reduction == "max") return [](int64_t x, int64_t update) { return std::max(x, update); };
  if (reduction == "min") return [](int64_t x, int64_t update) { return std::min(x, update); };
  return [](int64_t, int64_t update) { return update; };
}

}  // namespace

// Other axes of the indices may be shorter than the data's, but not longer.
Numbers scatter_elements(FoldCall& call) {
  const Integers &x = call.in(0), &indices = call.in(1), &updates = call.in(2);
  const auto axis = static_cast<size_t>(axis_of(call, x.shape.size()));
  const Sizes strides = strides_of(x.shape);
  for (size_t i = 0; i < x.shape.size(); ++i) {
    call.failed = call.failed || (i != axis && indices.shape[i] > x.shape[i]);
  }
  Numbers out = x.data;
  if (call.failed) return out;
  const Step step = step_of(call);
  size_t at = 0;
  for_each_index(indices.shape, [&](const Sizes& index) {
    Sizes to = index;
    to[axis] = position(call, indices.data[at], x.shape[axis]);
    const int64_t update = updates.data[at++];
    if (call.failed) return;
    int64_t& element = out[static_cast<size_t>(dot(to, strides))];
    element = step(element, update);
  });
  return out;
}

Numbers scatter_nd(FoldCall& call) {
  const Integers &x = call.in(0), &indices = call.in(1), &updates = call.in(2);
  const int64_t depth = indices.shape.back();
  const Sizes strides = strides_of(x.shape);
  const int64_t inner = count_of(Sizes(x.shape.begin() + depth, x.shape.end()));
  Numbers out = x.data;
  call.failed = depth == 0;
  const int64_t tuples = depth == 0 ? 0 : static_cast<int64_t>(indices.data.size()) / depth;
  const Step step = step_of(call);
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t to = 0;
    for (int64_t d = 0; d < depth; ++d) to += position(call, indices.data[i * depth + d], x.shape[d]) * strides[d];
    if (call.failed) return out;
    for (int64_t k = 0; k < inner; ++k) out[to + k] = step(out[to + k], updates.data[i * inner + k]);
  }
  return out;
}

}  // namespace rannc::ir::ops::fold
