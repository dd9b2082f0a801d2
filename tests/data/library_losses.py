"""The model of small_library_losses, for tools/make-check-folder: losses of PyTorch's library inside of a scripted module."""
import torch
from torch import nn
from torch.nn import functional as F

from models import SAMPLES, randomized

WIDTH, CLASSES, PLACES, LABELS = 6, 4, 5, 2


class LibraryLosses(nn.Module):
    """Two heads for each kind of loss, so that a wrong gradient names it."""

    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.left, self.right = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.hinge, self.several = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.bits, self.rates = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.shares, self.own = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.words = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("weights", torch.tensor([0.5, 1.0, 1.5, 0.75]))

    def pairs(self, x, targets, signs):
        near, far, left, right = self.near(x), self.far(x), self.left(x), self.right(x)
        loss = F.triplet_margin_loss(near, far, targets, swap=True) + F.triplet_margin_loss(far, near, targets, p=3.0, reduction="sum")
        loss = loss + F.cosine_embedding_loss(left, right, signs[:, 0], margin=0.25)
        loss = loss + F.margin_ranking_loss(left, right, signs, margin=0.5, reduction="none").square().sum()
        return loss + F.hinge_embedding_loss(self.hinge(x), signs) + F.soft_margin_loss(self.hinge(x), signs, reduction="sum")

    def classes(self, x, labels, lists):
        several = self.several(x)
        loss = F.multi_margin_loss(several, labels) + F.multi_margin_loss(several, labels, p=2, weight=self.weights, reduction="sum")
        return loss + F.multilabel_margin_loss(several, lists, reduction="none").square().mean()

    def probabilities(self, x, counts, targets):
        shares, bits = torch.softmax(targets, 1), self.bits(x)
        loss = F.binary_cross_entropy(torch.sigmoid(bits), shares, self.weights)
        loss = loss + F.binary_cross_entropy(torch.clamp(bits, 0.0, 1.0), (counts > 1).to(x.dtype), reduction="sum")
        loss = loss + F.poisson_nll_loss(self.rates(x), counts, full=True)
        loss = loss + F.poisson_nll_loss(F.softplus(self.rates(x)), counts, log_input=False, reduction="sum")
        logs = F.log_softmax(self.shares(x), 1)
        return loss + F.kl_div(logs, shares, reduction="batchmean") + F.kl_div(logs, F.log_softmax(self.own(x), 1), log_target=True)

    def forward(self, x, steps, targets, signs, counts, labels, lists, words, lengths):
        logs = F.log_softmax(self.words(steps), 2).transpose(0, 1)
        places = torch.full_like(lengths, 5)
        loss = F.ctc_loss(logs, words, places, lengths) + F.ctc_loss(logs, words, places - 3, lengths, reduction="sum", zero_infinity=True)
        return loss + self.pairs(x, targets, signs) + self.classes(x, labels, lists) + self.probabilities(x, counts, targets)


def small_library_losses():
    module, generator = randomized(LibraryLosses(), 10)
    module.bits.bias.data[0] = 1.5  # clamped to 1 for some samples

    def numbers(*shape):
        return torch.randn(SAMPLES, *shape, generator=generator)

    def integers(low, high, *shape):
        return torch.randint(low, high, (SAMPLES, *shape), generator=generator)

    return {
        "what": "losses of torch.nn.functional: embeddings, margins, probabilities, counts, sequences",
        "module": module,
        "inputs": {
            "x": numbers(WIDTH),
            "steps": numbers(PLACES, WIDTH),
            "targets": numbers(CLASSES),
            "signs": integers(0, 2, CLASSES) * 2.0 - 1,
            "counts": integers(0, 5, CLASSES).float(),
            "labels": integers(0, CLASSES),
            "lists": torch.tensor([[3, 0, -1, 1], [-1, 1, 2, 3], [0, 1, 2, 3], [2, -1, 0, 0]] * 2),
            "words": integers(1, CLASSES, LABELS),
            "lengths": integers(0, LABELS + 1),
        },
        "outputs": ["loss"],
        "labels": {},
        "loss": [{"kind": "in_graph", "output": "loss"}],
    }
