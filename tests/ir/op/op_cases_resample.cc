// Calls of the operators that resample or spread elements over windows, and of their gradients.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

Attributes with(Attributes attributes, const Attributes& more) {
  for (const auto& [name, value] : more) attributes.set(name, value);
  return attributes;
}

void add_transposed(std::vector<OpCase>& cases) {
  const Attributes strided = {{"strides", dims("2,1")}, {"pads", dims("1,1,1,1")}, {"groups", Dim(2)}};
  const Attributes uneven = {{"pads", dims("2,0")}, {"strides", dims("2")}, {"output_padding", dims("1")}};
  // More is added than a stride: elements that no window of the gradient reaches.
  const Attributes late = {{"dilations", dims("4,1")}, {"output_padding", dims("3,0")}, {"strides", dims("2,1")}};
  const std::vector<OpCase> more = {
      {"conv_transpose", {f("batch,4,5,4"), f("4,3,3,3"), f("6")}, strided},
      {"conv_transpose", {f("batch,2,3,4"), f("2,3,2,2"), f("3")}, {{"strides", dims("2,2")}}},
      {"conv_transpose", {f("batch,2,5"), f("2,3,3"), f("3")}, uneven},
      {"conv_transpose", {f("batch,2,5"), f("2,3,3")}, {{"pads", dims("0,1")}, {"dilations", dims("2")}}},
      {"conv_transpose", {f("batch,2,3,4"), f("2,1,2,2"), f("2")}, with(late, {{"groups", Dim(2)}})},
      {"conv_transpose", {f("batch,2,2,3,4"), f("2,1,2,1,3"), f("1")}, {{"pads", dims("0,0,1,1,0,1")}}},
      {"conv_transpose", {f("batch,4,2,3,2"), f("4,2,2,2,2")}, {{"strides", dims("2,2,2")}, {"groups", Dim(2)}}},
      {"conv_transpose", {f("2,2,3"), f("2,3,2")}},
      {"conv_transpose", {f("batch,1,1"), f("1,1,1"), f("1")}},
      {"max_unpool", {f("batch,2,1,1"), i("batch,2,1,1", 0, 24)}, {{"sizes", dims("4,6")}}},
      {"max_unpool", {f("batch,2,1"), i("batch,2,1", 0, 5)}, {{"sizes", dims("5")}}},
      {"max_unpool", {f("batch,1,1,1,1"), i("batch,1,1,1,1", 0, 8)}, {{"sizes", dims("2,2,2")}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

/// To sizes, in a mode.
Attributes to(std::string_view sizes, const char* mode, const Attributes& more = {}) {
  return with({{"sizes", dims(sizes)}, {"mode", std::string(mode)}}, more);
}

void add_upsampling(std::vector<OpCase>& cases) {
  const Attributes corners = {{"align_corners", true}};
  for (const char* mode : {"nearest", "nearest_exact", "linear"}) {
    cases.push_back({"upsample", {f("batch,2,5")}, to("8", mode)});
    cases.push_back({"upsample", {f("batch,2,4,5")}, to("9,3", mode)});
    cases.push_back({"upsample", {f("batch,1,3,2,4")}, to("5,4,3", mode)});
    cases.push_back({"upsample", {f("batch,2,5")}, to("8", mode, {{"scale_w", 1.7}})});
    cases.push_back({"upsample", {f("batch,2,4,5")}, to("6,7", mode, {{"scale_h", 1.6}, {"scale_w", 1.4}})});
    cases.push_back({"upsample_grad_input", {f("batch,2,8")}, to("5", mode, {{"scale_w", 1.7}})});
    cases.push_back({"upsample_grad_input", {f("batch,2,9,3")}, to("4,5", mode)});
    cases.push_back({"upsample_grad_input", {f("batch,1,5,4,3")}, to("3,2,4", mode)});
  }
  const std::vector<OpCase> more = {
      {"upsample", {f("batch,2,5")}, to("8", "linear", corners)},
      {"upsample", {f("batch,2,4,5")}, to("9,3", "linear", corners)},
      {"upsample", {f("2,1,3,2,4")}, to("5,4,3", "linear", corners)},
      {"upsample", {f("batch,2,4,5")}, to("8,3", "cubic")},
      {"upsample", {f("batch,2,4,5")}, to("8,3", "cubic", corners)},
      {"upsample", {f("batch,2,4,5")}, to("6,7", "cubic", {{"scale_h", 1.6}, {"scale_w", 1.4}})},
      {"upsample", {f("batch,2,6,5")}, to("3,7", "linear_antialias")},
      {"upsample", {f("batch,2,6,5")}, to("3,2", "cubic_antialias")},
      {"upsample_grad_input", {f("batch,2,8,3")}, to("4,5", "cubic", corners)},
      {"upsample_grad_input", {f("batch,2,3,7")}, to("6,5", "linear_antialias")},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

// Extents at which the edges of elements have coordinates that are no eighths: the suites draw none near those.
void add_grids(std::vector<OpCase>& cases) {
  const Attributes corners = {{"align_corners", true}};
  const auto in = [](const char* mode, const char* padding, const Attributes& more = {}) {
    return with({{"mode", std::string(mode)}, {"padding", std::string(padding)}}, more);
  };
  for (const char* padding : {"zeros", "border", "reflection"}) {
    for (const char* mode : {"linear", "nearest", "cubic"}) {
      cases.push_back({"grid_sample", {f("batch,2,4,2"), f("batch,3,2,2")}, in(mode, padding)});
      cases.push_back({"grid_sample", {f("batch,1,5,3"), f("batch,2,2,2")}, in(mode, padding, corners)});
    }
    for (const char* mode : {"linear", "nearest"}) {
      cases.push_back({"grid_sample", {f("batch,2,2,4,2"), f("batch,1,3,2,3")}, in(mode, padding)});
      cases.push_back({"grid_sample", {f("batch,1,3,5,3"), f("batch,2,1,2,3")}, in(mode, padding, corners)});
    }
  }
  const Attributes sizes = {{"sizes", dims("4,2")}}, deep = {{"sizes", dims("2,4,2")}};
  const std::vector<OpCase> more = {
      {"grid_sample", {f("2,1,4,2"), f("2,3,2,2")}},
      {"grid_sample_grad_input", {f("batch,2,3,1"), f("batch,3,1,2")}, sizes},
      {"grid_sample_grad_input", {f("batch,1,3,1,2"), f("batch,3,1,2,3")}, with(deep, in("nearest", "border"))},
      {"grid_sample_grad_grid", {f("batch,2,3,1"), f("batch,2,4,2"), f("batch,3,1,2")}, in("cubic", "zeros")},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

void add_resample(std::vector<OpCase>& cases) {
  add_transposed(cases);
  add_upsampling(cases);
  add_grids(cases);
}

}  // namespace rannc::ir::testing
