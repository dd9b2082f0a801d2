"""Losses for `loss_folders`: those that are no linear form, ways to write a divisor, and the losses of torch.nn.functional."""
import collections

# By loss, what the error that refuses micro-batches names: the task, and the sums that it joins.
NOT_LINEAR = {
    "(F.binary_cross_entropy_with_logits(p, b, reduction='none') * (p > 0)).sum() / (p > 0).sum()": ["div", "sum_1", "sum_2"],
    "F.mse_loss(p, b, reduction='sum') / p.detach().abs().sum()": ["div", "mse_loss", "sum_1"],
    "(p - b).abs().sum() / torch.sigmoid(p).round().sum().clamp(min=1)": ["div", "sum_1", "sum_2"],
    "F.mse_loss(p, b).sqrt()": ["sqrt", "mse_loss"],
    "F.mse_loss(p, b) * p.abs().mean()": ["mul", "mse_loss", "mean"],
    "F.mse_loss(p, b) * F.mse_loss(p, b)": ["mul", "mse_loss", "mse_loss_1"],
    "torch.maximum(F.mse_loss(p, b), p.abs().mean())": ["maximum", "mse_loss", "mean"],
    "1 - 2 * (torch.sigmoid(p) * b).sum() / (torch.sigmoid(p).sum() + b.sum())": ["div", "sum_1", "sum_2"],
    "F.cross_entropy(F.normalize(p, dim=1) @ F.normalize(torch.tanh(p), dim=1).T / 0.5, torch.arange(x.size(0)))": ["matmul"],
}

TOKENS = "F.cross_entropy(z.transpose(1, 2), y, reduction='none')"
SQUARES = "((p - t.nan_to_num()) ** 2)"

DIVISORS = [
    f"({SQUARES} * m).sum() / m.sum()",
    f"({SQUARES} * m).sum() / m.sum().clamp(min=1)",
    f"({SQUARES} * m).sum() / (m.sum() + 1e-8)",
    f"({SQUARES} * k).sum() / torch.clamp(k.sum(), min=1)",
    f"({SQUARES} * k).sum() / k.sum()",
    f"({SQUARES} * k).sum() / torch.count_nonzero(k)",
    f"({SQUARES} * k).sum() / k.float().mean() / k.numel()",
    f"({SQUARES} * k).sum() / len(k.nonzero())",
    f"{SQUARES}[k].mean()",
    f"{SQUARES}.masked_select(k).mean()",
    f"({SQUARES} * t.isfinite()).sum() / t.isfinite().sum()",
    f"({SQUARES} * ~t.isnan()).sum() / (~t.isnan()).sum().float()",
    f"{TOKENS}.sum() / (y != -100).sum()",
    f"{TOKENS}.sum() / y.ne(-100).float().sum()",
    f"{TOKENS}.sum() / max(x.size(0), 1)",
    f"{TOKENS}.sum() / (y.shape[0] * y.shape[1])",
    f"{TOKENS}.sum() / torch.ones_like(y).sum()",
    f"{TOKENS}.sum() / torch.tensor([1.0, 2.0, 0.5, 1.5])[y.clamp(min=0)].sum()",
    f"{TOKENS}.sum() / (b > 0).sum()",
    f"{TOKENS}.sum() * (b == 0).sum() / (b > 0).sum()",
    f"{TOKENS}.sum() / m.sum().sqrt()",
    f"{TOKENS}.sum() * m.sum().reciprocal()",
    f"torch.where(m.sum() > 0, ({SQUARES} * m).sum() / m.sum(), 0.0)",
    f"({SQUARES} * m).sum() / torch.maximum(m.sum(), torch.ones(()))",
    f"({SQUARES} * m).sum() / torch.stack([m.sum(), k.sum()]).max()",
    f"({SQUARES} * m).sum() / torch.einsum('bt->', m)",
    f"({SQUARES} * m).sum() / m.sum(dtype=torch.float64)",
    f"(({SQUARES} * m).sum(1) / m.sum(1).clamp(min=1)).mean()",
    f"({SQUARES}.mean(1) * w / w.sum()).sum()",
    f"({SQUARES}.mean(1) * w).sum() / w.detach().norm(p=1)",
    f"({SQUARES} * m).sum() / (m.sum() * w.sum()) + {TOKENS}.sum() / m.sum()",
]

LIBRARY = [
    "F.cross_entropy(z.flatten(0, 1), y.flatten())",
    "F.cross_entropy(z.flatten(0, 1), y.flatten(), weight=torch.tensor([1.0, 2.0, 0.5, 1.5]))",
    "F.cross_entropy(z.flatten(0, 1), y.flatten(), label_smoothing=0.125)",
    "F.cross_entropy(p, torch.softmax(m, -1))",
    "F.nll_loss(F.log_softmax(z, -1).flatten(0, 1), y.flatten())",
    "F.mse_loss(p, b)",
    "F.l1_loss(p, b)",
    "F.smooth_l1_loss(p, b, beta=0.5)",
    "F.huber_loss(p, b, delta=0.5)",
    "F.binary_cross_entropy(torch.sigmoid(p), b)",
    "F.binary_cross_entropy_with_logits(p, b)",
    "F.binary_cross_entropy_with_logits(p, b, weight=m, pos_weight=torch.tensor([2.0, 0.5, 1.5]))",
    "F.kl_div(F.log_softmax(p, -1), torch.softmax(m, -1), reduction='batchmean')",
    "F.kl_div(F.log_softmax(p, -1), torch.log_softmax(m, -1), log_target=True)",
    "F.poisson_nll_loss(p, m)",
    "F.gaussian_nll_loss(p, b, F.softplus(p) + m + 0.25)",
    "F.hinge_embedding_loss(p, 2 * b - 1)",
    "F.soft_margin_loss(p, 2 * b - 1)",
    "F.multilabel_soft_margin_loss(p, b)",
    "F.multilabel_margin_loss(z[:, 0], F.pad(y.clamp(min=0)[:, :1], (0, 3), value=-1))",
    "F.multi_margin_loss(z[:, 0], y[:, 0].clamp(min=0))",
    "F.margin_ranking_loss(p[:, 0], p[:, 1], 2 * b[:, 0] - 1, margin=0.5)",
    "F.cosine_embedding_loss(z[:, 0], z[:, 1], 2 * b[:, 0] - 1, margin=0.25)",
    "F.triplet_margin_loss(z[:, 0], z[:, 1], z[:, 2])",
    "F.triplet_margin_with_distance_loss(z[:, 0], z[:, 1], z[:, 2], distance_function=lambda a, c: (a - c).abs().sum(-1))",
    "F.ctc_loss(F.log_softmax(z, -1).transpose(0, 1), y.clamp(min=1)[:, :2], torch.full_like(y[:, 0], 3), k.sum(1).clamp(1, 2))",
]


class Table:
    """What became of each loss in each form."""

    def __init__(self, forms):
        self.forms, self.rows = list(forms), collections.defaultdict(dict)

    def add(self, loss, form, kind):
        self.rows[loss][form] = kind

    def totals(self):
        counts = {form: collections.Counter(row[form] for row in self.rows.values() if form in row) for form in self.forms}
        return "\n".join(f"{form}: {', '.join(f'{count} {kind}' for kind, count in sorted(counts[form].items()))}" for form in self.forms)

    def __str__(self):
        lines = [" ".join(f"{row.get(form, '-'):<10}" for form in self.forms) + loss for loss, row in self.rows.items()]
        return "\n".join([" ".join(f"{form:<10}" for form in self.forms), *lines, self.totals()])
