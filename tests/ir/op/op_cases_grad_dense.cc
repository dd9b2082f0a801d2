// Calls of the operators that gradients of products, windows, normalisations, look-ups and losses are made of, and of
// those operators in odd shapes and with their auxiliary results.
#include "tests/ir/op/op_cases.h"

namespace rannc::ir::testing {
namespace {

const std::string kIo = "io";

void add_products(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"matmul", {f("4"), f("4")}},
      {"matmul", {f("4"), f("batch,2,4,5")}},
      {"matmul", {f("batch,2,3,4"), f("4")}},
      {"matmul", {f("4"), f("4,batch")}},
      {"matmul", {f("batch,4"), f("4")}},
      {"matmul", {f("batch,1,3,4"), f("2,4,5")}},
      {"matmul", {f("2,batch,4"), f("2,4,5")}},
      {"matmul", {f("2,batch,4"), f("4,5")}},
      {"matmul", {f("batch,2,3,4"), f("4,1")}},
      {"matmul", {f("batch,4"), f("2,4,5")}},
      {"matmul", {f("3,4"), f("4,batch")}},
      {"matmul", {f("2,3,4"), f("4,batch")}},
      {"matmul", {f("1,4"), f("batch,2,4,1")}},
      {"matmul", {f("3*batch,1"), f("1,2")}},
      {"matmul", {f("3,batch"), f("batch,5")}},
      {"matmul", {f("batch,2,3"), f("3,0")}},
      {"linear", {f("batch,3,4"), f("5,4"), f("1")}},
      {"linear", {f("batch,4"), f("5,4"), f("")}},
      {"linear", {f("batch,2,3,4"), f("4,5"), f("5")}, {{"layout", kIo}}},
      {"linear", {f("2,batch,4"), f("1,4"), f("1")}},
      {"linear", {f("4"), f("5,4"), f("5")}},
      {"linear", {f("batch,1"), f("1,3")}, {{"layout", kIo}}},
      {"linear", {f("3,4"), f("batch,4")}},
      {"linear", {f("2,3,4"), f("4,batch"), f("batch")}, {{"layout", kIo}}},
      {"linear", {f("3,batch"), f("batch,5")}, {{"layout", kIo}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_convolutions(std::vector<OpCase>& cases) {
  const Attributes strided = {{"strides", dims("2,1")}, {"pads", dims("1,1,1,1")}, {"groups", Dim(2)}};
  const Attributes uneven = {{"pads", dims("2,0")}, {"dilations", dims("2")}, {"strides", dims("2")}};
  const auto with = [](Attributes attributes, std::string_view name, std::string_view list) {
    attributes.set(std::string(name), dims(list));
    return attributes;
  };
  const std::vector<OpCase> more = {
      {"conv", {f("batch,2,9"), f("3,2,3"), f("3")}, uneven},
      {"conv", {f("batch,6,5,4"), f("6,1,3,3")}, {{"groups", Dim(6)}, {"pads", dims("1,1,1,1")}}},
      {"conv", {f("batch,3,5,4"), f("4,3,1,1"), f("4")}, {{"strides", dims("3,2")}}},
      {"conv", {f("batch,2,4,5,6"), f("2,1,2,2,3"), f("2")}, {{"groups", Dim(2)}, {"pads", dims("0,1,2,1,1,0")}}},
      {"conv", {f("batch,1,1"), f("1,1,1"), f("1")}},
      {"conv", {f("2,2,6"), f("3,2,3"), f("3")}},
      {"conv_grad_input", {f("batch,6,5,8"), f("6,2,3,3")}, with(strided, "sizes", "9,8")},
      {"conv_grad_input", {f("batch,3,4"), f("3,2,3")}, with(uneven, "sizes", "9")},
      {"conv_grad_input", {f("batch,3,3,4,5"), f("3,2,2,2,2")}, {{"sizes", dims("4,5,6")}}},
      {"conv_grad_weight", {f("batch,6,5,8"), f("batch,4,9,8")}, with(strided, "kernel", "3,3")},
      {"conv_grad_weight", {f("batch,3,4"), f("batch,2,9")}, with(uneven, "kernel", "3")},
      {"conv_grad_weight", {f("2,3,4"), f("2,2,6")}, {{"kernel", dims("3")}}},
      {"conv_grad_input", {f("batch,3,4,5"), f("3,2,3,2")}, {{"sizes", dims("6,6")}, {"channels_last", true}}},
      {"conv_grad_weight", {f("batch,3,4,5"), f("batch,2,6,6")}, {{"kernel", dims("3,2")}, {"channels_last", true}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_pools(std::vector<OpCase>& cases) {
  const Attributes even = {{"kernel", dims("3,2")}, {"strides", dims("2,2")}, {"pads", dims("1,0,1,0")}};
  const Attributes ceil = {{"kernel", dims("2,3")}, {"strides", dims("2,2")}, {"ceil", true}};
  const Attributes uneven = {
      {"kernel", dims("2,3")}, {"strides", dims("3,2")}, {"pads", dims("0,1,2,0")}, {"ceil", true}};
  const Attributes line = {{"kernel", dims("2")}, {"strides", dims("3")}, {"pads", dims("0,2")}, {"ceil", true}};
  const Attributes wide = {{"kernel", dims("2")}, {"pads", dims("2,1")}, {"dilations", dims("2")}};
  const Attributes cube = {{"kernel", dims("2,2,3")}, {"pads", dims("1,0,1,1,0,1")}};
  const auto with = [](Attributes attributes, std::string_view name, Attribute value) {
    attributes.set(std::string(name), std::move(value));
    return attributes;
  };
  const auto counted = [&](const Attributes& attributes) { return with(attributes, "count_include_pad", true); };
  const std::vector<OpCase> more = {
      {"max_pool", {f("batch,2,7,6")}, even, 2},
      {"max_pool", {f("batch,2,7,8")}, ceil, 2},
      {"max_pool", {f("batch,2,5,6")}, uneven, 2},
      {"max_pool", {f("batch,2,5")}, line, 2},
      {"max_pool", {f("batch,2,5")}, wide, 2},
      {"max_pool", {f("batch,2,5,4,6")}, cube, 2},
      {"max_pool", {f("batch,1,6")}, {{"kernel", dims("3")}, {"pads", dims("1,1")}, {"strides", dims("2")}}, 2},
      {"max_pool_grad_input", {f("batch,2,4,3"), i("batch,2,4,3", 0, 42)}, with(even, "sizes", dims("7,6"))},
      {"max_pool_grad_input", {f("batch,2,2,3"), i("batch,2,2,3", 0, 35)}, with(uneven, "sizes", dims("5,6"))},
      {"max_pool_grad_input", {f("batch,2,2"), i("batch,2,2", 0, 5)}, with(line, "sizes", dims("5"))},
      {"max_pool", {f("batch,2,7,6")}, with(even, "channels_last", true), 2},
      {"avg_pool", {f("batch,2,7,8")}, with(ceil, "channels_last", true)},
      {"adaptive_avg_pool", {f("batch,2,4,5")}, {{"size", dims("2,2")}, {"channels_last", true}}},
      {"avg_pool", {f("batch,2,7,8")}, ceil},
      {"avg_pool", {f("batch,2,5,6")}, counted(uneven)},
      {"avg_pool", {f("batch,2,6")}, {{"kernel", dims("3")}, {"pads", dims("1,1")}, {"strides", dims("2")}}},
      {"avg_pool", {f("batch,2,5,4,6")}, {{"kernel", dims("2,2,3")}, {"pads", dims("1,0,1,1,0,1")}}},
      {"avg_pool_grad_input", {f("batch,2,4,4")}, with(ceil, "sizes", dims("7,8"))},
      {"avg_pool_grad_input", {f("batch,2,2,3")}, with(counted(uneven), "sizes", dims("5,6"))},
      {"avg_pool_grad_input", {f("batch,2,2")}, with(counted(line), "sizes", dims("5"))},
      {"adaptive_avg_pool", {f("batch,2,7")}, {{"size", dims("3")}}},
      {"adaptive_avg_pool", {f("batch,2,4,5,6")}, {{"size", dims("3,1,4")}}},
      {"adaptive_avg_pool", {f("batch,2,4,5")}, {{"size", dims("1,1")}}},
      {"adaptive_avg_pool_grad_input", {f("batch,2,3,2")}, {{"sizes", dims("7,6")}}},
      {"adaptive_avg_pool_grad_input", {f("batch,2,3")}, {{"sizes", dims("7")}}},
      {"adaptive_avg_pool_grad_input", {f("batch,2,3,1,4")}, {{"sizes", dims("4,5,6")}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_norms(std::vector<OpCase>& cases) {
  const Operand channels = f("3");
  const Attributes training = {{"training", true}};
  const std::vector<OpCase> more = {
      {"layer_norm", {f("batch,3,4"), f("4"), f("4")}, {}, 3},
      {"layer_norm", {f("4,batch,3,2"), f("3,2"), f("3,2")}, {{"axis", Dim(2)}}, 2},
      {"layer_norm", {f("batch,3,4")}, {}, 3},
      {"layer_norm", {f("batch,3,4"), none(), f("4")}, {}, 3},
      {"layer_norm", {f("3,4"), f("3,4")}, {{"axis", Dim(0)}}, 3},
      {"layer_norm_grad_input", {f("batch,3,4"), f("batch,3,4"), f("batch,3,1"), f("batch,3,1"), f("4")}},
      {"layer_norm_grad_input", {f("batch,3,4"), f("batch,3,4"), f("batch,1,1"), f("batch,1,1")}, {{"axis", Dim(1)}}},
      {"layer_norm_grad_scale", {f("batch,3,4"), f("batch,3,4"), f("batch,3,1"), f("batch,3,1")}},
      {"rms_norm", {f("batch,3,4"), f("4")}, {}, 2},
      {"rms_norm", {f("2,batch,3,4"), f("3,4")}, {{"axis", Dim(-2)}}, 2},
      {"rms_norm", {f("batch,3,4")}, {{"epsilon", 1e-3}}, 2},
      {"rms_norm", {f("4"), f("4")}, {}, 2},
      {"rms_norm_grad_input", {f("batch,3,4"), f("batch,3,4"), f("batch,3,1"), f("4")}},
      {"rms_norm_grad_input", {f("batch,3,4"), f("batch,3,4"), f("batch,1,1")}, {{"axis", Dim(1)}}},
      {"rms_norm_grad_scale", {f("batch,3,4"), f("batch,3,4"), f("batch,3,1")}},
      {"rms_norm_grad_scale", {f("4"), f("4"), f("1")}},
      {"batch_norm", {f("batch,3"), channels, channels, channels, channels}},
      {"batch_norm", {f("batch,3,4"), channels, channels, channels, channels}, {}, 5},
      {"batch_norm", {f("batch,3,4"), channels, channels, channels, channels}, training, 5, false},
      {"batch_norm", {f("batch,3,2,2,2"), channels, channels, channels, channels}, training, 5, false},
      {"batch_norm_grad_input", {f("batch,3,4"), f("batch,3,4"), channels, channels, channels}, {}, 1, false},
      {"batch_norm_grad_scale", {f("batch,3,4"), f("batch,3,4"), channels, channels}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_lookups(std::vector<OpCase>& cases) {
  const std::vector<OpCase> more = {
      {"gather", {f("9,4"), i("batch,2,3", -9, 9)}},
      {"gather", {f("3,4"), i("batch", -3, 3)}, {{"axis", Dim(1)}}},
      {"gather", {f("7"), i("batch,2", -7, 7)}},
      {"gather", {f("batch,2,4"), i("2,0", 0, 1)}, {{"axis", Dim(1)}}},
      {"gather", {f("2,5*batch,4"), i("3", -2, 2)}},
      {"gather", {f("1,4"), i("batch", -1, 1)}},
      {"gather_grad_input", {f("batch,3,4"), i("batch,3", -9, 9)}, {{"sizes", dims("9,4")}}},
      {"gather_grad_input", {f("batch,3,4"), i("3", -5, 5)}, {{"axis", Dim(1)}, {"sizes", dims("batch,5,4")}}},
      {"gather_grad_rows", {f("batch,3,4"), i("batch,3", -9, 9)}, {{"sizes", dims("9,4")}}},
      {"gather_grad_rows", {f("batch,4"), i("batch", 0, 9)}, {{"sizes", dims("9,4")}, {"padding_index", Dim(2)}}},
      {"gather_grad_input", {f("batch,4"), i("", -5, 5)}, {{"axis", Dim(1)}, {"sizes", dims("batch,5,4")}}},
      {"gather_nd", {f("3,4"), i("batch,5,2", -3, 3)}},
      {"gather_nd", {f("batch,2,4,5"), i("batch,2,3,1", -4, 4)}, {{"batch_dims", Dim(2)}}},
      {"gather_nd_grad_input", {f("batch,2,5"), i("batch,2,2", -3, 3)}, {{"sizes", dims("3,4,5")}}},
      {"gather_nd_grad_input",
       {f("batch,2,5"), i("batch,2,1", -4, 4)},
       {{"batch_dims", Dim(1)}, {"sizes", dims("batch,4,5")}}},
      {"gather_elements", {f("batch,5,2"), i("batch,7,2", -5, 5)}, {{"axis", Dim(-2)}}},
      {"gather_elements", {f("3,batch"), i("2,batch", -3, 3)}},
      {"gather_elements_grad_input",
       {f("batch,7"), i("batch,7", -5, 5)},
       {{"axis", Dim(1)}, {"sizes", dims("batch,5")}}},
      {"cumsum", {f("batch,5")}, {{"axis", Dim(1)}, {"exclusive", true}}},
      {"cumsum", {f("3,batch,2")}, {{"axis", Dim(0)}, {"exclusive", true}, {"reverse", true}}},
      {"cumsum", {f("batch,5")}, {{"axis", Dim(1)}, {"reverse", true}}},
      {"trilu", {f("batch,4,5")}, {{"upper", false}, {"diagonal", Dim(-2)}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_losses(std::vector<OpCase>& cases) {
  const Attributes middle = {{"axis", Dim(1)}, {"ignore_index", Dim(2)}};
  const std::vector<OpCase> more = {
      {"cross_entropy_sum", {f("batch,5"), i("batch", 0, 5)}, {}, 2},
      {"cross_entropy_sum", {f("batch,5,3"), i("batch,3", 0, 5)}, middle, 2},
      {"cross_entropy_sum", {f("5,batch"), i("batch", 0, 5)}, {{"axis", Dim(0)}}, 2},
      {"cross_entropy_sum", {f("batch,3,1"), i("batch,3", 0, 1)}, {{"ignore_index", Dim(0)}}, 2},
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,5"), i("batch", 0, 5)}},
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,3,5"), i("batch,3", 0, 5)}, middle},
      {"cross_entropy_sum_grad_logits", {f(""), f("batch,5"), i("batch", 0, 5)}, {{"axis", Dim(0)}}},
      {"mse_sum", {f("batch,5,2"), f("batch,5,2")}},
      {"mse_sum", {f("4"), f("4")}},
      {"mse_sum_grad_prediction", {f(""), f("batch,5"), f("batch,5")}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

void add_grad_dense(std::vector<OpCase>& cases) {
  add_products(cases);
  add_convolutions(cases);
  add_pools(cases);
  add_norms(cases);
  add_lookups(cases);
  add_losses(cases);
}

}  // namespace rannc::ir::testing
