/// Small graphs that hold what makes pipelines hard: skips, tied parameters, integer boundaries.
#pragma once

#include <array>

#include "ir/graph/graph.h"

namespace rannc::testing {

/// A linear layer's weights and other parameters are drawn from a fixed pseudo-random sequence.
/// x f[batch, 6], target f[batch, 6]:
///   a = relu(linear(x, w0, b0)); b = tanh(linear(a, w1, b1)); c = gelu(linear(b, w1, b2)) (w1 tied);
///   d = c + a (skip); y = linear(d, w2, b3); loss = sum (y - target)^2 / elements
/// Tasks: linear relu linear tanh linear gelu add linear mse_sum.
ir::Graph skip_and_tie(ir::DType dtype);

/// x f[batch, 6], target f[batch, 6]: three linear layers of one weight w, with a tanh and a sigmoid between them, then
/// one of a weight of its own, squared error. Tasks: linear tanh linear sigmoid linear linear mse_sum.
ir::Graph tied_thrice(ir::DType dtype);

/// Linear layers in a row, a task each, then the loss.
ir::Graph chain(ir::DType dtype, uint32_t layers);

/// tokens i64[batch, 5], labels i64[batch, 5]: embedding, a layer normalization, a scaled skip over two linear layers
/// and an unscaled one over all (so the embedded value has three readers), argmax of an intermediate value that a later
/// task gathers by (an integer boundary), logits by the transposed embedding (tied through a constant task), cross
/// entropy over tokens that are not ignored.
ir::Graph token_model(ir::DType dtype);

/// tokens i64[batch, 5], target f[batch, 5, 4]: embedding in a table of 8192 rows of 32 (16384 of 16 bits), linear,
/// tanh, squared error. The table is large enough for the engine to add gradients row by row. Tasks: gather linear tanh
/// mse_sum.
ir::Graph large_table(ir::DType dtype);

/// x f[batch, 6], target f[batch, 6]: linear, dropout, tanh, dropout, linear, squared error; both drop 40 %.
/// Tasks: linear mul tanh mul linear mse_sum.
ir::Graph dropout_model(ir::DType dtype);
/// The same with normal noise added in place of the first factor, and uniform factors in place of the second.
ir::Graph noise_model(ir::DType dtype);
/// x f[batch, 6], target f[batch, 6]: `skip_and_tie` with dropout of 25 % after the first and the second activation.
/// The skip reads the first activation before its dropout. Tasks: linear relu mul linear tanh mul linear gelu add
/// linear mse_sum.
ir::Graph skip_tie_and_dropout(ir::DType dtype);
/// The same with two more tasks behind the first two, a loss of the first activation. Its samples read a count, which
/// is a factor of the last loss too. The mean of the result is a metric, `mean`.
ir::Graph counted_losses(ir::DType dtype);

/// x f[batch, 3, 4], target f[batch, 3, 4]: batch normalization in training, tanh, a second one, squared error, with
/// buffers mean0, variance0, mean1, variance1 and momentum 0.3. Tasks: batch_norm tanh batch_norm mse_sum.
ir::Graph norm_model(ir::DType dtype);
/// The same with normalisations over all replicas.
ir::Graph joint_norm_model(ir::DType dtype);
/// x f[batch, 3, 4], target f[batch, 3, 4]: a product with a weight that a task permutes, a normalization over all
/// replicas, the same product again, squared error. Tasks: permute matmul batch_norm matmul mse_sum.
ir::Graph permuted_joint_model(ir::DType dtype);

/// x [batch,6] -> linear w0 -> tanh a -> linear w1 = y; the loss is mse_sum of y and half the sum of p * v + p, where p
/// [6] is the sum of a * a over samples. Tasks: linear tanh mul sum(p) linear mul(q) add sum mul(r) mse_sum add.
ir::Graph sums_model(ir::DType dtype);

/// x f[batch, 6] -> linear w b = v; y = v f0 + v f1 + v f2; the loss is the sum of y. The gradient of v is the sum of
/// the factors. Tasks: linear mul mul mul add add sum.
ir::Graph three_readers(ir::DType dtype, const std::array<double, 3>& factors);

/// x f[batch, 5, 16], target f[batch, 5, 16]: causal attention of two heads with 8 features each, whose queries, keys
/// and values are parts of one projection, and another projection, squared error. Tasks: linear split, three times
/// reshape permute, attention reshape linear mse_sum.
ir::Graph attention_model(ir::DType dtype);

}  // namespace rannc::testing
