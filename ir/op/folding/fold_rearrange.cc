// Folding rules of operators that only move elements.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/folding/fold_walk.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::fold {

namespace {

// The first operand from `start` on, read with these strides along the axes of the result.
Numbers read(const FoldCall& call, const Sizes& strides, int64_t start = 0) {
  Numbers out;
  for_each_index(call.out_shape(),
                 [&](const Sizes& index) { out.push_back(call.in(0).data[start + dot(index, strides)]); });
  return out;
}

}  // namespace

Numbers view(FoldCall& call) { return call.in(0).data; }

Numbers expand(FoldCall& call) { return read(call, broadcast_strides(call.in(0).shape, call.out_shape())); }

Numbers permute(FoldCall& call) {
  const Sizes own = strides_of(call.in(0).shape);
  Sizes strides;
  for (const int64_t dim : call.attributes.integers("dims")) strides.push_back(own[from_front(dim, own.size())]);
  return read(call, strides);
}

Numbers tile(FoldCall& call) {
  const Integers& x = call.in(0);
  const Sizes own = strides_of(x.shape);
  Numbers out;
  for_each_index(call.out_shape(), [&](const Sizes& index) {
    int64_t at = 0;
    for (size_t i = 0; i < own.size(); ++i) at += index[i] % x.shape[i] * own[i];
    out.push_back(x.data[at]);
  });
  return out;
}

Numbers slice(FoldCall& call) {
  const Sizes& from = call.in(0).shape;
  if (count_of(call.out_shape()) == 0) return {};
  const Sizes starts = list_of(call, "starts", 1);
  Sizes all;
  for (size_t i = 0; i < starts.size(); ++i) all.push_back(static_cast<int64_t>(i));
  const Sizes axes = list_of(call, "axes", 3, all), steps = list_of(call, "steps", 4, Sizes(starts.size(), 1));
  Sizes strides = strides_of(from);
  int64_t start = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = from_front(axes[i], from.size()), n = from[axis];
    const int64_t given = starts[i] < 0 ? starts[i] + n : starts[i];
    start += std::clamp<int64_t>(given, 0, steps[i] > 0 ? n : n - 1) * strides[axis];
    strides[axis] = wrap(u(strides[axis]) * u(steps[i]));  // irrelevant if there is only one position
  }
  return read(call, strides, start);
}

Numbers split(FoldCall& call) {
  const Integers& x = call.in(0);
  const int64_t axis = axis_of(call, x.shape.size());
  const int64_t inner = strides_of(x.shape)[axis];
  Numbers out;
  int64_t begin = 0;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const int64_t length = call.out_shape(k)[axis] * inner;
    for (size_t row = 0; length > 0 && row < x.data.size(); row += x.shape[axis] * inner) {
      const auto first = x.data.begin() + static_cast<int64_t>(row) + begin;
      out.insert(out.end(), first, first + length);
    }
    begin += length;
  }
  return out;
}

Numbers concat(FoldCall& call) {
  const Sizes to = call.out_shape();
  const int64_t outer = count_of(Sizes(to.begin(), to.begin() + axis_of(call, to.size())));
  Numbers out;
  for (int64_t row = 0; row < outer; ++row) {
    for (const Integers* part : call.inputs) {
      const int64_t length = static_cast<int64_t>(part->data.size()) / outer;
      out.insert(out.end(), part->data.begin() + row * length, part->data.begin() + (row + 1) * length);
    }
  }
  return out;
}

// Negative pads remove elements.
Numbers pad(FoldCall& call) {
  const Integers& x = call.in(0);
  const Sizes before = list_of(call, "pads", 1), own = strides_of(x.shape);
  const Attribute* value = call.attributes.find("value");
  const auto filler = value == nullptr ? std::optional<int64_t>(0) : integer_element(*value, call.outputs[0].dtype);
  call.failed = !filler || call.attributes.text("mode") != "constant";
  if (call.failed) return {};
  Numbers out;
  for_each_index(call.out_shape(), [&](const Sizes& index) {
    int64_t at = 0;
    bool inside = true;
    for (size_t i = 0; i < own.size(); ++i) {
      const int64_t place = index[i] - before[i];
      inside = inside && place >= 0 && place < x.shape[i];
      at += place * own[i];
    }
    out.push_back(inside ? x.data[at] : *filler);
  });
  return out;
}

}  // namespace rannc::ir::ops::fold
