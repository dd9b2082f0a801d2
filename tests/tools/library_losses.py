"""The losses of PyTorch's library, each as the last expression of a small module, for tools/make-check-folder."""
import ast

import torch

SAMPLES, FEATURES, CLASSES, PLACES = 8, 5, 4, 6

# What an expression may read: `h` and `k` are predictions [samples, classes], `z` one per place [samples, places, classes], `c` and
# `o` numbers per class. The others are inputs.
PREDICTIONS = {"h": "self.a(x)", "k": "self.b(x)", "z": "self.a(u)", "c": "self.c", "o": "self.o"}

# By kind, with the reduction left open.
KINDS = {
    "l1": "F.l1_loss(h, t, reduction={r})",
    "mse": "F.mse_loss(h, t, reduction={r})",
    "mse_stretched": "F.mse_loss(z, t.unsqueeze(1), reduction={r})",
    "smooth_l1": "F.smooth_l1_loss(h, t, beta=0.5, reduction={r})",
    "smooth_l1_of_0": "F.smooth_l1_loss(h, t, beta=0.0, reduction={r})",
    "huber": "F.huber_loss(h, t, delta=0.75, reduction={r})",
    "triplet": "F.triplet_margin_loss(h, k, t, reduction={r})",
    "triplet_swap": "F.triplet_margin_loss(h, k, t, margin=0.5, p=2.0, swap=True, reduction={r})",
    "triplet_l1": "F.triplet_margin_loss(h, k, t, margin=1.5, p=1.0, reduction={r})",
    "triplet_l3": "F.triplet_margin_loss(h, k, t, p=3.0, eps=1e-3, reduction={r})",
    "triplet_places": "F.triplet_margin_loss(z, k.unsqueeze(1), t.unsqueeze(1), reduction={r})",
    "cosine": "F.cosine_embedding_loss(h, k, s, margin=0.25, reduction={r})",
    "cosine_whole": "F.cosine_embedding_loss(h, t, g, reduction={r})",
    "ranking": "F.margin_ranking_loss(h, k, e, margin=0.25, reduction={r})",
    "hinge": "F.hinge_embedding_loss(h, e, margin=0.5, reduction={r})",
    "poisson": "F.poisson_nll_loss(h, n, reduction={r})",
    "poisson_full": "F.poisson_nll_loss(h, n, full=True, reduction={r})",
    "poisson_rate": "F.poisson_nll_loss(F.softplus(h), n, log_input=False, eps=1e-3, reduction={r})",
    "soft_margin": "F.soft_margin_loss(h, e, reduction={r})",
    "multi_margin": "F.multi_margin_loss(h, y, reduction={r})",
    "multi_margin_square": "F.multi_margin_loss(h, y, p=2, margin=0.75, weight=c, reduction={r})",
    "multilabel_margin": "F.multilabel_margin_loss(h, m, reduction={r})",
    "multilabel_soft_margin": "F.multilabel_soft_margin_loss(h, b, reduction={r})",
    "multilabel_soft_margin_weighted": "F.multilabel_soft_margin_loss(h, b, c, reduction={r})",
    "bce": "F.binary_cross_entropy(torch.sigmoid(h), q, reduction={r})",
    "bce_saturated": "F.binary_cross_entropy(torch.clamp(h, 0.0, 1.0), b, reduction={r})",
    "bce_weighted": "F.binary_cross_entropy(torch.sigmoid(h), q, w, reduction={r})",
    "bce_class_weights": "F.binary_cross_entropy(torch.sigmoid(h), q, c, reduction={r})",
    "bce_logits": "F.binary_cross_entropy_with_logits(h, q, reduction={r})",
    "bce_logits_weighted": "F.binary_cross_entropy_with_logits(h, q, w, pos_weight=c, reduction={r})",
    "bce_logits_sample_weights": "F.binary_cross_entropy_with_logits(h, q, s.abs().unsqueeze(1) * w, reduction={r})",
    "cross_entropy": "F.cross_entropy(h, y, reduction={r})",
    "cross_entropy_ignored": "F.cross_entropy(h, v, reduction={r})",
    "cross_entropy_ignored_class": "F.cross_entropy(h, y, ignore_index=2, reduction={r})",
    "cross_entropy_weighted": "F.cross_entropy(h, v, c, reduction={r})",
    "cross_entropy_smoothed": "F.cross_entropy(h, v, label_smoothing=0.25, reduction={r})",
    "cross_entropy_weighted_smoothed": "F.cross_entropy(h, v, c, label_smoothing=0.25, reduction={r})",
    "cross_entropy_places": "F.cross_entropy(z.transpose(1, 2), l, c, ignore_index=3, label_smoothing=0.125, reduction={r})",
    "cross_entropy_flat": "F.cross_entropy(z.reshape(-1, 4), l.reshape(-1), ignore_index=3, reduction={r})",
    "cross_entropy_soft": "F.cross_entropy(h, p, reduction={r})",
    "cross_entropy_soft_weighted": "F.cross_entropy(h, p, c, label_smoothing=0.25, reduction={r})",
    "nll": "F.nll_loss(F.log_softmax(h, 1), v, reduction={r})",
    "nll_weighted": "F.nll_loss(h, v, c, reduction={r})",
    "nll_places": "F.nll_loss(F.log_softmax(z.transpose(1, 2), 1), l, ignore_index=3, reduction={r})",
    "nll_images": "F.nll_loss(z.view(-1, 2, 3, 4).permute(0, 3, 1, 2).contiguous(), l.view(-1, 2, 3), c, reduction={r})",
    "kl": "F.kl_div(F.log_softmax(h, 1), p, reduction={r})",
    "kl_of_zeros": "F.kl_div(F.log_softmax(h, 1), b, reduction={r})",
    "kl_log_target": "F.kl_div(F.log_softmax(h, 1), F.log_softmax(k, 1), log_target=True, reduction={r})",
    "gaussian": "F.gaussian_nll_loss(h, t, F.softplus(k), reduction={r})",
    "gaussian_full": "F.gaussian_nll_loss(h, t, F.softplus(k), full=True, eps=0.5, reduction={r})",
    "gaussian_one_variance": "F.gaussian_nll_loss(h, t, F.softplus(k[:, :1]), reduction={r})",
    "gaussian_number": "F.gaussian_nll_loss(h, t, 0.75, full=True, reduction={r})",
    "ctc": "F.ctc_loss(F.log_softmax(z, 2).transpose(0, 1), d, i, j, reduction={r})",
    "ctc_blank": "F.ctc_loss(F.log_softmax(z, 2).transpose(0, 1), d - 1, i, j, blank=3, reduction={r})",
    "ctc_too_long": "F.ctc_loss(F.log_softmax(z, 2).transpose(0, 1), d, i - 3, j, zero_infinity=True, reduction={r})",
}
REDUCTIONS = ("mean", "sum", "none", "batchmean")


def expressions():
    """{name: expression}. What is not reduced is squared, so that each of its elements matters."""
    made = {}
    for kind, text in KINDS.items():
        for reduction in REDUCTIONS:
            if reduction == "batchmean" and not kind.startswith("kl"):
                continue
            loss = text.format(r=repr(reduction))
            made[f"{kind}_{reduction}"] = f"(({loss}) ** 2).sum()" if reduction == "none" else loss
    return made


def inputs_of(expression):
    """The inputs that an expression reads, in the order of `tensors`, and the predictions."""
    words = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
    read = {**{name: PREDICTIONS[name] for name in PREDICTIONS if name in words}}
    sources = {"x" for name in read if name in "hk"} | {"u" for name in read if name == "z"}
    return [name for name in tensors() if name in words | sources], read


def tensors():
    generator = torch.Generator().manual_seed(5)

    def numbers(*shape):
        return torch.randn(SAMPLES, *shape, generator=generator)

    def integers(low, high, *shape):
        return torch.randint(low, high, (SAMPLES, *shape), generator=generator)

    def signs(*shape):
        return integers(0, 2, *shape) * 2.0 - 1

    y, bits = integers(0, CLASSES), integers(0, 2, CLASSES).float()
    return {
        "x": numbers(FEATURES),
        "u": numbers(PLACES, FEATURES),
        "t": numbers(CLASSES),
        "y": y,
        "v": torch.where(torch.arange(SAMPLES) % 3 == 0, -100, y),
        "l": integers(0, CLASSES, PLACES),
        "s": signs(),
        "g": torch.where(torch.arange(SAMPLES) % 3 == 0, 0, signs().long()),  # neither 1 nor -1: not counted
        "e": signs(CLASSES),
        "n": integers(0, 5, CLASSES).float(),
        "b": bits,
        "q": torch.rand(SAMPLES, CLASSES, generator=generator),
        "p": torch.softmax(numbers(CLASSES), 1),
        "w": torch.rand(SAMPLES, CLASSES, generator=generator) + 0.5,
        "m": torch.tensor([[3, 0, -1, 1], [-1, 1, 2, 3], [0, 1, 2, 3], [2, -1, 0, 0]] * 2),
        "d": integers(1, CLASSES, 3),
        "i": integers(PLACES - 1, PLACES + 1),
        "j": torch.tensor([1, 2, 3, 2, 0, 1, 3, 2]),
    }


CASE = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = nn.Linear({features}, {classes}), nn.Linear({features}, {classes})
        self.register_buffer("c", torch.tensor([0.5, 1.0, 1.5, 0.75]))
        self.register_buffer("o", torch.tensor([1.0, 2.0, 0.5, 3.0]))
{unread}
    def forward(self, {arguments}):
{predictions}        return {expression}


def case_{name}():
    return case({name}(), {inputs})
"""


def source(chosen):
    """The text of a module of factories for {name: expression}."""
    text = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\nfrom library_losses import case\n"
    for name, expression in chosen.items():
        inputs, read = inputs_of(expression)
        attributes = {"h": "a", "z": "a", "k": "b", "c": "c", "o": "o"}
        kept = {attributes[each] for each in read}
        text += CASE.format(
            name=name, features=FEATURES, classes=CLASSES, arguments=", ".join(inputs), expression=expression, inputs=inputs,
            unread="".join(f"        del self.{each}\n" for each in "abco" if each not in kept),
            predictions="".join(f"        {name} = {value}\n" for name, value in read.items()))
    return text


def case(module, names):
    data = tensors()
    return {"module": module, "inputs": {name: data[name] for name in names}, "outputs": ["loss"], "labels": {},
            "loss": [{"kind": "in_graph", "output": "loss"}]}
