/// Maps the parameters of a recurrent module to the tensors of ONNX's LSTM, GRU and RNN.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Returns the parameters of torch.nn.LSTM, GRU and RNN (`lstm.weight_ih_l0`, `lstm.bias_hh_l1_reverse`) in operand 1
/// (input weights, [D, G·H, I]), 2 (state weights, [D, G·H, H]) or 3 (both biases, [D, 2·G·H]) of the node for layer
/// `layer` of `module`. Returns an empty list for unexpected shapes. PyTorch's gate order i f g o is i o f c in ONNX,
/// and r z n is z r h.
std::vector<ir::StateTensor> recurrent_state(const ir::Graph& graph, std::string_view op, ValueId value,
                                             uint32_t operand, const std::string& module, size_t layer);

}  // namespace rannc::frontend
