// Folding rules of reductions.
#include <algorithm>
#include <limits>

#include "ir/op/folding/fold.h"
#include "ir/op/folding/fold_walk.h"

namespace rannc::ir::ops::fold {

namespace {

using Limits = std::numeric_limits<int64_t>;

// Reduces all elements along the axes by `f`, starting with `start`.
template <class F>
Numbers reduce(const FoldCall& call, int64_t start, F&& f) {
  const Integers& x = call.in(0);
  Sizes kept = x.shape;
  if (!call.attributes.has("axes")) std::fill(kept.begin(), kept.end(), 1);
  for (const int64_t axis : call.attributes.integers("axes")) kept[from_front(axis, kept.size())] = 1;
  const Sizes strides = broadcast_strides(kept, x.shape);
  Numbers out(count_of(kept), start);
  size_t at = 0;
  for_each_index(x.shape, [&](const Sizes& index) {
    int64_t& into = out[dot(index, strides)];
    into = f(into, x.data[at++]);
  });
  return out;
}

template <class F>
Numbers extreme(FoldCall& call, int64_t start, F&& f) {
  call.failed = call.in(0).data.empty();
  return call.failed ? Numbers{} : reduce(call, start, f);
}

}  // namespace

Numbers sum(FoldCall& call) {
  return reduce(call, 0, [](int64_t a, int64_t b) { return wrap(u(a) + u(b)); });
}
Numbers prod(FoldCall& call) {
  return reduce(call, 1, [](int64_t a, int64_t b) { return wrap(u(a) * u(b)); });
}
Numbers amax(FoldCall& call) {
  return extreme(call, Limits::min(), [](int64_t a, int64_t b) { return std::max(a, b); });
}
Numbers amin(FoldCall& call) {
  return extreme(call, Limits::max(), [](int64_t a, int64_t b) { return std::min(a, b); });
}

Numbers argmax(FoldCall& call) {
  const Integers& x = call.in(0);
  const int64_t axis = axis_of(call, x.shape.size());
  const int64_t stride = strides_of(x.shape)[axis], extent = x.shape[axis];
  call.failed = x.data.empty();
  Numbers out;
  for (int64_t line = 0; !call.failed && line < static_cast<int64_t>(x.data.size()) / extent; ++line) {
    const int64_t base = line / stride * stride * extent + line % stride;
    int64_t greatest = 0;
    for (int64_t i = 1; i < extent; ++i) {
      if (x.data[base + i * stride] > x.data[base + greatest * stride]) greatest = i;
    }
    out.push_back(greatest);
  }
  return out;
}

}  // namespace rannc::ir::ops::fold
