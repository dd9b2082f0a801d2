/// Translates ONNX convolutions.
#include <algorithm>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "frontend/onnx/internal/translate/window.h"

namespace rannc::frontend {

namespace {

void conv(Node& node) {
  const ValueId weight = node.in(1);
  const auto window = read_free_window(node, node.in(0), kernel_of(node, weight));
  if (!window) return;
  std::vector<ValueId> operands = {padded(node, node.in(0), *window, 0), weight};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result("conv", operands,
              {{"strides", list(window->strides)},
               {"pads", list(window->pads)},
               {"dilations", list(window->dilations)},
               {"groups", ir::Dim(node.integer("group", 1))}});
}

/// Sets the pads of an axis so that the result has that length. If windows do not reach that far, adds elements at the
/// end.
void fit_length(Node& node, size_t axis, const ir::Dim& length, Window& window, int64_t& added) {
  const ir::Dim from = (*node.shape(node.in(0)))[axis + 2];
  const ir::Dim reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1 + added;
  const ir::Dim total = ir::Dim(window.strides[axis]) * (from - ir::Dim(1)) + reach - length;
  if (!total.is_constant()) {
    return node.fail(node.op() + ": the pads of axis " + std::to_string(axis + 2) + " would be " + total.str() +
                     "; they must be plain integers");
  }
  const int64_t pads = std::max<int64_t>(total.constant(), 0);
  const bool upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER";
  added += pads - total.constant();
  window.pads[axis] = upper ? pads / 2 : pads - pads / 2;
  window.pads[axis + window.kernel.size()] = pads - window.pads[axis];
}

/// Returns the requested lengths: `output_shape`, which overrides pads, or strides times the operand's. Empty: none.
ir::Shape requested_lengths(Node& node, const Window& window) {
  const ir::Shape from = *node.shape(node.in(0));
  if (node.has_attribute("output_shape")) {
    const ir::Shape given = list(node.integers("output_shape"));
    const size_t n = window.kernel.size();
    if (given.size() == n) return given;
    if (given.size() == n + 2) return ir::Shape(given.begin() + 2, given.end());  // some exporters write all axes
    node.fail(node.op() + ": output_shape does not fit " + std::to_string(n) + " spatial axes");
    return {};
  }
  if (!node.text("auto_pad", "NOTSET").starts_with("SAME")) return {};
  ir::Shape lengths;
  for (size_t i = 0; i < window.kernel.size(); ++i) lengths.push_back(from[i + 2] * ir::Dim(window.strides[i]));
  return lengths;
}

void conv_transpose(Node& node) {
  const ValueId x = node.in(0), weight = node.in(1);
  const ir::Shape* const from = node.shape(x);
  if (!from) return;
  auto window = read_geometry(node, from->size(), kernel_of(node, weight));
  if (!window) return;
  std::vector<int64_t> added = node.integers("output_padding");
  if (added.empty()) added.assign(window->kernel.size(), 0);
  if (added.size() != window->kernel.size()) return node.fail("ConvTranspose: output_padding does not fit its axes");
  const ir::Shape lengths = requested_lengths(node, *window);
  for (size_t i = 0; i < lengths.size() && node.good(); ++i) fit_length(node, i, lengths[i], *window, added[i]);
  std::vector<ValueId> operands = {x, weight};
  if (node.has(2)) operands.push_back(node.in(2));
  node.result("conv_transpose", operands,
              {{"strides", list(window->strides)},
               {"pads", list(window->pads)},
               {"dilations", list(window->dilations)},
               {"output_padding", list(added)},
               {"groups", ir::Dim(node.integer("group", 1))}});
}

/// Geometry of a Col2Im from columns [N, C * block, windows] to images [N, C, …].
struct Columns {
  Window window;
  ir::Shape image;  ///< extents
  int64_t taps = 1;
  ir::Dim samples, channels;
};

/// Sums columns into images by a transposed convolution whose weight selects one column per window element.
void spread_columns(Node& node, ValueId x, const Columns& columns) {
  const Window& window = columns.window;
  const size_t n = window.kernel.size();
  ir::Shape apart = {columns.samples * columns.channels, ir::Dim(columns.taps)};
  ir::Shape to = {columns.samples, columns.channels};
  to.insert(to.end(), columns.image.begin(), columns.image.end());
  std::vector<int64_t> added, weight_shape = {columns.taps, 1};
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1 - window.pads[i] - window.pads[i + n];
    const ir::Dim stride = window.strides[i];
    apart.push_back(floor_div(columns.image[i] - ir::Dim(reach), stride) + ir::Dim(1));
    const ir::Dim rest = columns.image[i] - (apart.back() - ir::Dim(1)) * stride - ir::Dim(reach);
    if (!rest.is_constant()) return node.fail("Col2Im to an image of unknown size needs strides of 1");
    added.push_back(rest.constant());
    weight_shape.push_back(window.kernel[i]);
  }
  std::vector<double> weight(static_cast<size_t>(columns.taps * columns.taps), 0.0);
  for (int64_t i = 0; i < columns.taps; ++i) weight[static_cast<size_t>(i * columns.taps + i)] = 1;
  const ValueId pixels = node.emit("reshape", {x}, {{"shape", apart}});
  const ValueId spread = node.emit("conv_transpose", {pixels, node.table("pick", node.dtype(x), weight_shape, weight)},
                                   {{"strides", list(window.strides)},
                                    {"pads", list(window.pads)},
                                    {"dilations", list(window.dilations)},
                                    {"output_padding", list(added)}});
  node.result("reshape", {spread}, {{"shape", to}});
}

void col2im(Node& node) {
  const ValueId x = node.in(0);
  const ir::Shape* const from = node.shape(x);
  const auto image = node.contents(node.in(1));
  const auto kernel = node.integers(node.in(2));
  if (!from) return;
  if (!image || !kernel || from->size() != 3 || image->size() != kernel->size()) {
    return node.fail("Col2Im needs columns of rank 3, and known sizes of image and block, one per axis");
  }
  const auto window = read_geometry(node, kernel->size() + 2, *kernel);
  if (!window) return;
  Columns columns{*window, *image};
  constexpr int64_t kMost = 1024;
  for (const int64_t k : *kernel) columns.taps = k > kMost / columns.taps ? kMost + 1 : columns.taps * k;
  const auto channels = exact_div((*from)[1], ir::Dim(columns.taps));
  if (columns.taps > kMost || !channels) {
    return node.fail("Col2Im: " + (*from)[1].str() + " rows must be a multiple of the number of elements of a block," +
                     " which is at most " + std::to_string(kMost));
  }
  columns.samples = (*from)[0];
  columns.channels = *channels;
  spread_columns(node, x, columns);
}

}  // namespace

std::span<const Translator> convolution_translators() {
  static constexpr Translator kTable[] = {
      {"Col2Im", 18, 27, col2im},
      {"Conv", 7, 27, conv},
      {"ConvTranspose", 7, 27, conv_transpose},
  };
  return kTable;
}

}  // namespace rannc::frontend
