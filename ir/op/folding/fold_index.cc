// Folding rules of operators that read or place elements by position.
#include "ir/op/folding/fold.h"
#include "ir/op/folding/fold_walk.h"

namespace rannc::ir::ops::fold {

Numbers gather(FoldCall& call) {
  const Integers &x = call.in(0), &indices = call.in(1);
  const int64_t axis = axis_of(call, x.shape.size());
  const int64_t inner = strides_of(x.shape)[axis], extent = x.shape[axis];
  const int64_t outer = count_of(Sizes(x.shape.begin(), x.shape.begin() + axis));
  Numbers out;
  if (extent == 0) return out;
  for (int64_t row = 0; row < outer; ++row) {
    for (const int64_t index : indices.data) {
      const auto begin = x.data.begin() + (row * extent + position(call, index, extent)) * inner;
      out.insert(out.end(), begin, begin + inner);
    }
  }
  return out;
}

Numbers gather_nd(FoldCall& call) {
  const Integers &x = call.in(0), &indices = call.in(1);
  const int64_t batch_dims = call.attributes.integer("batch_dims"), depth = indices.shape.back();
  const Sizes strides = strides_of(x.shape);
  const auto first = x.shape.begin();
  const int64_t inner = count_of(Sizes(first + batch_dims + depth, x.shape.end()));
  const int64_t group = count_of(Sizes(first + batch_dims, x.shape.end()));
  const int64_t groups = count_of(Sizes(first, first + batch_dims));
  const int64_t tuples = depth == 0 ? 0 : static_cast<int64_t>(indices.data.size()) / depth;
  Numbers out;
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t at = i / (tuples / groups) * group;
    for (int64_t d = 0; d < depth; ++d) {
      at += position(call, indices.data[i * depth + d], x.shape[batch_dims + d]) * strides[batch_dims + d];
    }
    if (call.failed) return {};
    out.insert(out.end(), x.data.begin() + at, x.data.begin() + at + inner);
  }
  call.failed = call.failed || depth == 0;
  return out;
}

// Other axes of the indices may be shorter than the data's, as in ATen, but not longer.
Numbers gather_elements(FoldCall& call) {
  const Integers &x = call.in(0), &indices = call.in(1);
  const auto axis = static_cast<size_t>(axis_of(call, x.shape.size()));
  const Sizes strides = strides_of(x.shape);
  for (size_t i = 0; i < x.shape.size(); ++i) {
    call.failed = call.failed || (i != axis && indices.shape[i] > x.shape[i]);
  }
  Numbers out;
  size_t at = 0;
  if (call.failed) return out;
  for_each_index(indices.shape, [&](const Sizes& index) {
    Sizes from = index;
    from[axis] = position(call, indices.data[at++], x.shape[axis]);
    out.push_back(call.failed ? 0 : x.data[dot(from, strides)]);
  });
  return out;
}

Numbers cumsum(FoldCall& call) {
  const Integers& x = call.in(0);
  const int64_t axis = axis_of(call, x.shape.size());
  const int64_t stride = strides_of(x.shape)[axis], extent = x.shape[axis];
  const bool exclusive = call.attributes.flag("exclusive"), reverse = call.attributes.flag("reverse");
  Numbers out(x.data.size());
  if (out.empty()) return out;
  for (int64_t line = 0; line < static_cast<int64_t>(out.size()) / extent; ++line) {
    const int64_t base = line / stride * stride * extent + line % stride;
    uint64_t sum = 0;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t at = base + (reverse ? extent - 1 - i : i) * stride;
      const uint64_t before = sum;
      sum += u(x.data[at]);
      out[at] = wrap(exclusive ? before : sum);
    }
  }
  return out;
}

Numbers trilu(FoldCall& call) {
  const bool upper = call.attributes.flag("upper");
  const int64_t diagonal = call.attributes.integer("diagonal");
  Numbers out;
  size_t at = 0;
  for_each_index(call.in(0).shape, [&](const Sizes& index) {
    const int64_t distance = index[index.size() - 1] - index[index.size() - 2] - diagonal;
    const int64_t x = call.in(0).data[at++];
    out.push_back((upper ? distance >= 0 : distance <= 0) ? x : 0);
  });
  return out;
}

// Indices out of range give zeros.
Numbers one_hot(FoldCall& call) {
  const Integers& indices = call.in(0);
  const Sizes to = call.out_shape();
  const int64_t axis = axis_of(call, to.size()), depth = call.attributes.integer("depth");
  Sizes strides = strides_of(indices.shape);
  strides.insert(strides.begin() + axis, 0);
  Numbers out;
  for_each_index(to, [&](const Sizes& index) {
    const int64_t hot = indices.data[dot(index, strides)];
    out.push_back((hot < 0 ? hot + depth : hot) == index[axis]);
  });
  return out;
}

}  // namespace rannc::ir::ops::fold
