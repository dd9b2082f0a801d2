"""Small modules of seven families, for tools/make-check-folder."""
import torch
from torch import nn
from torch.nn import functional as F

SAMPLES, PLACES, WORDS, WIDTH, HEADS, CLASSES = 7, 6, 20, 16, 4, 5


def distinct(module):
    """No two parameters are alike, so that each initializer is known by its numbers."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return module


def drawn():
    return torch.Generator().manual_seed(2)


def of_words(module, **more):
    words = torch.randint(WORDS, (SAMPLES, PLACES), generator=drawn())
    return {"module": distinct(module), "inputs": {"words": words, **more}, "outputs": ["logits"], "labels": {"y": words.flip(1)},
            "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}]}


def of_images(module):
    images = torch.randn(SAMPLES, 3, 16, 16, generator=drawn())
    return {"module": distinct(module), "inputs": {"images": images}, "outputs": ["logits"],
            "labels": {"y": torch.arange(SAMPLES) % CLASSES}, "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}]}


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal, self.norm, self.qkv, self.out = causal, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, places, _ = x.shape
        parts = self.qkv(self.norm(x)).view(batch, places, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, places, WIDTH))


class Decoder(nn.Module):
    """Causal, with a tied head."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.Sequential(Attention(True), Attention(True))

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        return self.blocks(x) @ self.words.weight.T


class Encoder(nn.Module):
    """With a mask of padding for each sample."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words, seen):
        hidden = (1 - seen)[:, None, None, :].to(torch.float32) * -1e4
        mask = hidden.expand(words.shape[0], HEADS, words.shape[1], words.shape[1]).reshape(-1, words.shape[1], words.shape[1])
        return self.head(self.layers(self.words(words), mask=mask))


class PlacesFirst(nn.Module):
    """Encoder and decoder on [places, samples, width]."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.both = nn.Transformer(WIDTH, HEADS, 1, 1, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words).transpose(0, 1)
        return self.head(self.both(x, torch.tanh(x))).transpose(0, 1)


class Patches(nn.Module):
    """An image as patches behind a class token, and behind another one: of one sample their gradients share memory."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, WIDTH)), nn.Parameter(torch.zeros(1, 17, WIDTH))
        self.other = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.blocks, self.head = nn.Sequential(Attention(False), Attention(False)), nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(images.shape[0], -1, -1), x], dim=1)
        x = tokens + torch.cat([self.other.expand(images.shape[0], -1, -1), torch.tanh(x)], dim=1) + self.places
        return self.head(self.blocks(x)[:, 0])


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(8 * 16, CLASSES)

    def forward(self, images):
        x = torch.relu(self.norm(self.first(images)))
        x = F.max_pool2d(x + self.second(x), 2)
        return self.head(F.adaptive_avg_pool2d(x, 4).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words))[0])


class Places(nn.Module):
    """What one sample hides: a row of a buffer that samples pick from, views that leave the places open, one head, and the place of
    the largest word among the rows of all samples."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kinds", (torch.arange(PLACES + 2) % 2)[None])
        self.words, self.types = nn.Embedding(WORDS, WIDTH), nn.Embedding(2, WIDTH)
        self.key, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        batch, places = words.shape
        seen = (words != 1).long()
        kinds = torch.gather(self.kinds.expand(batch, -1), 1, torch.cumsum(seen, 1) * seen)
        x = self.words(words) + self.types(kinds)
        heads = x.view(batch, -1, 1, WIDTH)
        scores = torch.einsum("bihd,bjhd->bhij", heads, self.key(x).view(batch, -1, 1, WIDTH))
        x = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), heads).reshape(batch, places, WIDTH)
        last = x[torch.arange(batch), words.argmax(-1)]
        return self.head(x + last[:, None])


def decoder():
    return of_words(Decoder())


def encoder():
    seen = (torch.arange(PLACES) < torch.arange(SAMPLES)[:, None] % PLACES + 1).to(torch.int64)
    return of_words(Encoder(), seen=seen)


def places_first():
    return {**of_words(PlacesFirst()), "fold": False}  # else the older exporter cuts projections in three


def patches():
    return of_images(Patches())


def convolutions():
    return of_images(Convolutions())


def recurrent():
    return of_words(Recurrent())


def places():
    return of_words(Places())


FAMILIES = [decoder, encoder, places_first, patches, convolutions, recurrent, places]
