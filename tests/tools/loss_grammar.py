"""Random losses that are linear forms of sums over samples, written in PyTorch as `loss_folders` reads them.

A loss is a sum of terms; a term is a sum over samples of what each sample computes, times a coefficient. A coefficient is a function of
counts, which are sums over samples of what depends on inputs alone. Every method returns an expression in parentheses or a call."""

TOKEN_LOSSES = [
    "F.cross_entropy(z.transpose(1, 2), y, reduction='none')",
    "F.nll_loss(F.log_softmax(z.transpose(1, 2), 1), y, reduction='none')",
    "(-F.log_softmax(z, -1).gather(-1, y.clamp(min=0)[..., None])[..., 0])",
]
TARGET_LOSSES = [
    "((p - t.nan_to_num()) ** 2)",
    "F.mse_loss(p, t.nan_to_num(), reduction='none')",
    "(p - torch.where(t.isfinite(), t, 0.25)).abs()",
    "torch.where((p - t.nan_to_num()).abs() < 0.5, (p - t.nan_to_num()) ** 2, (p - t.nan_to_num()).abs() - 0.25)",
]
BINARY_LOSSES = [
    "F.binary_cross_entropy_with_logits(p, b, reduction='none')",
    "F.binary_cross_entropy_with_logits(p, b, pos_weight=(b <= 0).sum() / (b > 0).sum(), reduction='none')",
    "(-b * torch.log(torch.sigmoid(p)) - (1 - b) * torch.log(1 - torch.sigmoid(p)))",
    "F.relu(1 - (2 * b - 1) * p)",
    "F.softplus((1 - 2 * b) * p)",
]
MASKS = ["m", "k", "(y != -100)", "t.isfinite()", "(b > 0)", "w[:, None]", "(m > 0).float()", "(w / w.sum())[:, None]", "(m * w[:, None])"]
COUNTS = ["m.sum()", "k.sum()", "k.float().sum()", "(y != -100).sum()", "y.ne(-100).sum().float()", "(y[:, 1:] != -100).sum()", "(b > 0).sum()",
          "(b == 0).sum()", "t.isfinite().sum()", "(~t.isnan()).float().sum()", "w.sum()", "m.sum(1).sum()", "(m * w[:, None]).sum()"]
SIZES = ["x.size(0)", "m.numel()", "(y.shape[0] * 3)", "max(x.size(0), 1)", "x.shape[0]"]
LIBRARY = [
    "F.cross_entropy(z.flatten(0, 1), y.flatten())",
    "F.cross_entropy(z.transpose(1, 2), y, reduction='sum')",
    "F.cross_entropy(z[:, :-1].flatten(0, 1), y[:, 1:].flatten())",
    "F.cross_entropy(z.flatten(0, 1), F.pad(y, (0, 1), value=-100)[:, 1:].flatten())",
    "(F.cross_entropy(z[:, :-1].flatten(0, 1), y[:, 1:].flatten(), reduction='sum') / (y[:, 1:] != -100).sum())",
    "F.mse_loss(p, t.nan_to_num())",
    "F.mse_loss(p, t.nan_to_num(), reduction='sum')",
    "F.binary_cross_entropy_with_logits(p, b)",
    "F.binary_cross_entropy_with_logits(p, b, weight=m)",
    "F.binary_cross_entropy_with_logits(p, b, pos_weight=(b == 0).sum() / (b > 0).sum().clamp(min=1))",
]
PENALTIES = ["(0.25 * (self.first ** 2).sum())", "(0.5 * self.first.abs().mean())", "(self.first * self.first).sum()"]


class Grammar:
    def __init__(self, random):
        self.random = random

    def any(self, *choices):
        return self.random.choice(choices)

    def elements(self):
        """Of each sample [B,3]."""
        return self.any(*self.any(TOKEN_LOSSES, TARGET_LOSSES, BINARY_LOSSES))

    def sum(self):
        loss, mask = self.elements(), self.any(*MASKS)
        return self.any(
            f"({loss} * {mask}).sum()", f"({loss} * {mask}).sum(1).sum()", f"torch.sum({loss} * {mask})", f"({mask} * {loss}).mean(1).sum()",
            f"torch.where(k, {loss}, 0.0).sum()", f"{loss}.masked_fill(~k, 0.0).sum()", f"{loss}.sum(-1).sum()")

    def mean(self):
        loss, mask = self.elements(), self.any(*MASKS)
        return self.any(f"{loss}.mean()", f"({loss} * {mask}).mean()", f"({loss} * {mask}).sum(1).mean()", f"torch.mean({loss}.mean(1) * w)",
                        f"(({loss} * m).sum(1) / m.sum(1).clamp(min=1)).mean()")

    def count(self):
        """A sum over inputs, never 0 over the whole mini-batch."""
        count = self.any(*COUNTS)
        return self.any(count, count, f"{count}.clamp(min=1)", f"({count} + 1e-8)", f"torch.maximum({count}, torch.ones_like({count}))",
                        f"torch.clamp({count}, 2)", f"(1 + {count})", f"{count}.detach()")

    def coefficient(self):
        """What divides."""
        one, other = self.count(), self.count()
        return self.any(one, one, one, self.any(*SIZES), f"{one}.sqrt()", f"({one} * {other})", f"({one} / {other})", f"({one} + {other})",
                        f"({one} * x.size(0))", f"({one} / 2)")

    def term(self):
        total, count = self.sum(), self.any(*COUNTS)
        return self.any(
            *3 * [f"({total} / {self.coefficient()})"],
            f"torch.div({total}, {self.coefficient()})",
            f"({total} * (1 / {self.coefficient()}))",
            f"({total} * ({self.count()} / {self.count()}))",
            f"(({total} + {self.sum()}) / {self.coefficient()})",
            f"({total} / {count} - 0.5 * {self.sum()} / {count})",
            f"torch.where({count} > 0, {total} / {count}, 0.0)",
            self.mean(),
            *2 * [self.any(*LIBRARY)])

    def combined(self):
        a, b = self.term(), self.term()
        return self.any(
            a, f"({a} + {b})", f"({a} - 0.25 * {b})", f"({a} / 4 + {b})", f"torch.stack([{a}, {b}]).mean()", f"torch.stack([{a}, {b}]).sum()",
            f"torch.stack([{a}, {b}, {self.term()}]).mean()", f"torch.cat([{a}.view(1), {b}.view(1)]).sum()",
            f"torch.cat([{a}[None], {b}[None]]).mean()", f"sum([{a}, {b}])", f"({a} + {self.any(*PENALTIES)})", f"(({a} + {b}) / 2)")

    def loss(self):
        loss = self.combined()
        for _ in range(self.random.randrange(3)):
            loss = self.any(
                f"(0 + {loss})", f"(torch.zeros(()) + {loss})", f"({loss} + 0.5)", f"(2 * {loss})", f"(-(-{loss}))", f"({loss} - 0.25)",
                f"{loss}.double()", f"{loss}.float()", f"{loss}.double().float()", f"(torch.exp(-self.s) * {loss} + self.s)",
                f"({loss} * F.softplus(self.s))", f"({loss} + {self.any(*PENALTIES)})")
        return loss
