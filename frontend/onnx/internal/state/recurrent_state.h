/// Says how the parameters of a recurrent module lie in the tensors of ONNX's LSTM, GRU and RNN.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Names of torch.nn.LSTM, GRU and RNN: `lstm.weight_ih_l0`, `lstm.bias_hh_l1_reverse`, of operand 1 (weights of the
/// inputs, [D, G·H, I]), 2 (of the states, [D, G·H, H]) or 3 (both biases, [D, 2·G·H]) of the node for layer `layer` of
/// `module`; empty where shapes are not as expected. PyTorch's gates stand in another order than ONNX's: i f g o and i
/// o f c, r z n and z r h.
std::vector<ir::StateTensor> recurrent_state(const ir::Graph& graph, std::string_view op, ValueId value,
                                             uint32_t operand, const std::string& module, size_t layer);

}  // namespace rannc::frontend
