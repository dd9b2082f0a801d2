// Selection of a convolution's kernel from its sizes.
#include "ir/op/kernel_scratch.h"

#include <algorithm>
#include <optional>

#include "ir/graph/memory_format.h"
#include "ir/match/match.h"
#include "ir/op/rules/convolution_scratch.h"
#include "ir/op/rules/windows.h"

namespace rannc::ir {

namespace {

using ops::ConvPeaks;
using ops::ConvSizes;
using Sizes = std::vector<int64_t>;

bool is_transposed(const OpInfo& op) {
  static const Ops kTransposed{"conv_transpose"};
  return kTransposed.contains(op);
}

/// Whether a task makes a value channels last.
bool is_copied_last(const Graph& graph, ValueId value) {
  static const Ops kCopies{"contiguous"};
  const TaskId maker = graph.producer(value);
  return maker.valid() && kCopies.contains(graph.op(maker)) &&
         OpAttributes(graph.op(maker), graph.attributes(maker)).flag(kChannelsLast);
}

std::optional<Sizes> sizes_of(const ValueType& type, const Bindings& sizes) {
  if (!type.shape) return std::nullopt;
  Sizes found;
  for (const Dim& dim : *type.shape) {
    const auto size = dim.evaluate(sizes);
    if (!size) return std::nullopt;
    found.push_back(*size);
  }
  return found;
}

/// LibTorch's rule for one thread: it runs single small images, and pointwise kernels of few images, itself.
bool calls_one_dnn(const ConvSizes& conv, const Sizes& read, const ops::Window& window) {
  constexpr int64_t kManyImages = 16, kLargeImage = 20480;
  const bool last_two_pointwise = conv.taps() == 1;
  if (last_two_pointwise && !conv.strided() && !conv.dilated() && conv.samples < kManyImages) return false;
  int64_t leading = 1;
  for (size_t i = 0; i < std::min<size_t>(read.size(), 4); ++i) leading *= read[i];
  const size_t rank = window.rank();
  const bool wide = rank > 1 && window.kernel[rank - 1] > 3 && window.kernel[rank - 2] > 3;
  return conv.groups > 1 || wide || conv.samples > 1 || leading > kLargeImage;
}

/// Sizes of a convolution; nothing unless the operands have rank 3 to 5 and known sizes.
std::optional<ConvSizes> conv_sizes(const Graph& graph, TaskId task, const Bindings& bindings) {
  const auto operands = graph.inputs(task);
  const ValueType& type = graph.type(operands[0]);
  const auto read = sizes_of(type, bindings), filter = sizes_of(graph.type(operands[1]), bindings),
             made = sizes_of(graph.type(graph.outputs(task)[0]), bindings);
  if (!read || !filter || !made || read->size() < 3 || filter->size() != read->size()) return std::nullopt;
  const OpAttributes attributes(graph.op(task), graph.attributes(task));
  const auto window = ops::window_of(attributes, Sizes(filter->begin() + 2, filter->end()));
  if (!window.ok()) return std::nullopt;
  ConvSizes conv;
  conv.transposed = is_transposed(graph.op(task));
  conv.samples = (*read)[0];
  conv.groups = attributes.integer("groups");
  conv.element_bytes = static_cast<int64_t>(byte_size(type.dtype));
  conv.channels_last = graph.op(task).attribute(kChannelsLast) != nullptr && attributes.flag(kChannelsLast);
  conv.weight_last = conv.channels_last && is_copied_last(graph, operands[1]);
  // Other pads are applied by a separate call.
  const bool pads = conv.transposed || window->symmetric();
  Sizes padded = *read;
  for (size_t i = 0; !pads && i < window->rank(); ++i) padded[i + 2] += window->begin[i] + window->end[i];
  const Sizes &x = conv.transposed ? *made : padded, &y = conv.transposed ? *read : *made;
  conv.in = x[1];
  conv.out = y[1];
  for (size_t i = 0; i < window->rank(); ++i) {
    conv.axes.push_back(
        {x[i + 2], y[i + 2], window->kernel[i], window->strides[i], window->dilations[i], pads ? window->begin[i] : 0});
  }
  conv.one_dnn = type.dtype == DType::kF32 && calls_one_dnn(conv, padded, *window);
  return conv;
}

KernelScratch scratch(const Graph& graph, TaskId task, uint64_t wanted, const Bindings& sizes, InstructionSet set) {
  auto conv = conv_sizes(graph, task, sizes);
  if (!conv || conv->groups < 1 || conv->samples < 1) return {};
  const OpAttributes attributes(graph.op(task), graph.attributes(task));
  const std::string algorithm = attributes.declares(kAlgorithm) ? attributes.text(kAlgorithm) : "any";
  if (algorithm == "linear") return {};
  if (algorithm == "onednn") conv->one_dnn = true;
  conv->instructions = set;
  const ConvPeaks peaks = ops::conv_peaks(*conv);
  const bool turned = conv->transposed;
  const int64_t operand = turned ? conv->y_bytes() : conv->x_bytes();
  const int64_t result = turned ? conv->x_bytes() : conv->y_bytes();
  const int64_t weight = conv->weight_bytes();
  const bool wants_operand = (wanted & 1) != 0, wants_weight = (wanted & 2) != 0;
  int64_t backward = wants_operand ? (turned ? peaks.output : peaks.input_gradient) : 0;
  const int64_t given = wants_operand ? operand : 0;
  if (wants_weight) backward = std::max(backward, given + peaks.weight_gradient);
  return {std::max<int64_t>(0, (turned ? peaks.input_gradient : peaks.output) - result),
          std::max<int64_t>(0, backward - given - (wants_weight ? weight : 0))};
}

}  // namespace

bool has_kernel_scratch(const OpInfo& op) {
  static const Ops kConvolution{"conv"};
  return kConvolution.contains(op) || is_transposed(op);
}

uint64_t convolution_gradient(const OpInfo& op) {
  static const Ops kOfImages{"conv_grad_input"}, kOfWeight{"conv_grad_weight"};
  return kOfImages.contains(op) ? 1 : kOfWeight.contains(op) ? 2 : 0;
}

KernelScratch kernel_scratch(const Graph& graph, TaskId task, uint64_t wanted, const Bindings& sizes,
                             std::span<const InstructionSet> sets) {
  KernelScratch largest;
  for (const InstructionSet set : sets) {
    const KernelScratch found = scratch(graph, task, wanted, sizes, set);
    largest.forward = std::max(largest.forward, found.forward);
    largest.backward = std::max(largest.backward, found.backward);
  }
  return largest;
}

}  // namespace rannc::ir
