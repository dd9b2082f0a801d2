/// Gradient rules of products, attention, convolutions, pooling, resampling, normalisations, look-ups and losses.
/// Private to ir/op.
#pragma once

#include "ir/gradient/gradient.h"

namespace rannc::ir::ops::gradient {

// --- products (gradient_linear.cc)
bool matmul(GradientCall& call);
bool linear(GradientCall& call);

// --- windows (gradient_windows.cc)
/// Gives a bias that is added to each channel of [N, C, …] the sum of the gradient over that channel.
void give_channel_sums(GradientCall& call, size_t operand);
bool conv(GradientCall& call);
bool conv_transpose(GradientCall& call);
bool max_unpool(GradientCall& call);
bool max_pool(GradientCall& call);
bool avg_pool(GradientCall& call);
bool adaptive_avg_pool(GradientCall& call);

// --- resampling (gradient_resample.cc)
bool upsample(GradientCall& call);
bool grid_sample(GradientCall& call);

// --- attention, recurrent layers (grad_attention.cc, grad_recurrent.cc, with their operators)
bool attention(GradientCall& call);
bool lstm(GradientCall& call);

// --- normalisations and losses (gradient_norms.cc)
bool layer_norm(GradientCall& call);
bool rms_norm(GradientCall& call);
bool batch_norm(GradientCall& call);
/// Defined in grad_group_norm.cc with its operators.
bool group_norm(GradientCall& call);
bool cross_entropy_sum(GradientCall& call);
bool mse_sum(GradientCall& call);
bool huber_sum(GradientCall& call);
bool bce_with_logits_sum(GradientCall& call);

// --- look-ups, running sums, triangles (gradient_index.cc)
bool gather(GradientCall& call);
bool gather_nd(GradientCall& call);
bool gather_elements(GradientCall& call);
bool cumsum(GradientCall& call);
bool trilu(GradientCall& call);

// --- writing by position, orders (gradient_scatter.cc)
bool scatter_elements(GradientCall& call);
bool scatter_nd(GradientCall& call);
bool topk(GradientCall& call);

}  // namespace rannc::ir::ops::gradient
